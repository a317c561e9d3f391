"""`colltune tune`: measure, fit, select, write, and measure again whether it helped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli import started_s
from colltune.cli.console import (
    Mark,
    TextTable,
    Verbatim,
    marked,
    output,
    warn,
)
from colltune.cli.options import (
    BuiltinOperationsOnly,
    ForPrograms,
    ForResults,
    Interposed,
    Json,
    Mpi,
    Only,
    Quiet,
    Seed,
    Skip,
    StartedBy,
    programs_of,
    writable_folder,
)
from colltune.cli.progress import progress
from colltune.cli.which_bundle import remember
from colltune.errors import CampaignError, unknown
from colltune.text import counted, range_text

if TYPE_CHECKING:
    from colltune.bench.progress import CampaignProgress
    from colltune.cli.progress import Progress
    from colltune.tune.job import TunedRange
    from colltune.tune.pipeline import Tell, TuneResult, TuneSettings

_BACKENDS = ("native", "reprompi")


def tune(
    budget: Annotated[
        str,
        typer.Option(help="Hard limit of wall time, first compilation included: 90, 2m, 1h30m."),
    ] = "90s",
    out: Annotated[
        Path, typer.Option(help="Folder for all results.", callback=writable_folder)
    ] = Path("tuned"),
    mpi: Mpi = None,
    launcher: StartedBy = None,
    campaign: Annotated[
        Path | None, typer.Option(help="Campaign file (TOML); default: a built-in one.")
    ] = None,
    ppn: Annotated[
        int | None,
        typer.Option(
            help="Number of processes; default: one per core, on fewer than 4 cores 4 of an MPI "
            "whose waiting processes leave their core to others (Open MPI).",
            min=2,
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="What measures all configurations: native or reprompi. What they propose is "
            "confirmed by native."
        ),
    ] = None,
    learner: Annotated[str, typer.Option(help="As in `fit`.")] = "auto",
    only: Only = None,
    skip: Skip = None,
    interposed: Interposed = False,
    programs: ForPrograms = None,
    results: ForResults = None,
    builtin_operations_only: BuiltinOperationsOnly = False,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find faster collective algorithms for this machine, and prove that MPI uses them.

    It measures every configuration, fits models, selects, and writes the MPI library's
    configuration. Then it measures the selected algorithms in turn with the default, withdraws
    those that are not faster beyond doubt, and checks which algorithms really ran.

    Example: colltune tune --budget 60 --out tuned
    """
    import time
    from dataclasses import replace

    began = started_s() or time.monotonic()
    from colltune import process
    from colltune.bench import campaign_file, durations
    from colltune.bench.backends.native import NativeBackend
    from colltune.cli.campaigns import backend_of, installation_of
    from colltune.tune import pipeline
    from colltune.tune.pipeline import TuneSettings, slowdown

    plan = campaign_file.load(campaign) if campaign else campaign_file.laptop()
    plan = plan.changed(
        total_s=durations.seconds(budget),
        ppn=(ppn,) if ppn else None,
        only=tuple(only) if only else None,
        skip=tuple(skip) if skip else None,
        interposed=interposed or None,
        backend=backend,
        launcher_program=launcher,
        programs=programs_of(
            programs,
            results,
            builtin_operations_only=builtin_operations_only,
            otherwise=plan.programs,
        ),
    )
    if plan.backend not in _BACKENDS:
        raise unknown("backend of tune", plan.backend, _BACKENDS, CampaignError)
    slow = slowdown(began, 0.0)
    settings = TuneSettings(plan, out, learner, seed, began, slow)
    settings.insist_on_enough()
    kept = f"the measurements are kept in {out}; the same command starts from the beginning"
    with (
        progress("preparing", quiet=quiet or json, interrupted=kept) as shown,
        process.ending_by(settings.moment()),
    ):
        with settings.told_of_time():
            found = installation_of(plan, mpi)
        settings = replace(settings, campaign=plan.changed(library=found.library))
        native = NativeBackend(found)
        native.insist_on_freedom()
        measuring = None if plan.backend == "native" else backend_of(plan, None, mpi)
        result = pipeline.tune(settings, found, native, _teller(shown, settings), measuring)
    remember(result.bundle)
    warnings = (*result.report.problems, *(f"note: {note}" for note in result.notes))
    output(result, _lines(result), json=json, warnings=warnings)


