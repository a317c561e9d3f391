"""What figures have in common: where panels lie, axes of message sizes and runtimes, names, looks.

Figures of several collectives have a block of panels for each, with its legend beside it.

Colours can be told by the colour-blind, and have hatches. Those of algorithms are Okabe's and Ito's
(*Color Universal Design*, 2008) without vermilion and black, which stand for the default's and the
chosen runtimes; those of gains are viridis. A name has one look within a picture; two names of one
collective never share one while there are looks enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from colltune.domain import DEFAULT_ALGORITHM, Collective, Configuration
from colltune.text import bytes_text, printable, time_text

COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink")
_LONGEST = 26
_MOST_ACROSS = 4
_LEAST_WIDTH_IN, _MOST_WIDTH_IN = 6.5, 16.9
_LEGEND_IN, _HANDLE_IN = 2.2, 2.9
# around a panel: to the right; above and below; of these below, for ticks and label
_GAP_IN, _AROUND_IN, _BELOW_IN = 0.1, 0.85, 0.5
_SIGNS_PER_IN = 12
_LEGEND_HANDLE_IN = 0.6
_ALIKE = 1.5
_MOST_NOTES = 4
_MOST_SIZE_LABELS = 6
_RATIOS = (1.0, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4)
_MOST_RATIOS = 6


def plain(text: str) -> str:
    """Return `text`, which may quote any file, such that nothing in it is taken for a formula.

    What the font cannot show is written by its number, so that it stays readable.
    """
    shown = "".join(c if _has_glyph(c) else ascii(c)[1:-1] for c in printable(text))
    return shown.replace("$", r"\$")


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return `text` as `plain` has it, in at most `longest` signs, its middle left out."""
    if len(text) <= longest:
        return plain(text)
    end = longest // 3
    return plain(f"{text[: longest - end - 1]}…{text[-end:]}")


def runtime_text(time_s: float) -> str:
    """Return a runtime with its unit: ``20 µs``, ``1.5 ms``."""
    if 0 < time_s < 1e-6:
        return f"{time_s / 1e-9:.3g} ns"
    return time_text(time_s).replace("us", "µs")


@cache
def _has_glyph(character: str) -> bool:
    font = get_font(findfont(FontProperties()))
    return bool(font.get_char_index(ord(character)))


class PanelGroup(NamedTuple):
    """The panels of one collective, and where in the figure their legend stands."""

    panels: list[Axes]
    legend_at: tuple[float, float]


class Frame(NamedTuple):
    """What stands above and below the panels: a title, what it leaves out, and a legend."""

    subject: str
    notes: Sequence[str]
    handles: Sequence[Artist] = ()


def blocks(
    counts: Sequence[int],
    width_in: float,
    heights_in: Sequence[float],
    frame: Frame,
    labels_in: float = 0.72,
) -> tuple[Figure, list[PanelGroup]]:
    """Return a figure of blocks with `counts` empty panels each.

    Blocks stand side by side, in order, as far as there is room; one of more than four panels has
    several rows of them. A panel is `width_in` inches wide without its labels, for which there are
    `labels_in` inches, and `heights_in` (by block) high, with a legend beside it. Places are fixed:
    layouts that matplotlib finds by itself take it seconds.
    """
    width_in += labels_in + _GAP_IN
    widths = [min(count, _MOST_ACROSS) * width_in + _LEGEND_IN for count in counts]
    lines = _packed(widths, heights_in)
    figure_in = max(_LEAST_WIDTH_IN, *(sum(widths[k] for k in line) for line in lines))
    title = _title(frame, figure_in)
    above_in = 0.15 + 0.2 * (title.count("\n") + 1) if title else 0.0
    columns = max(1, min(len(frame.handles), int(figure_in / _HANDLE_IN)))
    below_in = 0.1 + 0.25 * math.ceil(len(frame.handles) / columns)
    rows = [_rows(line, counts, heights_in) for line in lines]
    height_in = above_in + below_in + sum(n * (h + _AROUND_IN) for n, h in rows)
    figure = Figure(figsize=(figure_in, height_in))
    found, top_in = [], height_in - above_in
    for line, (down, panel_in) in zip(lines, rows, strict=True):
        left_in = 0.0
        for k in line:
            cell = _Cell(width_in, panel_in + _AROUND_IN, labels_in)
            found.append(_block(figure, counts[k], (left_in, top_in), cell, down))
            left_in += widths[k]
        top_in -= down * (panel_in + _AROUND_IN)
    if title:
        figure.suptitle(title, fontsize="medium", y=1 - 0.1 / height_in, va="top")
    if frame.handles:
        figure.legend(
            handles=frame.handles,
            loc="lower center",
            ncols=columns,
            frameon=False,
            fontsize="small",
        )
    return figure, found


