"""Runtimes over message size: all configurations, the default and what is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from colltune.decisions import DecisionTable, Interval
from colltune.domain import DEFAULT_ALGORITHM, Collective, Shape
from colltune.plot_data.runtimes import (
    Curve,
    RuntimeLine,
    Runtimes,
    ShapeRuntimes,
)
from colltune.plots import scaffold
from colltune.plots.scaffold import AlgorithmStyles, legend

if TYPE_CHECKING:
    import pandas as pd

    from colltune.dataset import PerformanceDataset

_DEFAULT, _CHOSEN, _THIN, _OUTSIDE = "#d55e00", "black", "0.72", "0.93"
_MANY_SIZES = 20
_SELECTED, _MOST_LABELS = "#0072b2", 3


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
    for configuration, time_s in zip(panel.configurations, panel.time_s, strict=True):
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
        Line2D([], [], color=_CHOSEN, linewidth=2, label=found.choice),
        Line2D([], [], color=_DEFAULT, linewidth=2, linestyle=(0, (3, 1.2)), label="default"),
        Line2D([], [], color=_THIN, linewidth=0.9, label="other configurations"),
    ]
    if found.has_intervals:
        handles.append(Patch(color="0.8", label=found.interval))
    if any(panel.points is not None for panel in found.panels):
        handles.append(Line2D([], [], color="0.3", marker="x", linestyle="none", label="measured"))
    if any(panel.extrapolated.any() for panel in found.panels):
        handles.append(Patch(color=_OUTSIDE, label="outside what was measured"))
    return handles


def normalised(curves: Sequence[Curve]) -> Figure:
    """Draw the times of the default and of what is selected over the best, by shape and size.

    The shapes stand side by side in one panel: axes are what takes matplotlib long.
    """
    wide = 0.85 + 2.0 * len(curves)
    figure = Figure(figsize=(wide, 2.7))
    panel = figure.add_axes((0.65 / wide, 0.18, 1 - 0.75 / wide, 0.6))
    highest = max(
        float(np.nanmax([*curve.default_ratio, *curve.selected_ratio, 1.25])) for curve in curves
    )
    ticks: dict[float, str] = {}
    for at, curve in enumerate(curves):
        sizes = curve.msize_bytes.tolist()
        places = np.log2(scaffold.size_places(sizes))
        low, span = places.min() - 1, np.ptp(places) + 2
        x = at + (places - low) / span
        look: Any = {"color": _DEFAULT, "linewidth": 2, "marker": "s", "markersize": 3.5}
        panel.plot(x, curve.default_ratio, **look)
        look = {"color": _SELECTED, "linestyle": "--", "marker": "o", "markersize": 3.5}
        panel.plot(x, curve.selected_ratio, linewidth=1.8, **look)
        labels = scaffold.size_labels(sizes, _MOST_LABELS).items()
        ticks |= {at + (np.log2(place) - low) / span: text for place, text in labels}
        state = "" if curve.trained else ", not trained on"
        panel.text(
            at + 0.5, 1.02, f"{curve.shape}{state}", ha="center", fontsize="small",
            transform=panel.get_xaxis_transform(),
        )  # fmt: skip
    panel.axhline(1, color="0.4", linewidth=1.2)
    panel.vlines(range(1, len(curves)), 0, 1, transform=panel.get_xaxis_transform(), colors="0.3")
    panel.set_xlim(0, len(curves))
    panel.set_xticks(list(ticks), list(ticks.values()))
    scaffold.ratio_axis(panel, "y", 1.0, highest)
    panel.set_xlabel("message size", fontsize="small")
    panel.tick_params(labelsize="small", length=2)
    panel.grid(color="0.9", linewidth=0.6)
    handles = [
        Line2D([], [], color=_DEFAULT, linewidth=2, marker="s", markersize=4, label="default"),
        Line2D([], [], color=_SELECTED, linestyle="--", marker="o", markersize=4, label="selected"),
        Line2D([], [], color="0.4", linewidth=1.2, label="best"),
    ]
    figure.legend(handles=handles, loc="upper left", ncols=3, frameon=False, fontsize="small")
    return figure


def prepare() -> None:
    """Load what drawing needs, fonts included, so that `tuned` itself is quick."""
    figure = Figure(figsize=(1, 1))
    figure.suptitle("0")
    figure.savefig(BytesIO(), format="png")


def tuned(dataset: PerformanceDataset, table: DecisionTable, shape: Shape) -> Figure:
    """Return one panel per collective, of the times measured on `shape` over message size."""
    cells = dataset.cells()
    cells = cells[(cells["nodes"] == shape.nodes) & (cells["ppn"] == shape.ppn)]
    collectives = dataset.collectives
    figure = Figure(figsize=(4.6 * len(collectives), 4.2), layout="constrained")
    panels = figure.subplots(1, len(collectives), squeeze=False)[0]
    for panel, collective in zip(panels, collectives, strict=True):
        intervals = table.rules.get((collective, shape.nprocs), ())
        _tuned_panel(panel, cells[cells["collective"] == collective], collective, intervals)
    panels[0].set_ylabel("runtime [µs], median")
    scaffold.entitle(figure, f"{dataset.context}, {shape.nodes} x {shape.ppn} processes")
    return figure


def _tuned_panel(
    panel: Axes, cells: pd.DataFrame, collective: Collective, intervals: tuple[Interval, ...]
) -> None:
    by_configuration = {
        (str(algorithm), str(parameters)): rows.sort_values("msize_bytes")
        for (algorithm, parameters), rows in cells.groupby(["algorithm", "parameters"])
    }
    for (algorithm, _), rows in by_configuration.items():
        if algorithm != DEFAULT_ALGORITHM:
            panel.plot(rows["msize_bytes"], rows["time_s"] * 1e6, color="0.75", linewidth=0.7)
    default = by_configuration.get((DEFAULT_ALGORITHM, ""))
    if default is not None:
        x, y = default["msize_bytes"], default["time_s"] * 1e6
        panel.plot(x, y, color="tab:orange", linewidth=2.6, label="default")
    chosen = _chosen(by_configuration, intervals)
    panel.plot(*chosen, color="tab:blue", linewidth=2.6, linestyle=(0, (4, 1.5)), label="chosen")
    panel.set(xscale="log", yscale="log", xlabel="message size [bytes]", title=collective.mpi_name)
    panel.legend(loc="upper left", frameon=False)


def _chosen(
    by_configuration: dict[tuple[str, str], pd.DataFrame], intervals: tuple[Interval, ...]
) -> tuple[list[int], list[float]]:
    """Return sizes and microseconds of whatever is chosen at each measured size."""
    points: dict[int, float] = {}
    for interval in intervals:
        configuration = interval.configuration
        rows = by_configuration.get((configuration.stored_algorithm, configuration.parameter_text))
        if rows is None:
            continue
        for msize, time_s in zip(rows["msize_bytes"], rows["time_s"], strict=True):
            if interval.holds(msize):
                points[int(msize)] = float(time_s) * 1e6
    sizes = sorted(points)
    return sizes, [points[size] for size in sizes]