def _teller(shown: Progress, settings: TuneSettings) -> Tell:
    """Return what tells `shown` which stage goes on, and what is spent of the budget of it all."""
    from colltune.cli.campaigns import cells_done, under_way

    def tell(stage: str, now: CampaignProgress | str) -> None:
        if shown.title != stage:
            shown.phase(stage)
        facts: tuple[str, ...] = ()
        if not isinstance(now, str):
            if now.note:
                warn(now.note)
            facts = cells_done(now) if stage == "measuring" else ()
            now = under_way(now)
        shown.spend(settings.spent_s(), settings.campaign.total_s, facts=facts, now=now)

    return tell


_HEADER = (
    *("collective", "message size", "default runs", "chosen", "predicted", "measured"),
    *("launches", "verdict", "in effect"),
)
_WRAP = ("chosen", "default runs", "verdict")
_DROP = ("launches", "predicted", "default runs", "in effect")


def _lines(result: TuneResult) -> Iterator[str | TextTable]:
    yield (
        f"{result.context}; {counted(result.shape.nodes, 'node')} x "
        f"{counted(result.shape.ppn, 'process', 'es')}"
    )
    if result.cores_shared:
        yield (
            f"cores are shared, {result.cores_shared}: the figures hold for jobs that share cores, "
            "too, and not for those with a core for each process"
        )
    shared = " (shared cores)" if result.cores_shared else ""
    yield TextTable(_HEADER, [_cells(row, shared) for row in result.rows], _WRAP, _DROP)
    yield ""
    share = result.timed_s / result.wall_s
    yield (
        f"{result.wall_s:.0f} s in total, {share:.0%} of them in timed loops; "
        f"{counted(result.report.measurements, 'cell')} in "
        f"{counted(result.report.launches, 'launch', 'es')}"
    )
    yield f"tuned          {result.mpirun}"
    yield f"for            {result.written.programs.phrase}"
    yield f"dataset        {result.dataset}"
    yield f"bundle         {result.bundle}"
    yield f"configuration  {result.configuration}"
    if result.job_line is None:
        yield f"nothing to add to a job: {result.unproven}"
    else:
        yield f"add this line to a job{' that shares cores, too' if shared else ''}:"
        yield Verbatim(f"  {result.job_line}")
    yield f"to see it      {result.page.absolute()}"
    yield result.gain.sentence


def _cells(row: TunedRange, shared: str) -> list[object]:
    interval, measured = row.interval, row.measured
    configuration, effect, gain = interval.configuration, "", ""
    if measured is not None and configuration.is_default:
        configuration = measured.proposed
    if measured is not None and measured.gain is not None:
        gain = f"{measured.gain:.2f}x"
        if measured.lower is not None:
            gain += f" [{measured.lower:.2f}, {measured.upper:.2f}]"
    if row.in_effect is not None:
        effect = marked("yes", Mark.GOOD) if row.in_effect else marked("NO", Mark.BAD)
    verdict = Mark.GOOD if row.verdict == "confirmed" else Mark.DOUBTFUL
    return [
        row.collective,
        range_text(interval.first_bytes, interval.last_bytes),
        ", ".join(row.default_algorithms) or "?",
        marked("default kept", Mark.UNCHANGED) if configuration.is_default else configuration.short,
        f"{row.predicted_gain:.2f}x" if row.predicted_gain else "",
        gain,
        measured.launches if measured else "",
        marked(f"{row.verdict}{shared}", verdict) if row.verdict else "",
        effect,
    ]
