"""`colltune plot …`: decision maps, runtime curves and regrets as pictures."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.options import Jobs, Json, Quiet, Where, writable_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from colltune.cli.console.live import Progress
    from colltune.cli.plot_source import Asked
    from colltune.models.guard import Guard
    from colltune.plot_data.maps import Maps
    from colltune.plot_data.regrets import Regrets
    from colltune.plot_data.runtimes import Runtimes
    from colltune.selector.argmin import ModelSelector

plot = typer.Typer(
    help="Draw decision maps, runtime curves and regrets of bundles or measurements.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Sources = Annotated[
    list[Path],
    typer.Argument(
        help="A bundle, or datasets: folders of Parquet, .parquet, .csv or .csv.gz.",
        metavar="SOURCE…",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        help="Picture to write: .png, .svg or .pdf.", metavar="FILE", callback=writable_file
    ),
]
Collectives = Annotated[
    list[str] | None,
    typer.Option("--collective", help="Only this collective; repeatable; default: all."),
]
Nodes = Annotated[str | None, typer.Option(help="Only these node counts: 4,16,36.")]
Ppn = Annotated[str | None, typer.Option(help="Only these processes per node: 1,8.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NODESxPPN", help="Only this shape; repeatable."),
]
Beside = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DATA", help="With a bundle: measurements of the same context; repeatable."
    ),
]
Guarded = Annotated[
    bool, typer.Option(help="Keep the default unless the gain is beyond doubt and noise.")
]
MaybeCaution = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="How much of the models' doubt a predicted gain must survive, as `select` has it;"
        " default: 1.",
    ),
]
MaybeObjective = Annotated[
    str | None,
    typer.Option(
        help="With measurements: what of a runtime counts, as `fit` has it; default: trimmed-mean."
    ),
]


class Upwards(StrEnum):
    """What is upwards in a map."""

    NODES = "nodes"
    PROCESSES = "processes"


@plot.command("map")
def map_(
    source: Sources,
    out: Out,
    collective: Collectives = None,
    nodes: Nodes = None,
    ppn: Ppn = None,
    shape: Shapes = None,
    over: Annotated[
        Upwards | None,
        typer.Option(
            help="What is upwards: nodes, one panel per ppn, or processes, all shapes in one;"
            " default: nodes unless there are more ppn than node counts."
        ),
    ] = None,
    data: Beside = None,
    guard: Guarded = True,
    caution: MaybeCaution = None,
    objective: MaybeObjective = None,
    where: Where = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw which algorithm is used, or was measured fastest, for which message size and shape.

    Of a bundle: its decisions, also for shapes that were not measured; with --data points show what
    was measured fastest. Of measurements: the fastest, and where the default is within the noise.

    Examples: a bundle beside what it was fitted to; what was measured.

    colltune plot map bundle --data measurements.csv.gz --out map.svg

    colltune plot map measurements.csv.gz --collective bcast --out map.png
    """
    from colltune.cli.console.live import progress
    from colltune.cli.plot_source import asked
    from colltune.plot_data import maps
    from colltune.plots.maps import draw

    upwards = maps.Over(over.value) if over else None
    found: maps.Maps
    with progress("reading", quiet=quiet or json) as shown:
        part = asked(source, out, (collective, nodes, ppn, shape), data, where)
        shown.phase("deciding")
        if part.bundle is None:
            statistic = part.objective(objective, guard=guard, caution=caution)
            found = maps.measured(
                part.measured,
                part.pick,
                objective=statistic,
                allocation_of=part.allocation_of,
                over=upwards,
            )
        else:
            chooser = part.selector({"--objective": objective}, guard=guard, caution=caution)
            found = maps.decided(
                chooser, part.pick, part.dataset, allocation_of=part.allocation_of, over=upwards
            )
        shown.phase("drawing")
        panels = _saved(draw(found), out)
    _tell(found, panels, out, json=json)


