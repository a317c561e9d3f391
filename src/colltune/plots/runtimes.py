"""Runtimes over message size: all configurations, the default and what is chosen."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from colltune.plot_data.runtimes import RuntimeLine, Runtimes, ShapeRuntimes
from colltune.plots import scaffold
from colltune.plots.scaffold import AlgorithmStyles, legend

_DEFAULT, _CHOSEN, _THIN, _OUTSIDE = "#d55e00", "black", "0.72", "0.93"
_MANY_SIZES = 20


def draw(found: Runtimes) -> Figure:
    """Draw `found`: candidates thin, the default and what is chosen thick, a panel per shape."""
    groups = [list(group) for _, group in groupby(found.panels, key=lambda p: p.collective)]
    styles = AlgorithmStyles(
        {
            group[0].collective: [c for p in group for c in p.chosen.configurations if c]
            for group in groups
        }
    )
    frame = scaffold.Frame(found.subject, found.notes, _handles(found))
    heights = [2.3] * len(groups)
    figure, blocks = scaffold.blocks([len(group) for group in groups], 2.5, heights, frame)
    for block, group in zip(blocks, groups, strict=True):
        for axes, panel in zip(block.panels, group, strict=True):
            _draw_panel(axes, panel, styles)
        scaffold.label_rows(block, "runtime")
        legend(block, styles.entries(group[0].collective), markers=True)
    return figure


def _draw_panel(axes: Axes, panel: ShapeRuntimes, styles: AlgorithmStyles) -> None:
    sizes = panel.msize_bytes.tolist()
    measured = [] if panel.points is None else panel.points.msize_bytes.tolist()
    places = scaffold.place_of([*sizes, *measured])
    x = np.array([places[size] for size in sizes])
    for configuration, time_s in panel.configurations.items():
        if not configuration.is_default:
            axes.plot(x, time_s, color=_THIN, linewidth=0.7, label=configuration.id, zorder=1)
    _thick(axes, x, panel.default, _DEFAULT, "default", (0, (3, 1.2)))
    _thick(axes, x, panel.chosen, _CHOSEN, "chosen", "-")
    _marks(axes, x, panel, styles)
    if panel.points is not None:
        at = [places[size] for size in measured]
        for times, colour, name in (
            (panel.points.default_s, _DEFAULT, "default"),
            (panel.points.chosen_s, _CHOSEN, "chosen"),
        ):
            axes.plot(
                at, times, "x", color=colour, markersize=5, label=f"{name} measured", zorder=5
            )
    scaffold.size_axis(axes, [*sizes, *measured])
    axes.set_xlim(min(places.values()) / 1.3, max(places.values()) * 1.3)
    _shade(axes, x, panel)
    scaffold.runtime_axis(axes)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(f"{panel.collective.mpi_name}, {panel.shape}", fontsize="medium", y=1.0)
    axes.set_xlabel("message size", fontsize="small")


def _thick(axes: Axes, x: Any, line: RuntimeLine, colour: str, name: str, dashes: Any) -> None:
    axes.fill_between(
        x, line.lower_s, line.upper_s, color=colour, alpha=0.16, linewidth=0, label=f"{name} band"
    )
    dot = "o" if len(x) == 1 else None
    look = {"color": colour, "linewidth": 2.0, "linestyle": dashes, "marker": dot}
    axes.plot(x, line.time_s, **look, label=name, zorder=3)


def _marks(axes: Axes, x: Any, panel: ShapeRuntimes, styles: AlgorithmStyles) -> None:
    """Mark on the line of choices which algorithm each is."""
    by_algorithm: dict[str, list[int]] = {}
    for at, configuration in enumerate(panel.chosen.configurations):
        if configuration is not None:
            by_algorithm.setdefault(configuration.algorithm, []).append(at)
    for algorithm, places in by_algorithm.items():
        style = styles.style(panel.collective, algorithm)
        axes.plot(
            x[places],
            panel.chosen.time_s[places],
            style.marker,
            color=style.colour,
            markeredgecolor="black",
            markeredgewidth=0.6,
            markersize=4.5 if len(x) <= _MANY_SIZES else 3.2,
            label=f"chosen: {algorithm}",
            zorder=4,
        )


def _shade(axes: Axes, x: Any, panel: ShapeRuntimes) -> None:
    """Shade what lies outside the measured range."""
    left, right = axes.get_xlim()
    edges = [left, *np.sqrt(x[1:] * x[:-1]).tolist(), right]
    for at, outside in enumerate(panel.extrapolated.tolist()):
        if outside:
            axes.axvspan(edges[at], edges[at + 1], color=_OUTSIDE, linewidth=0, zorder=0)


def _handles(found: Runtimes) -> list[Any]:
    handles: list[Any] = [
        Line2D([], [], color=_CHOSEN, linewidth=2, label=found.chosen_is),
        Line2D([], [], color=_DEFAULT, linewidth=2, linestyle=(0, (3, 1.2)), label="default"),
        Line2D([], [], color=_THIN, linewidth=0.9, label="other configurations"),
    ]
    if found.has_intervals:
        handles.append(Patch(color="0.8", label=found.interval_is))
    if any(panel.points is not None for panel in found.panels):
        handles.append(Line2D([], [], color="0.3", marker="x", linestyle="none", label="measured"))
    if any(panel.extrapolated.any() for panel in found.panels):
        handles.append(Patch(color=_OUTSIDE, label="outside what was measured"))
    return handles
