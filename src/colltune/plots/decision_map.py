"""Decision maps: which algorithm for which message size on how many nodes or processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.domain import Collective, Configuration, Shape
from colltune.models.bundle import Bundle
from colltune.plots import panels as layout
from colltune.plots.algorithm_styles import (
    DEFAULT,
    OTHER,
    AlgorithmStyles,
    Style,
    algorithm_legend,
)
from colltune.selector.argmin import ModelSelector
from colltune.selector.guard import Guard
from colltune.selector.series.maps import (
    ChoiceMap,
    Field,
    Maps,
    Over,
    Row,
    decided,
    measured,
    runs,
)
from colltune.selector.series.pick import ALL, Pick
from colltune.selector.series.thinning import spread

_MOST_ROW_LABELS = 16
_PALER = 0.62
_HEIGHT = 0.46
_NEAR = "default as fast, within noise or 2 %"
_MEASURED = "measured fastest (grey: default)"
_PALE = "outside what was measured (paler)"


def of_bundle(
    bundle: Bundle,
    *,
    guard: bool | Guard = True,
    pick: Pick = ALL,
    dataset: PerformanceDataset | None = None,
    over: Over | None = None,
) -> Figure:
    """Draw what `bundle` decides on and around what it was fitted to.

    Parameters
    ----------
    bundle
        Fitted models.
    guard
        Whether the default is kept unless the predicted gain is beyond the models' error.
    pick
        Which collectives and shapes; shapes need not have been measured.
    dataset
        Measurements of the same context: what was fastest there is drawn as points.
    over
        Nodes, one panel per ppn, or processes, all shapes in one panel; by default nodes unless
        there are more ppn than node counts.

    Raises
    ------
    DataError
        If a collective is missing, or `dataset` cannot be compared.

    Examples
    --------
    >>> of_bundle(load(Path("bundle")), pick=Pick((Collective.BCAST,)))  # doctest: +SKIP
    """
    return draw(decided(ModelSelector(bundle, guard=guard), pick, dataset, over=over))


def of_dataset(
    dataset: PerformanceDataset,
    *,
    pick: Pick = ALL,
    objective: Objective = DEFAULT_OBJECTIVE,
    over: Over | None = None,
) -> Figure:
    """Draw which algorithm was measured fastest, and where the default is within the noise of it.

    Raises
    ------
    DataError
        If a collective is missing, or nothing was measured well.
    """
    return draw(measured(dataset, pick, objective=objective, over=over))


class _Line(NamedTuple):
    """A row of a panel: a label and its fields, and those drawn on top as points."""

    label: str
    row: Row
    points: tuple[Field, ...]


class _Panel(NamedTuple):
    collective: Collective
    title: str
    lines: list[_Line]


def draw(found: Maps) -> Figure:
    """Draw maps; see `of_bundle`."""
    points = {one.collective: one for one in found.points}
    groups = [_panels(one, points.get(one.collective), found.over) for one in found.maps]
    styles = AlgorithmStyles(
        {one.collective: _configurations(one, points.get(one.collective)) for one in found.maps}
    )
    heights = [max(_height_in(len(panel.lines)) for panel in group) for group in groups]
    labels_in = 0.72 if found.over is Over.NODES else 1.25
    figure, blocks = layout.blocks(
        [len(group) for group in groups], 2.5, heights, _frame(found), labels_in
    )
    for block, group in zip(blocks, groups, strict=True):
        for axes, panel in zip(block.panels, group, strict=True):
            _draw_panel(axes, panel, styles)
        words = "nodes" if found.over is Over.NODES else "processes"
        block.panels[0].set_ylabel(words, fontsize="small")
        algorithm_legend(block.legend, group[0].collective, styles)
    return figure


def _configurations(found: ChoiceMap, points: ChoiceMap | None) -> list[Configuration]:
    fields = [*found.fields, *(points.fields if points else ())]
    return [field.configuration for field in fields]


def _panels(found: ChoiceMap, points: ChoiceMap | None, over: Over) -> list[_Panel]:
    on_top = {row.shape: row.fields for row in points.rows} if points else {}
    name = found.collective.mpi_name
    if over is Over.PROCESSES:
        rows = sorted(found.rows, key=lambda row: (row.shape.nprocs, row.shape.nodes))
        lines = [_Line(f"{r.shape.nprocs} = {r.shape}", r, on_top.get(r.shape, ())) for r in rows]
        return [_Panel(found.collective, name, lines)]
    nodes = sorted({row.shape.nodes for row in found.rows})
    rows_of = {row.shape: row for row in found.rows}
    return [
        _Panel(
            found.collective,
            f"{name}, {ppn} per node",
            [
                _Line(str(n), rows_of.get(s, Row(s, False, ())), on_top.get(s, ()))
                for n in nodes
                for s in (Shape(n, ppn),)
            ],
        )
        for ppn in sorted({row.shape.ppn for row in found.rows})
    ]


def _height_in(rows: int) -> float:
    return max(0.7, min(3.6, 0.24 * rows if rows < 10 else 1.0 + 0.14 * rows))


def _draw_panel(axes: Axes, panel: _Panel, styles: AlgorithmStyles) -> None:
    lines = panel.lines
    sizes = [field.msize_bytes for line in lines for field in line.row.fields]
    for style, boxes in _boxes(panel.collective, lines, sizes, styles).items():
        _fill(axes, *style, boxes)
    _outline(axes, lines, sizes)
    _near_default(axes, lines, sizes)
    _points(axes, panel.collective, lines, sizes, styles)
    layout.size_axis(axes, sizes)
    edges = _edges(sorted(set(sizes)), min(sizes))
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(-0.5, len(lines) - 0.5)
    labelled = spread(len(lines), _MOST_ROW_LABELS)
    axes.set_yticks(labelled, [lines[k].label for k in labelled])
    for tick, at in zip(axes.get_yticklabels(), labelled, strict=True):
        tick.set_color("black" if lines[at].row.measured else "0.55")
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xlabel("message size", fontsize="small")
    axes.tick_params(length=2)


Box = tuple[float, float, int]
"""Left and right end, and the row."""


def _boxes(
    collective: Collective, lines: Sequence[_Line], sizes: Sequence[int], styles: AlgorithmStyles
) -> dict[tuple[str, Style, bool], list[Box]]:
    """Return the boxes of each look: name, style, and whether it is outside."""
    found: dict[tuple[str, Style, bool], list[Box]] = {}
    for at, line in enumerate(lines):
        for left, right, run in _runs(line.row, sizes):
            configuration = run[0].configuration
            style = styles.style(collective, configuration.algorithm)
            name = "other" if style is OTHER else configuration.algorithm
            found.setdefault((name, style, run[0].extrapolated), []).append((left, right, at))
    return found


def _runs(row: Row, sizes: Sequence[int]) -> Iterator[tuple[float, float, tuple[Field, ...]]]:
    if not row.fields:
        return
    edges = _edges([field.msize_bytes for field in row.fields], min(sizes))
    first = 0
    for run in runs(row):
        yield edges[first], edges[first + len(run)], run
        first += len(run)


def _edges(sizes: Sequence[int], least: int) -> list[float]:
    """Return where the fields of ascending message sizes begin and end, in the middle on a log."""
    places = layout.size_places([*sizes, *([least] if least == 0 and sizes[0] else [])])
    logs = np.log2(places[: len(sizes)])
    middles = (logs[1:] + logs[:-1]) / 2
    return [float(2**x) for x in (logs[0] - 0.5, *middles, logs[-1] + 0.5)]


def _fill(axes: Axes, name: str, style: Style, outside: bool, boxes: Sequence[Box]) -> None:
    quads = [
        [(a, y - _HEIGHT), (b, y - _HEIGHT), (b, y + _HEIGHT), (a, y + _HEIGHT)]
        for a, b, y in boxes
    ]
    drawn = PolyCollection(
        quads,
        facecolors=_paler(style.colour) if outside else style.colour,
        edgecolors=style.hatch_colour,
        hatch=style.hatch or None,
        linewidths=0,
        label=f"{name}{' (outside)' if outside else ''}",
    )
    axes.add_collection(drawn, autolim=False)


def _paler(colour: str) -> tuple[float, float, float]:
    red, green, blue = (1 - (1 - part) * (1 - _PALER) for part in to_rgb(colour))
    return red, green, blue


def _outline(axes: Axes, lines: Sequence[_Line], sizes: Sequence[int]) -> None:
    """Draw a line around what was measured."""
    spans = [_inside(line.row, sizes) for line in lines]
    if all(not field.extrapolated for line in lines for field in line.row.fields):
        return
    parts = [[(x, at - 0.5), (x, at + 0.5)] for at, span in enumerate(spans) for x in span or ()]
    for at, (below, above) in enumerate(pairwise([None, *spans, None])):
        if below != above:
            ends = [span for span in (below, above) if span]
            xs = ends[0] if len(ends) == 1 else ()
            if xs:
                parts.append([(xs[0], at - 0.5), (xs[1], at - 0.5)])
            elif len(ends) == 2:
                parts += [[(a, at - 0.5), (b, at - 0.5)] for a, b in zip(*ends, strict=True)]
    axes.add_collection(
        LineCollection(parts, colors="black", linewidths=1.2, label="measured"), autolim=False
    )


def _inside(row: Row, sizes: Sequence[int]) -> tuple[float, float] | None:
    """Return the ends of what is not extrapolated in a row."""
    spans = [(a, b) for a, b, run in _runs(row, sizes) if not run[0].extrapolated]
    return (spans[0][0], spans[-1][1]) if spans else None


def _near_default(axes: Axes, lines: Sequence[_Line], sizes: Sequence[int]) -> None:
    """Cross out what the default is as fast as."""
    boxes = [
        (a, b, at)
        for at, line in enumerate(lines)
        for a, b, run in _runs(line.row, sizes)
        if run[0].near_default
    ]
    if boxes:
        quads = [[(a, y - 0.14), (b, y - 0.14), (b, y + 0.14), (a, y + 0.14)] for a, b, y in boxes]
        axes.add_collection(
            PolyCollection(quads, facecolors=DEFAULT.colour, linewidths=0, label=_NEAR),
            autolim=False,
        )


def _points(
    axes: Axes,
    collective: Collective,
    lines: Sequence[_Line],
    sizes: Sequence[int],
    styles: AlgorithmStyles,
) -> None:
    """Draw what was measured fastest, in its colour."""
    for at, line in enumerate(lines):
        for field in line.points:
            style = styles.style(collective, field.configuration.algorithm)
            colour = DEFAULT.colour if field.near_default else style.colour
            x = layout.size_places([field.msize_bytes, min(sizes)])[0]
            axes.plot(
                [x],
                [at],
                style.marker,
                color=colour,
                markeredgecolor="black",
                markersize=4.5,
                markeredgewidth=0.7,
                label="measured fastest",
            )


def _frame(found: Maps) -> layout.Frame:
    fields = [field for one in found.maps for field in one.fields]
    handles: list[Patch | Line2D] = []
    if any(field.extrapolated for field in fields):
        handles.append(Patch(facecolor="#99c6e0", label=_PALE))
    if any(field.near_default for field in fields):
        grey = Patch(facecolor=DEFAULT.colour, edgecolor="#0072b2", linewidth=2, label=_NEAR)
        handles.append(grey)
    if found.points:
        circle = Line2D([], [], marker="o", color="white", linestyle="none", label=_MEASURED)
        circle.set(markeredgecolor="black", markersize=5)
        handles.append(circle)
    return layout.Frame(found.subject, found.notes, handles)