@plot.command("curves")
def curves_(
    source: Sources,
    out: Out,
    collective: Collectives = None,
    nodes: Nodes = None,
    ppn: Ppn = None,
    shape: Shapes = None,
    data: Beside = None,
    guard: Guarded = True,
    caution: MaybeCaution = None,
    objective: MaybeObjective = None,
    where: Where = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw runtimes over message size: all configurations thin, default and chosen thick.

    Of a bundle: predictions with their 90 % intervals, also for shapes that were not measured; with
    --data crosses show what was measured. Of measurements: medians over launches, the fastest
    instead of the chosen, and bands from the fastest launch to the slowest.

    Examples: one shape of a bundle; what was measured of one collective.

    colltune plot curves bundle --shape 34x32 --out curves.svg

    colltune plot curves measurements.csv.gz --collective bcast --out curves.png
    """
    from colltune.cli.console.live import progress
    from colltune.cli.plot_source import asked
    from colltune.plot_data import runtimes
    from colltune.plots.runtimes import draw

    with progress("reading", quiet=quiet or json) as shown:
        part = asked(source, out, (collective, nodes, ppn, shape), data, where)
        shown.phase("predicting" if part.bundle else "comparing")
        if part.bundle is None:
            statistic = part.objective(objective, guard=guard, caution=caution)
            found = runtimes.measured(part.measured, part.pick, objective=statistic)
        else:
            chooser = part.selector({"--objective": objective}, guard=guard, caution=caution)
            found = runtimes.predicted(chooser, part.pick, part.dataset)
        shown.phase("drawing")
        panels = _saved(draw(found), out)
    _tell(found, panels, out, json=json)


@plot.command("regret")
def regret_(
    source: Sources,
    out: Out,
    collective: Collectives = None,
    nodes: Nodes = None,
    ppn: Ppn = None,
    shape: Shapes = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            help="With measurements: a learner, or auto as `fit` has it; repeatable; default: auto."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="With measurements: what is held out: leave-nodes-out, leave-ppn-out or"
            " message-sizes; default: the first that they allow."
        ),
    ] = None,
    data: Beside = None,
    guard: Guarded = True,
    caution: MaybeCaution = None,
    objective: MaybeObjective = None,
    where: Where = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw how much slower than the best measured are the default and what is chosen instead.

    Of measurements: the default, the single best configuration, and predictions for what was held
    out of the fit. Of a bundle with --data: its own decisions; on what it was fitted to they look
    better than they are.

    Examples: held-out predictions; a bundle judged by other measurements.

    colltune plot regret measurements.csv.gz --learner gam --out regret.svg

    colltune plot regret bundle --data new.csv.gz --out regret.svg
    """
    from colltune.cli.console.live import progress
    from colltune.cli.plot_source import asked
    from colltune.plots.regret import draw

    with progress("reading", quiet=quiet or json) as shown:
        part = asked(source, out, (collective, nodes, ppn, shape), data, where)
        if part.bundle is not None:
            flags = {"--objective": objective, "--learner": learner, "--split": split}
            chooser = part.selector({**flags, "--jobs": jobs}, guard=guard, caution=caution)
            found = _judged(part, chooser)
        else:
            shown.phase("evaluating", "folds")
            found = _held_out(
                part,
                learner,
                split,
                objective,
                part.guard(guard=guard, caution=caution),
                jobs,
                shown,
            )
        shown.phase("drawing")
        panels = _saved(draw(found), out)
    _tell(found, panels, out, json=json)


def _judged(part: Asked, chooser: ModelSelector) -> Regrets:
    from colltune.errors import DataError
    from colltune.plot_data.regrets import of_bundle

    if part.dataset is None:
        raise DataError("regret is measured, and a bundle has no measurements: give --data")
    return of_bundle(chooser, part.dataset, part.pick)


def _held_out(
    part: Asked,
    learner: list[str] | None,
    split: str | None,
    objective: str | None,
    guard: bool | Guard,
    jobs: int | None,
    shown: Progress,
) -> Regrets:
    from colltune.plot_data.regrets import held_out

    return held_out(
        part.measured,
        part.pick,
        learners=learner or ["auto"],
        split=split,
        guard=guard,
        objective=part.objective(objective),
        jobs=jobs,
        progress=shown.count,
    )


def _saved(figure: Figure, out: Path) -> int:
    """Write the picture and return the number of its panels."""
    from colltune.plots.saving import saved

    saved(figure, out)
    return sum(axes.axison for axes in figure.axes)


def _tell(found: Maps | Runtimes | Regrets, panels: int, out: Path, *, json: bool) -> None:
    from colltune.cli.console import show, show_json
    from colltune.text import printable

    if json:
        show_json({**found.as_json(), "out": str(out)})
        return
    show(f"{printable(found.subject)}: {panels} panel{'' if panels == 1 else 's'} -> {out}")
    for note in found.notes:
        show(f"not shown: {printable(note)}")
