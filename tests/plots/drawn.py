"""What a figure shows, as plain numbers and texts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend as FigureLegend
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class Drawn(NamedTuple):
    """A line: where it goes and how it looks."""

    x: Numbers
    y: Numbers
    colour: str
    width: float


class Area(NamedTuple):
    """The polygons of one label: their corners (n, 2) each, fill and hatch."""

    corners: list[Numbers]
    colour: str
    hatch: str | None

    @property
    def every(self) -> Numbers:
        """All corners."""
        return np.concatenate(self.corners)


def panels(figure: Figure) -> list[Axes]:
    """Return the axes that show data, in order."""
    return [axes for axes in figure.axes if axes.axison]


def lines(axes: Axes) -> dict[str, Drawn]:
    """Return the lines by label, the last of each."""
    return dict(every_line(axes))


def every_line(axes: Axes) -> list[tuple[str, Drawn]]:
    """Return all lines with their labels."""
    found = []
    for line in axes.lines:
        colour: Any = line.get_color()
        x, y = (np.asarray(v, np.float64) for v in (line.get_xdata(), line.get_ydata()))
        found.append((str(line.get_label()), Drawn(x, y, to_hex(colour), line.get_linewidth())))
    return found


def areas(axes: Axes) -> dict[str, Area]:
    """Return polygons, bands and bundles of lines by label."""
    found = {}
    for one in axes.collections:
        if str(one.get_label()).startswith("_"):
            continue
        corners = [np.asarray(path.vertices, np.float64) for path in one.get_paths()]
        fills = np.atleast_2d(np.asarray(one.get_facecolor(), np.float64))
        colour = to_hex(fills[0].tolist()) if fills.size else ""
        found[str(one.get_label())] = Area(corners, colour, one.get_hatch())
    return found


def legends(figure: Figure) -> list[list[str]]:
    """Return the texts of the legends beside the panels, then those of the whole figure's."""
    below = FigureLegend.codes["lower center"]
    ordered = sorted(figure.legends, key=lambda one: one._loc == below)  # type: ignore[attr-defined]
    return [[text.get_text() for text in one.get_texts()] for one in ordered]


def labels(axes: Axes, name: str) -> list[str]:
    """Return the labels of the ticks within an axis, x or y."""
    axis = axes.xaxis if name == "x" else axes.yaxis
    low, high = axes.get_xlim() if name == "x" else axes.get_ylim()
    written = axis.get_major_formatter()
    return [written(float(at)) for at in axis.get_majorticklocs() if low <= at <= high]
