"""Maps of a report: shapes across, message size upwards, one field per decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Configuration
from colltune.plot_data.decisions import REASONS, DecisionMap, Grid, Run
from colltune.report.html.style import (
    GAINS,
    algorithm_style,
    gain_style,
    why_letter,
    why_style,
)
from colltune.report.markup import Markup, element, svg
from colltune.text import bytes_text

_COLUMN, _GAP, _OCTAVE = 21.0, 12.0, 13.0
_LEFT, _TOP, _BELOW = 62.0, 8.0, 62.0
_LEAST_FOR_LABEL = 10.5
_MOST_SIZE_LABELS = 14

Integers = NDArray[np.int64]


class Look(NamedTuple):
    """How a run of fields looks: a pattern, a short label, and what hovering tells."""

    style: str
    label: str
    text: str


class _Layout:
    """Where shapes and sizes lie in a picture."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        ppn = grid.ppn.tolist()
        groups = np.cumsum([0] + [a != b for a, b in pairwise(ppn)])
        self.x = [_LEFT + _COLUMN * i + _GAP * int(g) for i, g in enumerate(groups)]
        at = octaves(grid.msize_bytes)
        middles = (at[1:] + at[:-1]) / 2
        first, last = at[0] - 0.25, at[-1] + 0.25
        edges = np.concatenate([[first], middles, [last]])
        self.bottom = _TOP + _OCTAVE * (last - first)
        self.y = (self.bottom - _OCTAVE * (edges - first)).tolist()
        self.centre = (self.bottom - _OCTAVE * (at - first)).tolist()
        self.width = self.x[-1] + _COLUMN + 8
        self.height = self.bottom + _BELOW

    def box(self, run: Run) -> tuple[float, float, float, float]:
        """Return x, y, width and height of a run."""
        top, bottom = self.y[run.last + 1], self.y[run.first]
        return self.x[run.shape], top, _COLUMN, bottom - top


def octaves(msize_bytes: Integers) -> NDArray[np.float64]:
    """Return log2 of message sizes, 0 bytes one octave below the next."""
    positive = msize_bytes[msize_bytes > 0]
    zero = float(np.log2(positive.min())) - 1 if len(positive) else 0.0
    return np.where(msize_bytes > 0, np.log2(np.maximum(msize_bytes, 1)), zero)


def ranks(found: DecisionMap) -> dict[str, int]:
    """Return the algorithms by how often they are used, from 1 on; the default is 0."""
    columns, counts = np.unique(found.chosen, return_counts=True)
    uses: dict[str, int] = {}
    for column, count in zip(columns.tolist(), counts.tolist(), strict=True):
        configuration = found.portfolio[column]
        if not configuration.is_default:
            uses[configuration.algorithm] = uses.get(configuration.algorithm, 0) + count
    ordered = sorted(uses, key=lambda name: (-uses[name], name))
    default = found.portfolio[0].default(found.portfolio[0].library, found.collective)
    return {default.algorithm: 0} | {name: i for i, name in enumerate(ordered, start=1)}


def short(configuration: Configuration) -> str:
    """Return algorithm and parameters without library and collective."""
    return configuration.short


def decision_picture(found: DecisionMap) -> Markup:
    """Draw which configuration is used where."""
    rank = ranks(found)

    def look(run: Run) -> Look:
        configuration = found.configuration(run.shape, run.first)
        number = rank[configuration.algorithm]
        return Look(algorithm_style(number), str(number), short(configuration))

    return _picture(found, found.chosen, look, f"{found.collective.mpi_name}: what is used where")


def guard_picture(found: DecisionMap) -> Markup:
    """Draw why the default is kept or replaced."""

    def look(run: Run) -> Look:
        why = REASONS[int(found.why[run.shape, run.first])]
        gains = found.considered[run.shape, run.first : run.last + 1]
        bound = _least(found.bound[run.shape, run.first : run.last + 1])
        told = f"; predicted gains {gains.min():.2f} to {gains.max():.2f}{bound}"
        known = np.isfinite(found.default_s[run.shape, run.first])
        return Look(why_style(why), why_letter(why), why + (told if known else ""))

    return _picture(found, found.why, look, f"{found.collective.mpi_name}: why")


def gain_picture(found: DecisionMap) -> Markup:
    """Draw the predicted gain over the default."""
    bins = np.searchsorted(GAINS, found.gain, side="right") - 1
    codes = np.where(found.replaced, bins, -1)

    def look(run: Run) -> Look:
        code = int(codes[run.shape, run.first])
        gain = found.gain[run.shape, run.first : run.last + 1]
        bound = _least(found.bound[run.shape, run.first : run.last + 1])
        text = f"predicted gain {gain.min():.2f} to {gain.max():.2f}{bound}"
        text = "default kept" if code < 0 else text
        return Look(gain_style(code), "" if code < 0 else f"{GAINS[max(code, 0)]:g}", text)

    return _picture(found, codes, look, f"{found.collective.mpi_name}: predicted gain")


