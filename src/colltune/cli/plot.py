"""`colltune plot …`: decision maps, runtime curves and regrets as pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from colltune.cli.console import output, warn
from colltune.cli.options import (
    BundleAt,
    ForPrograms,
    Guarded,
    Jobs,
    Json,
    Quiet,
    Where,
    bundle_to_read,
    parse_counts,
    parse_pairs,
    parse_shape,
    programs_of,
    writable_picture,
)
from colltune.cli.progress import Progress, progress
from colltune.domain import parse_collective
from colltune.errors import UsageError, say
from colltune.text import counted, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from colltune.dataset import PerformanceDataset
    from colltune.dataset.objective import Objective
    from colltune.models.bundle import Bundle
    from colltune.models.guard import Guard
    from colltune.plot_data.decisions import Pick
    from colltune.selector.argmin import ModelSelector

_A_BUNDLE = "a bundle"
_DATA = "measurements"

plot = typer.Typer(
    help="Draw decision maps, runtime curves and regrets of bundles or measurements.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Sources = Annotated[
    list[Path] | None,
    typer.Argument(
        help="A bundle, or datasets: folders of Parquet, .parquet, .csv or .csv.gz.",
        metavar="[SOURCE…]",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        help="Picture to write: .png, .svg or .pdf.", metavar="FILE", callback=writable_picture
    ),
]
Collectives = Annotated[
    list[str] | None,
    typer.Option("--collective", help="Only this collective; repeatable; default: all."),
]
Nodes = Annotated[str | None, typer.Option(metavar="N,…", help="Only these node counts: 4,16,36.")]
Ppn = Annotated[str | None, typer.Option(metavar="N,…", help="Only these processes per node: 1,8.")]
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
MaybeCaution = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="How much of the models' uncertainty a predicted gain must exceed, as in `select`; "
        "default: 1.",
    ),
]
MaybeObjective = Annotated[
    str | None,
    typer.Option(
        help="With measurements: the runtime statistic, as in `fit`; default: trimmed-mean."
    ),
]


class Upwards(StrEnum):
    """What is upwards in a map."""

    NODES = "nodes"
    PROCESSES = "processes"


def _sources(named: list[Path] | None, bundle: Path | None, *, json: bool) -> list[Path]:
    """Return what is drawn: what is named, or else a bundle."""
    if named and bundle is not None:
        raise say("exclusive", UsageError, one="SOURCE", other="--bundle, which takes --data")
    return named or [bundle_to_read(bundle, quiet=json)]


@plot.command("map")
def map_(
    source: Sources = None,
    *,
    out: Out,
    bundle: BundleAt = None,
    collective: Collectives = None,
    nodes: Nodes = None,
    ppn: Ppn = None,
    shape: Shapes = None,
    over: Annotated[
        Upwards | None,
        typer.Option(
            help="The vertical axis: nodes (one panel per ppn) or processes; default: nodes, "
            "unless there are more ppn than node counts."
        ),
    ] = None,
    data: Beside = None,
    guard: Guarded = True,
    caution: MaybeCaution = None,
    programs: ForPrograms = None,
    objective: MaybeObjective = None,
    where: Where = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw the chosen or the fastest algorithm over message size and shape.

    For a bundle: its decisions, also for shapes that were not measured; with --data, points show
    what was measured as fastest. For measurements: the fastest algorithm, and where the default is
    within the noise.

    Examples: a bundle with the data that it was fitted to; measurements.

    colltune plot map bundle --data measurements.csv.gz --out map.svg

    colltune plot map measurements.csv.gz --collective bcast --out map.png
    """
    from colltune.plot_data import maps
    from colltune.plots.maps import draw

    upwards = maps.Over(over.value) if over else None

    def found(part: _Source, shown: Progress) -> maps.Maps:
        shown.phase("deciding")
        at: dict[str, Any] = {"allocation_of": part.allocation_of, "over": upwards}
        if part.bundle is None:
            statistic = _objective(objective, guard=guard, caution=caution, programs=programs)
            return maps.measured(part.measured, part.pick, objective=statistic, **at)
        chooser = _selector(part.bundle, {"--objective": objective}, guard, caution, programs)
        return maps.decided(chooser, part.pick, part.dataset, **at)

    asked = _Asked(_sources(source, bundle, json=json), collective, nodes, ppn, shape, data, where)
    _draw(asked, found, draw, out, quiet=quiet, json=json)


