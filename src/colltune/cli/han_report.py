"""What `colltune han` prints and writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from colltune.cli.console import columns, show, show_json
from colltune.errors import DataError

if TYPE_CHECKING:
    from colltune.domain import Shape
    from colltune.han.choosing import JobSetup, Pick
    from colltune.han.comparing import Compared, Exhaustive
    from colltune.han.tasks_file import TaskTimes

_RULES, _PARAMETERS = "han.rules", "han.tune"
_MS = 1e3


def written(times: TaskTimes, shape: Shape, job: JobSetup, folder: Path) -> tuple[Path, Path]:
    """Write the rules and parameters of a job; return where."""
    from colltune.files import whole
    from colltune.mpi.openmpi.han_job import job_files

    rules, parameters = folder / _RULES, folder / _PARAMETERS
    release = times.context.library_version
    files = job_files(release, shape, job.setups, rules.absolute())
    for path, text in ((rules, files.rules), (parameters, files.parameter_file)):
        with whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return rules, parameters


def show_picks(
    picks: Sequence[Pick], job: JobSetup, files: Sequence[Path], *, as_json: bool
) -> None:
    """Show the best setup of every instance, the job's, and what was written."""
    from colltune.mpi import LIBRARIES

    if as_json:
        show_json(
            {
                "picks": [_pick_facts(pick) for pick in picks],
                "job": {
                    c.value: {
                        "setup": setup.id,
                        "slowdown": round(job.slowdown[c], 4),
                        "worst_slowdown": round(job.worst[c], 4),
                    }
                    for c, setup in job.setups.items()
                },
                "files": [str(path) for path in files],
            }
        )
        return
    rows = [
        [
            pick.instance.collective.value,
            str(pick.instance.msize_bytes),
            pick.setup.parameter_text,
            f"{pick.time_s * _MS:.3f}",
        ]
        for pick in picks
    ]
    show(columns(["collective", "bytes", "best setup", "composed ms"], rows))
    show("\nFor a whole job, of which a collective has one setup for all messages:")
    for collective, setup in job.setups.items():
        mean, worst = job.slowdown[collective], job.worst[collective]
        show(f"{setup.id}")
        show(f"  {mean:.2f} times the best of each message in the mean, {worst:.2f} at worst")
    if files:
        show(f"\n-> {', '.join(map(str, files))}")
        show(LIBRARIES["openmpi"].start_line(files[-1].absolute()))


def _pick_facts(pick: Pick) -> dict[str, object]:
    return {
        "collective": pick.instance.collective.value,
        "shape": str(pick.instance.shape),
        "msize_bytes": pick.instance.msize_bytes,
        "setup": pick.setup.id,
        "time_s": pick.time_s,
    }


def insist_on(exhaustive: Exhaustive) -> None:
    """Refuse data without setups of coll/han.

    Raises
    ------
    DataError
        If there are none.
    """
    if not exhaustive:
        raise DataError(
            "the data hold no setups of coll/han; measure them by `colltune measure` with"
            " --only '*.han_intra*' on several nodes"
        )


def show_compared(compared: Sequence[Compared], picture: Path | None, *, as_json: bool) -> None:
    """Show how the picks do, and draw figure 9."""
    from colltune.han.comparing import mean_regret

    if picture is not None:
        from colltune.plots.han import picks
        from colltune.plots.saving import saved

        saved(picks(compared), picture)
    if as_json:
        facts = [_compared_facts(one) for one in compared]
        show_json({"mean_regret": round(mean_regret(compared), 4), "instances": facts})
        return
    rows = [
        [
            one.instance.collective.value,
            str(one.instance.shape),
            str(one.instance.msize_bytes),
            one.picked.parameter_text,
            *(f"{s * _MS:.3f}" for s in (one.composed_s, one.picked_s, one.best_s, one.median_s)),
            f"{one.regret:.1%}",
        ]
        for one in compared
    ]
    header = ["collective", "shape", "bytes", "picked", "composed ms", "ms", "best ms", "median ms"]
    show(columns([*header, "regret"], rows))
    show(f"\nmean regret: {mean_regret(compared):.1%}")
    if picture is not None:
        show(f"-> {picture}")


def _compared_facts(one: Compared) -> dict[str, object]:
    return {
        "collective": one.instance.collective.value,
        "shape": str(one.instance.shape),
        "msize_bytes": one.instance.msize_bytes,
        "picked": one.picked.id,
        "best": one.best.id,
        "composed_s": one.composed_s,
        "picked_s": one.picked_s,
        "best_s": one.best_s,
        "median_s": one.median_s,
        "mean_s": one.mean_s,
        "regret": round(one.regret, 4),
    }
