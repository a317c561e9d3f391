"""Where panels lie: a block of them per collective, each block with its legend beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from colltune.plots.lettering import plain, runtime_text, size_text

_MOST_ACROSS = 4
# widths in columns of the grid
_PANEL, _LEGEND, _COLUMNS = 3, 2, 16
_ALIKE = 1.5
_MOST_NOTES = 4
_MOST_SIZE_LABELS = 6


class Block(NamedTuple):
    """The panels of one collective and the place of their legend."""

    panels: list[Axes]
    legend: Axes


def blocks(
    counts: Sequence[int], width_in: float, heights_in: Sequence[float]
) -> tuple[Figure, list[Block]]:
    """Return an empty figure of blocks with `counts` panels each, `heights_in` inches high.

    Blocks stand side by side, in order, as far as there is room; one of more than four panels has
    several rows of them.
    """
    lines = _packed(counts, heights_in)
    heights = [h for line in lines for h in _heights(line, counts, heights_in)]
    columns = max(sum(_columns(counts[k]) for k in line) for line in lines)
    width = columns * width_in / _PANEL
    figure = Figure(figsize=(width, sum(heights) + 0.7 * len(heights) + 0.9), layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    found, top = [], 0
    for line in lines:
        left, down = 0, len(_heights(line, counts, heights_in))
        for k in line:
            found.append(_block(figure, grid, counts[k], (top, left, down)))
            left += _columns(counts[k])
        top += down
    return figure, found


def _block(figure: Figure, grid: GridSpec, count: int, place: tuple[int, int, int]) -> Block:
    """Make the axes of a block whose first row, first column and number of rows are `place`."""
    top, left, down = place
    panels = []
    for at in range(count):
        row, column = top + at // _MOST_ACROSS, left + at % _MOST_ACROSS * _PANEL
        panels.append(figure.add_subplot(grid[row, column : column + _PANEL]))
    beside = left + min(count, _MOST_ACROSS) * _PANEL
    legend = figure.add_subplot(grid[top : top + down, beside : beside + _LEGEND])
    legend.set_axis_off()
    return Block(panels, legend)


def _packed(counts: Sequence[int], heights_in: Sequence[float]) -> list[list[int]]:
    """Return which blocks stand side by side: those of about the same height, in order."""
    lines: list[list[int]] = []
    room, first_in = 0, 0.0
    for k, (count, height_in) in enumerate(zip(counts, heights_in, strict=True)):
        alike = height_in <= _ALIKE * first_in and first_in <= _ALIKE * height_in
        if _columns(count) > room or not alike:
            lines.append([])
            room, first_in = _COLUMNS, height_in
        lines[-1].append(k)
        room -= _columns(count)
    return lines


def _columns(count: int) -> int:
    return min(count, _MOST_ACROSS) * _PANEL + _LEGEND


def _heights(
    line: Sequence[int], counts: Sequence[int], heights_in: Sequence[float]
) -> list[float]:
    """Return the heights of the rows of panels that blocks side by side need."""
    down = max(math.ceil(counts[k] / _MOST_ACROSS) for k in line)
    return [max(heights_in[k] for k in line)] * down


def label_rows(block: Block, words: str) -> None:
    """Label the y axis of the first panel in each row of a block."""
    for panel in block.panels[::_MOST_ACROSS]:
        panel.set_ylabel(words, fontsize="small")


def size_places(msize_bytes: Iterable[int]) -> list[float]:
    """Return where message sizes lie on a logarithmic axis, 0 bytes one octave below the next."""
    sizes = list(msize_bytes)
    least = min((size for size in sizes if size > 0), default=2)
    return [float(size) if size else least / 2 for size in sizes]


def size_axis(panel: Axes, msize_bytes: Iterable[int]) -> None:
    """Make x a logarithmic axis of message sizes, labelled in B, KiB, MiB and GiB."""
    sizes = sorted(set(msize_bytes))
    positive = [size for size in sizes if size] or [1]
    first, last = math.ceil(math.log2(positive[0])), math.floor(math.log2(positive[-1]))
    # with these steps, 1 KiB and 1 MiB are labelled where they are on the axis
    step = next((k for k in (1, 2, 5, 10) if (last - first) // k < _MOST_SIZE_LABELS), 20)
    start = first + (-first) % step if last - first >= step else first
    labels = {float(1 << k): size_text(1 << k) for k in range(start, last + 1, step)}
    if not labels:
        labels = {float(size): size_text(size) for size in positive[:1]}
    if sizes[0] == 0:
        labels = {size_places(sizes)[0]: "0", **labels}
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(FixedLocator(list(labels)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: labels.get(float(value), "")))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.tick_params(labelsize="small")


def runtime_axis(panel: Axes) -> None:
    """Make y a logarithmic axis of seconds, labelled in µs, ms and s."""
    panel.set_yscale("log")
    low, high = panel.get_ylim()
    steps = (1, 2, 5) if high < 30 * low else (1,)
    panel.yaxis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: runtime_text(float(value))))
    panel.yaxis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
    panel.tick_params(labelsize="small")


def title(subject: str, notes: Sequence[str]) -> str:
    """Return a figure's title: what it is of and, below, what it leaves out."""
    text = plain(subject[:1].upper() + subject[1:])
    if notes:
        rest = f"; and {len(notes) - _MOST_NOTES} more" if len(notes) > _MOST_NOTES else ""
        text += "\n" + plain(f"not shown: {'; '.join(notes[:_MOST_NOTES])}{rest}")
    return text