class _Cell(NamedTuple):
    """Inches of a panel with all that is around it, and of the labels to its left."""

    width: float
    height: float
    labels: float


def _block(
    figure: Figure, count: int, corner_in: tuple[float, float], cell: _Cell, down: int
) -> PanelGroup:
    """Make the axes of a block `down` cells high, from its upper left corner."""
    left, top = corner_in
    width, height = cell.width - cell.labels - _GAP_IN, cell.height - _AROUND_IN
    panels = []
    for at in range(count):
        x = left + at % _MOST_ACROSS * cell.width + cell.labels
        y = top - (at // _MOST_ACROSS + 1) * cell.height + _BELOW_IN
        panels.append(_axes(figure, x, y, width, height))
    across, up = figure.get_size_inches().tolist()
    beside = left + min(count, _MOST_ACROSS) * cell.width
    middle = top - down * cell.height / 2 + _BELOW_IN - _AROUND_IN / 2
    return PanelGroup(panels, (beside / across, middle / up))


def _axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    across, up = figure.get_size_inches().tolist()
    return figure.add_axes((x / across, y / up, width / across, height / up))


def _packed(widths: Sequence[float], heights_in: Sequence[float]) -> list[list[int]]:
    """Return which blocks stand side by side: those of about the same height, in order."""
    lines: list[list[int]] = []
    room, first_in = 0.0, 0.0
    for k, (width, height_in) in enumerate(zip(widths, heights_in, strict=True)):
        alike = height_in <= _ALIKE * first_in and first_in <= _ALIKE * height_in
        if width > room or not alike:
            lines.append([])
            room, first_in = _MOST_WIDTH_IN, height_in
        lines[-1].append(k)
        room -= width
    return lines


def _rows(
    line: Sequence[int], counts: Sequence[int], heights_in: Sequence[float]
) -> tuple[int, float]:
    down = max(math.ceil(counts[k] / _MOST_ACROSS) for k in line)
    return down, max(heights_in[k] for k in line)


def _title(frame: Frame, width_in: float) -> str:
    """Return the title: what the figure is of and, below, what it leaves out."""
    parts = [frame.subject[:1].upper() + frame.subject[1:]]
    if frame.notes:
        more = len(frame.notes) - _MOST_NOTES
        rest = f"; and {more} more" if more > 0 else ""
        parts.append(f"not shown: {'; '.join(frame.notes[:_MOST_NOTES])}{rest}")
    signs = int(width_in * _SIGNS_PER_IN)
    return "\n".join(plain(line) for part in parts for line in wrap(part, signs))


def entitle(figure: Figure, text: str) -> None:
    """Write a title of as many lines as the figure's width asks for."""
    signs = int(figure.get_figwidth() * _SIGNS_PER_IN)
    figure.suptitle("\n".join(map(plain, wrap(text, signs))), fontsize="medium")


def legend_columns(figure: Figure, labels: Sequence[str]) -> int:
    """Return how many labels fit beside each other below a figure."""
    longest_in = max(map(len, labels), default=0) / _SIGNS_PER_IN + _LEGEND_HANDLE_IN
    return max(1, min(len(labels), int(figure.get_figwidth() / longest_in)))


def label_rows(block: PanelGroup, words: str) -> None:
    for panel in block.panels[::_MOST_ACROSS]:
        panel.set_ylabel(words, fontsize="small")


def place_of(msize_bytes: Iterable[int]) -> dict[int, float]:
    """Return where message sizes lie on a logarithmic axis, 0 bytes one octave below the next."""
    sizes = set(msize_bytes)
    least = min((size for size in sizes if size > 0), default=2)
    return {size: float(size) if size else least / 2 for size in sizes}


def size_places(msize_bytes: Iterable[int]) -> list[float]:
    """Return the place of each of `msize_bytes`; see `place_of`."""
    sizes = list(msize_bytes)
    place = place_of(sizes)
    return [place[size] for size in sizes]


def size_labels(msize_bytes: Iterable[int], most: int = _MOST_SIZE_LABELS) -> dict[float, str]:
    """Return labels of message sizes, in B, KiB, MiB and GiB, by their places on the axis."""
    sizes = sorted(set(msize_bytes))
    positive = [size for size in sizes if size] or [1]
    first, last = math.ceil(math.log2(positive[0])), math.floor(math.log2(positive[-1]))
    # with these steps, 1 KiB and 1 MiB are labelled where they are on the axis
    step = next((k for k in (1, 2, 5, 10) if (last - first) // k < most), 20)
    start = first + (-first) % step if last - first >= step else first
    labels = {float(1 << k): bytes_text(1 << k) for k in range(start, last + 1, step)}
    if not labels:
        labels = {float(size): bytes_text(size) for size in positive[:1]}
    if sizes[0] == 0:
        zero = size_places(sizes)[0]
        far = zero * 2 ** (0.7 * step)
        labels = {zero: "0"} | {place: text for place, text in labels.items() if place >= far}
    return labels


def size_axis(panel: Axes, msize_bytes: Iterable[int]) -> None:
    labels = size_labels(msize_bytes)
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


def ratio_axis(panel: Axes, name: str, lowest: float, highest: float) -> None:
    """Make the axis x or y logarithmic, of ratios from `lowest`, at most 1, to `highest`."""
    top = max(highest, 1.04) ** 1.05
    low = lowest / (top / lowest) ** 0.03 if lowest < 1 else top**-0.03
    panel.set(**{f"{name}scale": "log", f"{name}lim": (low, top)})
    axis = panel.xaxis if name == "x" else panel.yaxis
    apart = np.log(top / min(lowest, 1.0)) / (_MOST_RATIOS + 1)
    ticks = [1.0]
    for ratio in _RATIOS:
        if ratio <= top and np.log(ratio / ticks[-1]) >= apart:
            ticks.append(ratio)
    for ratio in _RATIOS:
        if 1 / ratio >= low and np.log(ticks[0] * ratio) >= apart:
            ticks.insert(0, 1 / ratio)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:.3g}x"))
    axis.set_minor_locator(NullLocator())


def finish(figure: Figure, panels: Any, used: int, upwards: str = "time [µs]") -> None:
    """Label the first `used` of a figure's `panels`, hide the others, and write the legend."""
    across = panels.shape[1]
    for place, panel in enumerate(panels.flat):
        if place >= used:
            panel.set_axis_off()
        elif place + across >= used:
            panel.set_xlabel("message size [bytes]", fontsize="small")
            panel.tick_params(labelbottom=True)
    for panel in panels[:, 0]:
        panel.set_ylabel(upwards)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    columns = legend_columns(figure, labels)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442")
_HATCHES = ("", "////", "....", "xxxx")
_MARKERS = ("o", "s", "^", "D")
_MOST_NAMED = 12
"""Algorithms of a collective that are told apart; the rest share one look."""


class Style(NamedTuple):
    """The fill, hatch and marker of an algorithm, and the colour of the hatch's lines."""

    colour: str
    hatch: str = ""
    marker: str = "o"
    hatch_colour: str = "white"


DEFAULT = Style("#d9d9d9", "//", "o", "#b0b0b0")
OTHER = Style("#4d4d4d", "", "P")
_STYLES = tuple(
    Style(colour, hatch, marker)
    for hatch, marker in zip(_HATCHES, _MARKERS, strict=True)
    for colour in _COLOURS
)


class _Legend(NamedTuple):
    """The algorithms of one collective: named ones, most used first, and how many are not."""

    named: tuple[str, ...]
    others: int
    has_default: bool


class AlgorithmStyles:
    """The looks of all algorithms of a picture."""

    def __init__(self, used: Mapping[Collective, Iterable[Configuration]]) -> None:
        counts = {c: Counter(u.algorithm for u in uses) for c, uses in used.items()}
        self._legends = {c: _legend(count) for c, count in counts.items()}
        self._styles = _assigned([legend.named for legend in self._legends.values()], counts)

    def entries(self, collective: Collective) -> list[tuple[str, Style]]:
        """Return what a legend of `collective` lists, the algorithms used most first."""
        legend = self._legends[collective]
        found = [(shortened(name), self.style(collective, name)) for name in legend.named]
        if legend.others:
            found.append((f"{legend.others} others", OTHER))
        if legend.has_default:
            found.append(("default", DEFAULT))
        return found

    def style(self, collective: Collective, algorithm: str) -> Style:
        if algorithm == DEFAULT_ALGORITHM:
            return DEFAULT
        if algorithm not in self._legends[collective].named:
            return OTHER
        return self._styles[algorithm]


def _legend(count: Counter[str]) -> _Legend:
    names = sorted((n for n in count if n != DEFAULT_ALGORITHM), key=lambda n: (-count[n], n))
    # one alone needs no more room by its name than as one other
    most = _MOST_NAMED if len(names) > _MOST_NAMED + 1 else len(names)
    return _Legend(tuple(names[:most]), len(names) - most, DEFAULT_ALGORITHM in count)


def _assigned(
    groups: Sequence[Sequence[str]], counts: Mapping[Collective, Counter[str]]
) -> dict[str, Style]:
    """Give each name a look that no name of the same group has, the most used names first."""
    total: Counter[str] = Counter()
    for count in counts.values():
        total.update(count)
    names = sorted({name for group in groups for name in group}, key=lambda n: (-total[n], n))
    given: dict[str, int] = {}
    for name in names:
        taken = {given[other] for g in groups if name in g for other in g if other in given}
        uses = Counter(given.values())
        free = [k for k in range(len(_STYLES)) if k not in taken] or range(len(_STYLES))
        given[name] = min(free, key=lambda k: (k // len(_COLOURS), uses[k], k))
    return {name: _STYLES[at] for name, at in given.items()}


def legend(block: PanelGroup, named: Iterable[tuple[str, Style]], *, markers: bool = False) -> None:
    """Draw a legend of names and their looks beside a block's panels."""
    figure = block.panels[0].get_figure(root=True)
    assert figure is not None
    figure.legend(
        handles=[_marker(*one) if markers else patch(*one) for one in named],
        loc="center left",
        bbox_to_anchor=block.legend_at,
        frameon=False,
        fontsize="small",
        borderaxespad=0.0,
    )


def patch(name: str, style: Style) -> Patch:
    return Patch(
        facecolor=style.colour,
        edgecolor=style.hatch_colour,
        hatch=style.hatch,
        linewidth=0,
        label=name,
    )


def _marker(name: str, style: Style) -> Line2D:
    return Line2D(
        [],
        [],
        marker=style.marker,
        color=style.colour,
        markeredgecolor="black",
        markeredgewidth=0.6,
        markersize=5,
        linestyle="none",
        label=name,
    )