@plot.command("curves")
def curves_(
    source: Sources = None,
    *,
    out: Out,
    bundle: BundleAt = None,
    collective: Collectives = None,
    nodes: Nodes = None,
    ppn: Ppn = None,
    shape: Shapes = None,
    data: Beside = None,
    guard: Guarded = True,
    caution: MaybeCaution = None,
    programs: ForPrograms = None,
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
    from colltune.plot_data import runtimes
    from colltune.plots.runtimes import draw

    def found(part: _Source, shown: Progress) -> runtimes.Runtimes:
        shown.phase("predicting" if part.bundle else "comparing")
        if part.bundle is None:
            statistic = _objective(objective, guard=guard, caution=caution, programs=programs)
            return runtimes.measured(part.measured, part.pick, objective=statistic)
        chooser = _selector(part.bundle, {"--objective": objective}, guard, caution, programs)
        return runtimes.predicted(chooser, part.pick, part.dataset)

    asked = _Asked(_sources(source, bundle, json=json), collective, nodes, ppn, shape, data, where)
    _draw(asked, found, draw, out, quiet=quiet, json=json)


@plot.command("regret")
def regret_(
    source: Sources = None,
    *,
    out: Out,
    bundle: BundleAt = None,
    collective: Collectives = None,
    nodes: Nodes = None,
    ppn: Ppn = None,
    shape: Shapes = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            help="With measurements: a learner, or auto as in `fit`; repeatable; default: auto."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="With measurements: what to hold out: leave-nodes-out, leave-ppn-out or "
            "message-sizes; default: the first that the data allow."
        ),
    ] = None,
    data: Beside = None,
    guard: Guarded = True,
    caution: MaybeCaution = None,
    programs: ForPrograms = None,
    objective: MaybeObjective = None,
    where: Where = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw how much slower the default and the choices are than the best measured configuration.

    For measurements: the default, the single best configuration, and predictions for held-out data.
    For a bundle with --data: its own decisions. They look too good on the data that the bundle was
    fitted to.

    Examples: held-out predictions; a bundle judged by other measurements.

    colltune plot regret measurements.csv.gz --learner gam --out regret.svg

    colltune plot regret bundle --data new.csv.gz --out regret.svg
    """
    from colltune.plot_data.regrets import Regrets, held_out, of_bundle
    from colltune.plots.regret import draw

    def found(part: _Source, shown: Progress) -> Regrets:
        if part.bundle is not None:
            flags = {"--objective": objective, "--learner": learner, "--split": split}
            chooser = _selector(part.bundle, {**flags, "--jobs": jobs}, guard, caution, programs)
            if part.dataset is None:
                raise say("works-only-with", option="regret of a bundle", other="--data")
            return of_bundle(chooser, part.dataset, part.pick)
        shown.phase("evaluating", "folds")
        _refuse({"--programs": programs}, _A_BUNDLE)
        return held_out(
            part.measured,
            part.pick,
            learners=learner or ["auto"],
            split=split,
            guard=_guard(guard, caution),
            objective=_objective(objective),
            jobs=jobs,
            progress=shown.count,
        )

    asked = _Asked(_sources(source, bundle, json=json), collective, nodes, ppn, shape, data, where)
    _draw(asked, found, draw, out, quiet=quiet, json=json)


class _Asked(NamedTuple):
    """What of which files is to be drawn, as it was asked for."""

    paths: Sequence[Path]
    collectives: Sequence[str] | None
    nodes: str | None
    ppn: str | None
    shapes: Sequence[str] | None
    data: Sequence[Path] | None
    where: Sequence[str] | None


class _Source(NamedTuple):
    """A part of a bundle, with measurements if there are any, or of measurements alone.

    ``allocation_of`` is the allocation of each launch, as far as the data tell.
    """

    pick: Pick
    bundle: Bundle | None
    dataset: PerformanceDataset | None
    allocation_of: Mapping[str, str] | None

    @property
    def measured(self) -> PerformanceDataset:
        """The measurements, which there are wherever there is no bundle."""
        assert self.dataset is not None
        return self.dataset


def _draw(
    asked: _Asked,
    find: Callable[[_Source, Progress], Any],
    draw: Callable[[Any], Figure],
    out: Path,
    *,
    quiet: bool,
    json: bool,
) -> None:
    """Read, find out, draw and tell."""
    from colltune.plots.saving import saved

    with progress("reading", quiet=quiet or json) as shown:
        part = _source(asked)
        found = find(part, shown)
        shown.phase("drawing")
        figure = draw(found)
        saved(figure, out)
    panels = counted(sum(axes.axison for axes in figure.axes), "panel")
    lines = [f"{printable(found.subject)}: {panels} -> {out}"]
    lines += [f"not shown: {printable(note)}" for note in found.notes]
    output(replace(found, out=out), lines, json=json)


def _source(asked: _Asked) -> _Source:
    """Read the one bundle, with data if there are any, or the datasets."""
    from colltune.models.bundle import load
    from colltune.plot_data.decisions import Pick

    pick = Pick(
        tuple(dict.fromkeys(parse_collective(name) for name in asked.collectives or ())),
        parse_counts(asked.nodes, "--nodes") or (),
        parse_counts(asked.ppn, "--ppn") or (),
        tuple(parse_shape(text) for text in asked.shapes or ()),
    )
    paths, data, where = asked.paths, asked.data, parse_pairs(asked.where, "--where")
    if not any(map(_is_bundle, paths)):
        _refuse({"--data": data}, f"{_A_BUNDLE} (several datasets are drawn as SOURCE)")
        return _Source(pick, None, *_read(paths, where))
    if len(paths) > 1:
        raise say("several-bundles", count=len(paths))
    if where and not data:
        raise say("works-only-with", option="--where of a bundle", other="--data")
    bundle = load(paths[0], pick.collectives or None)
    return _Source(pick, bundle, *(_read(data, where) if data else (None, None)))


def _is_bundle(path: Path) -> bool:
    """Tell whether `path` is a bundle, maybe a damaged one."""
    from colltune.files.remote import url_of

    if url_of(path) is not None or not path.is_dir():
        return False
    return (path / "manifest.json").exists() or any(path.glob("*.arrays"))


def _read(
    paths: Sequence[Path], where: Mapping[str, str]
) -> tuple[PerformanceDataset, Mapping[str, str]]:
    from colltune.cli.import_ import read_measured
    from colltune.dataset.method import mixed_in_words
    from colltune.dataset.noise import allocations_of
    from colltune.dataset.parquet import read_launch_provenances

    dataset = read_measured(paths, where)
    launches, known = dataset.frame["launch"].astype(str), read_launch_provenances(paths)
    if mixed := mixed_in_words(dataset, known):
        warn(mixed)
    return dataset, allocations_of(launches, known, None).by_launch


def _guard(guard: bool, caution: float | None) -> bool | Guard:
    from colltune.models.guard import Guard

    if not guard and caution is not None:
        raise say("exclusive", one="--caution", other="--no-guard")
    return guard if caution is None else Guard(caution=caution)


def _selector(
    bundle: Bundle,
    others: Mapping[str, object],
    guard: bool,
    caution: float | None,
    programs: str | None,
) -> ModelSelector:
    """Return what `select` chooses by; `others` are options that a bundle has no use for."""
    from colltune.selector.argmin import legal_selector

    _refuse(others, _DATA)
    return legal_selector(bundle, programs_of(programs), guard=_guard(guard, caution))


def _objective(
    text: str | None,
    *,
    guard: bool = True,
    caution: float | None = None,
    programs: str | None = None,
) -> Objective:
    """Return the statistic called `text`; the others are of no use without a bundle."""
    from colltune.dataset.objective import DEFAULT_OBJECTIVE, parse_objective

    _refuse({"--no-guard": not guard, "--caution": caution, "--programs": programs}, _A_BUNDLE)
    return DEFAULT_OBJECTIVE if text is None else parse_objective(text)


def _refuse(given: Mapping[str, object], other: str) -> None:
    for flag, value in given.items():
        if value is not None and value is not False:
            raise say("works-only-with", option=flag, other=other)