def _least(bounds: NDArray[np.float64]) -> str:
    stated = bounds[np.isfinite(bounds)]
    return f", at least {stated.min():.2f}" if len(stated) else ""


def _picture(
    found: DecisionMap, codes: Integers, look: Callable[[Run], Look], title: str
) -> Markup:
    layout = _Layout(found.grid)
    fields = [_field(layout, run, look(run)) for run in found.runs(codes)]
    return svg(
        layout.width,
        layout.height,
        title,
        *fields,
        *_veils(layout, found),
        *_sizes(layout),
        *_shapes(layout),
    )


def _field(layout: _Layout, run: Run, look: Look) -> Markup:
    x, y, width, height = layout.box(run)
    sizes = layout.grid.msize_bytes
    first, last = (bytes_text(int(sizes[i])) for i in (run.first, run.last))
    where = f"{layout.grid.shapes[run.shape]}, {first} to {last}: {look.text}"
    parts = [
        element(
            "rect",
            element("title", where),
            x=x,
            y=y,
            width=width,
            height=height,
            fill=f"url(#{look.style})",
            class_="edge",
        )
    ]
    if look.label and height >= _LEAST_FOR_LABEL:
        middle = y + height / 2 + 3.5
        parts.append(element("text", look.label, x=x + width / 2, y=middle, class_="code"))
    return Markup("".join(parts))


def _veils(layout: _Layout, found: DecisionMap) -> Iterator[Markup]:
    """Veil what lies outside the measured range; like neighbours share one veil."""
    runs: dict[int, list[tuple[int, int]]] = {}
    for run in found.runs(found.extrapolated.astype(np.int64)):
        if found.extrapolated[run.shape, run.first]:
            runs.setdefault(run.shape, []).append((run.first, run.last))
    ppn = layout.grid.ppn.tolist()
    keys = [(ppn[shape], tuple(runs.get(shape, ()))) for shape in range(len(ppn))]
    for key, group in groupby(range(len(ppn)), key=lambda shape: keys[shape]):
        shapes = list(group)
        for first, last in key[1]:
            x, y, width, height = layout.box(Run(shapes[0], first, last))
            width += layout.x[shapes[-1]] - layout.x[shapes[0]]
            yield element("rect", x=x, y=y, width=width, height=height, class_="veil")


def _sizes(layout: _Layout) -> Iterator[Markup]:
    """Label the message sizes; a tick marks a measured one."""
    grid = layout.grid
    for size, y, known in zip(
        grid.msize_bytes.tolist(), layout.centre, grid.known_size.tolist(), strict=True
    ):
        if known:
            yield element("path", d=f"M{_LEFT - 5:g} {y:.1f}h4", class_="axis")
        if size in labelled_sizes(grid.msize_bytes, _MOST_SIZE_LABELS):
            yield element("text", bytes_text(size), x=_LEFT - 8, y=y + 3.5, class_="end")


def labelled_sizes(msize_bytes: Integers, most: int) -> set[int]:
    """Return which message sizes to label: 0 and powers of 2, evenly."""
    sizes = msize_bytes.tolist()
    powers = [size for size in sizes if size and size & (size - 1) == 0] or sizes
    step = -(-len(powers) // most)
    return {*powers[::step], *([0] if 0 in sizes else [])}


def _shapes(layout: _Layout) -> Iterator[Markup]:
    """Label the node counts below the columns, and the processes per node below those."""
    grid = layout.grid
    for x, nodes, known in zip(layout.x, grid.nodes.tolist(), grid.known.tolist(), strict=True):
        at = f"translate({x + _COLUMN / 2 + 3.5:.1f} {layout.bottom + 5:.1f}) rotate(-90)"
        class_ = f"end {'seen' if known else 'unseen'}"
        yield element("text", nodes, transform=at, class_=class_)
    yield element("text", "nodes", x=4, y=layout.bottom + 16, class_="soft")
    yield element("text", "ppn", x=4, y=layout.height - 10, class_="soft")
    for ppn, group in groupby(range(len(layout.x)), key=lambda shape: grid.ppn.tolist()[shape]):
        shapes = list(group)
        first, last = layout.x[shapes[0]] + 1, layout.x[shapes[-1]] + _COLUMN - 1
        y = layout.height - 22
        yield element("path", d=f"M{first:.1f} {y:.1f}H{last:.1f}", class_="axis")
        middle = (first + last) / 2
        yield element("text", ppn, x=middle, y=layout.height - 10, class_="middle head")
