"""Decision maps: what is used for which message size on how many nodes or processes, and why."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from colltune.domain import Collective
from colltune.plot_data.decisions import spread
from colltune.plot_data.maps import ChoiceMap, Field, Maps, Over, ShapeRow, runs
from colltune.plots import scaffold
from colltune.plots.scaffold import DEFAULT, OTHER, AlgorithmStyles, Style, legend

_MOST_ROW_LABELS = 16
_WIDTH_IN = 5.2
_PALER = 0.62
_HEIGHT, _NARROW = 0.46, 0.14
_NEAR = "default as fast, within noise or 2 %"
_MEASURED = "measured fastest (grey: default)"
_PALE = "outside what was measured (paler)"


class _Looks(NamedTuple):
    """How the fields of a collective look: `of` returns the name and the style of one.

    `entries` are those of the legend.
    """

    of: Callable[[Field], tuple[str, Style]]
    entries: list[tuple[str, Style]]


class _Line(NamedTuple):
    """A row of a panel: a label and its fields, and those drawn on top as points."""

    label: str
    row: ShapeRow
    points: tuple[Field, ...]


def draw(found: Maps) -> Figure:
    """Draw maps of `colltune.plot_data.maps`, coloured by algorithm.

    A line goes around what was measured. Measurements of a bundle's map are points on top.

    Examples
    --------
    >>> draw(decided(ModelSelector(bundle), Pick((Collective.BCAST,))))  # doctest: +SKIP
    """
    points = {one.collective: one for one in found.points}
    groups = [_lines(one, points.get(one.collective), found.over) for one in found.maps]
    looks = _all_looks(found)
    heights = [_height_in(len(lines)) for lines in groups]
    labels_in = 0.9 if found.over is Over.NODES else 1.25
    legends = [looks[one.collective].entries for one in found.maps]
    counts, frame = [1] * len(groups), _frame(found)
    figure, blocks = scaffold.blocks(counts, _WIDTH_IN, heights, frame, labels_in)
    for block, one, lines, entries in zip(blocks, found.maps, groups, legends, strict=True):
        _draw_panel(block.panels[0], one, lines, looks[one.collective], found.over)
        legend(block, entries)
    return figure


def _all_looks(found: Maps) -> dict[Collective, _Looks]:
    used = {one.collective: [field.configuration for field in one.fields] for one in found.maps}
    for one in found.points:
        used[one.collective] += [field.configuration for field in one.fields]
    styles = AlgorithmStyles(used)
    return {collective: _by_algorithm(collective, styles) for collective in used}


def _by_algorithm(collective: Collective, styles: AlgorithmStyles) -> _Looks:
    def look(field: Field) -> tuple[str, Style]:
        style = styles.style(collective, field.configuration.algorithm)
        return "other" if style is OTHER else field.configuration.algorithm, style

    return _Looks(look, styles.entries(collective))


def _lines(found: ChoiceMap, points: ChoiceMap | None, over: Over) -> list[_Line]:
    """Return the rows of a map: by processes, or by ppn and nodes."""
    on_top = {row.shape: row.fields for row in points.rows} if points else {}
    if over is Over.PROCESSES:
        rows = sorted(found.rows, key=lambda row: (row.shape.nprocs, row.shape.nodes))
        return [_Line(f"{r.shape.nprocs} = {r.shape}", r, on_top.get(r.shape, ())) for r in rows]
    rows = sorted(found.rows, key=lambda row: (row.shape.ppn, row.shape.nodes))
    name = "{0.nodes}" if len({row.shape.ppn for row in rows}) == 1 else "{0.nodes} x {0.ppn}"
    return [_Line(name.format(r.shape), r, on_top.get(r.shape, ())) for r in rows]


def _height_in(rows: int) -> float:
    return max(0.7, min(12.0, 0.24 * rows if rows < 10 else 1.0 + 0.14 * rows))


def _draw_panel(
    axes: Axes, found: ChoiceMap, lines: Sequence[_Line], looks: _Looks, over: Over
) -> None:
    sizes = {f.msize_bytes for line in lines for f in (*line.row.fields, *line.points)}
    x = scaffold.place_of(sizes)
    for look, boxes in _boxes(lines, x, looks).items():
        _fill(axes, *look, boxes)
    _outline(axes, lines, x)
    _near_default(axes, lines, x, looks)
    _points(axes, lines, x, looks)
    scaffold.size_axis(axes, sizes)
    edges = _edges(sorted(sizes), x)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(-0.5, len(lines) - 0.5)
    labelled = spread(len(lines), _MOST_ROW_LABELS)
    axes.set_yticks(labelled, [lines[k].label for k in labelled])
    for tick, at in zip(axes.yaxis.majorTicks, labelled, strict=False):
        tick.label1.set_color("black" if lines[at].row.measured else "0.55")
    ppn = [line.row.shape.ppn for line in lines]
    title, upwards = found.collective.mpi_name, "processes"
    if over is Over.NODES:
        upwards = "nodes x ppn"
        if len(set(ppn)) == 1:
            title, upwards = f"{title}, {ppn[0]} per node", "nodes"
        between = [at - 0.5 for at in range(1, len(ppn)) if ppn[at] != ppn[at - 1]]
        axes.hlines(between, 0, 1, transform=axes.get_yaxis_transform(), colors="0.3", linewidths=2)
    axes.set_title(title, fontsize="medium", y=1.0)
    axes.set_ylabel(upwards, fontsize="small")
    axes.set_xlabel("message size", fontsize="small")
    axes.tick_params(length=2)


Places = Mapping[int, float]
"""Where message sizes lie across."""
Box = tuple[float, float, int]
"""Left and right end, and the row."""


def _boxes(
    lines: Sequence[_Line], x: Places, looks: _Looks
) -> dict[tuple[str, Style, bool], list[Box]]:
    """Return the boxes of each look: name, style, and whether it is outside."""
    found: dict[tuple[str, Style, bool], list[Box]] = {}
    for at, line in enumerate(lines):
        for left, right, run in _runs(line.row, x):
            look = (*looks.of(run[0]), run[0].extrapolated)
            found.setdefault(look, []).append((left, right, at))
    return found


def _runs(
    row: ShapeRow, x: Places, *kind: Callable[[Field], Hashable]
) -> Iterator[tuple[float, float, tuple[Field, ...]]]:
    if not row.fields:
        return
    edges = _edges([field.msize_bytes for field in row.fields], x)
    first = 0
    for run in runs(row, *kind):
        yield edges[first], edges[first + len(run)], run
        first += len(run)


def _edges(sizes: Sequence[int], x: Places) -> list[float]:
    """Return where the fields of ascending message sizes begin and end, in the middle on a log."""
    logs = np.log2([x[size] for size in sizes])
    middles = (logs[1:] + logs[:-1]) / 2
    return [float(2**place) for place in (logs[0] - 0.5, *middles, logs[-1] + 0.5)]


def _fill(axes: Axes, name: str, style: Style, outside: bool, boxes: Sequence[Box]) -> None:
    drawn = PolyCollection(
        _quads(boxes, _HEIGHT),
        facecolors=_paler(style.colour) if outside else style.colour,
        edgecolors=style.hatch_colour,
        hatch=style.hatch or None,
        linewidths=0,
        label=f"{name}{' (outside)' if outside else ''}",
    )
    axes.add_collection(drawn, autolim=False)


def _quads(boxes: Iterable[Box], half: float) -> list[list[tuple[float, float]]]:
    """Return the corners of boxes that reach `half` a row upwards and downwards."""
    return [[(a, y - half), (b, y - half), (b, y + half), (a, y + half)] for a, b, y in boxes]


def _paler(colour: str) -> tuple[float, float, float]:
    red, green, blue = (1 - (1 - part) * (1 - _PALER) for part in to_rgb(colour))
    return red, green, blue


def _outline(axes: Axes, lines: Sequence[_Line], x: Places) -> None:
    """Draw a line around what was measured."""
    spans = [_inside(line.row, x) for line in lines]
    if all(not field.extrapolated for line in lines for field in line.row.fields):
        return
    parts = [[(x, at - 0.5), (x, at + 0.5)] for at, span in enumerate(spans) for x in span or ()]
    for at, (below, above) in enumerate(pairwise([None, *spans, None])):
        ends = [span for span in (below, above) if span]
        if below != above and len(ends) == 1:
            parts.append([(ends[0][0], at - 0.5), (ends[0][1], at - 0.5)])
        elif below != above:
            parts += [[(a, at - 0.5), (b, at - 0.5)] for a, b in zip(*ends, strict=True)]
    axes.add_collection(
        LineCollection(parts, colors="black", linewidths=1.2, label="measured"), autolim=False
    )


def _inside(row: ShapeRow, x: Places) -> tuple[float, float] | None:
    """Return the ends of what is not extrapolated in a row."""
    spans = [(a, b) for a, b, run in _runs(row, x, _is_outside) if not run[0].extrapolated]
    return (spans[0][0], spans[-1][1]) if spans else None


def _is_outside(field: Field) -> bool:
    return field.extrapolated


def _near_default(axes: Axes, lines: Sequence[_Line], x: Places, looks: _Looks) -> None:
    """Draw a bar in the default's colour through what it is as fast as."""
    boxes = [
        (a, b, at)
        for at, line in enumerate(lines)
        for a, b, run in _runs(line.row, x)
        if run[0].near_default
    ]
    if boxes:
        bars = PolyCollection(_quads(boxes, _NARROW), facecolors=DEFAULT.colour, linewidths=0)
        bars.set_label(_NEAR)
        axes.add_collection(bars, autolim=False)


def _points(axes: Axes, lines: Sequence[_Line], x: Places, looks: _Looks) -> None:
    """Draw what was measured fastest, in its colour."""
    for at, line in enumerate(lines):
        for field in line.points:
            _, style = looks.of(field)
            colour = DEFAULT.colour if field.near_default else style.colour
            axes.plot(
                [x[field.msize_bytes]],
                [at],
                style.marker,
                color=colour,
                markeredgecolor="black",
                markersize=4.5,
                markeredgewidth=0.7,
                label="measured fastest",
            )


def _frame(found: Maps) -> scaffold.Frame:
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
    return scaffold.Frame(found.subject, found.notes, handles)
