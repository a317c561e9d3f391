"""Gains over the default: predicted with their bounds, beside measured ones, and beside harm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.decisions import Selection
from colltune.domain import Instance
from colltune.models.guard import HARM
from colltune.plot_data.measured import PROMISED, Calibration, MeasuredDecisions
from colltune.plot_data.summaries import ShapeGain
from colltune.plots import scaffold
from colltune.selector.argmin import ModelSelector

MOST_POINTS = 600
_KEPT = "0.88"
_DEFAULT, _SELECTED, _BAD = "#d55e00", "#0072b2", "#b00020"


def guard(selector: ModelSelector, instances: Sequence[Instance]) -> Figure:
    """Draw the gains predicted for `instances`, at least one, of one collective and shape.

    The line is t_default / t_fastest as predicted, the band reaches down to the bound that the
    guard compares with the noise; grey is where it keeps the default.
    """
    unguarded = selector.unguarded()
    guarded = selector.select_many(instances)
    gains = np.array([s.gain for s in unguarded.select_many(instances)])
    bounds = np.array([np.nan if s.gain_bound is None else s.gain_bound for s in guarded])
    asked = [instance.msize_bytes for instance in instances]
    sizes = np.array(scaffold.size_places(asked))
    figure = Figure(figsize=(7.6, 3.8), layout="constrained")
    panel = figure.subplots()
    panel.plot(sizes, gains, color="tab:blue", linewidth=2, label="predicted gain of the fastest")
    panel.plot(sizes, bounds, color="tab:blue", linewidth=0.9, linestyle="--", label="its bound")
    panel.fill_between(sizes, bounds, gains, color="tab:blue", alpha=0.15, linewidth=0)
    panel.axhline(1, color="0.3", linewidth=0.8)
    scaffold.size_axis(panel, asked)
    panel.set(yscale="log", xlabel="message size")
    panel.set_ylabel("gain over the default")
    panel.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    panel.yaxis.set_minor_formatter(lambda value, _position: f"{value:g}" if value < 5 else "")
    panel.tick_params(axis="y", which="both", labelsize="small")
    panel.set_xlim(sizes.min(), max(sizes.max(), 2 * sizes.min()))
    _shade_kept(panel, sizes, guarded)
    panel.legend(loc="best", frameon=False, fontsize="small")
    first = instances[0]
    scaffold.entitle(figure, f"{first.collective.mpi_name} on {first.shape}: the guard")
    return figure


def _shade_kept(panel: Axes, sizes: np.ndarray, guarded: Sequence[Selection]) -> None:
    """Shade the message sizes at which the default is kept, each up to the middle of the next."""
    ends = np.concatenate([[sizes[0]], np.sqrt(sizes[1:] * sizes[:-1]), [sizes[-1]]])
    label = "default kept"
    for place, selection in enumerate(guarded):
        if selection.configuration.is_default:
            panel.axvspan(
                ends[place], ends[place + 1], color=_KEPT, linewidth=0, zorder=0, label=label
            )
            label = ""


def of_shapes(rows: Sequence[ShapeGain]) -> Figure:
    """Draw each shape's mean predicted gain, a bar down to its bound, and the measured gain."""
    figure, panel = _rows([str(row.shape) for row in rows])
    found = []
    for row in rows:
        told = row.outcome
        judged = told is not None and told.predicted is not None
        found.append(
            (told.predicted, told.predicted_bound, told.speedup)
            if told is not None and judged
            else (row.gain, row.bound, None)
        )
    gain, bound, measured = np.array(found, np.float64).reshape(-1, 3).T
    at = np.arange(len(rows))
    panel.hlines(at, bound, gain, color=_SELECTED, linewidth=2.5, alpha=0.6)
    panel.plot(gain, at, "o", color=_SELECTED, markersize=4.5)
    panel.plot(measured, at, "x", color=_DEFAULT, markersize=6, markeredgewidth=1.6)
    values = [1.0, *gain, *bound, *measured]
    panel.set_xlabel("gain over the default, geometric mean over the measured sizes")
    low, high = float(np.nanmin([0.95, *values])), float(np.nanmax([1.25, *values]))
    scaffold.ratio_axis(panel, "x", low, high)
    panel.axvline(1, color="0.3", linewidth=0.8)
    return figure


def calibration(rows: Sequence[Calibration]) -> Figure:
    """Draw for each node count the share of measured times inside the predicted 90 % interval."""
    figure, panel = _rows(["all" if row.nodes is None else str(row.nodes) for row in rows])
    inside = np.array([row.inside for row in rows], np.float64)
    panel.hlines(np.arange(len(rows)), 0, inside, color=_SELECTED, linewidth=2.5, alpha=0.6)
    panel.plot(inside, np.arange(len(rows)), "o", color=_SELECTED, markersize=4.5)
    for at, row in enumerate(rows):
        if row.inside is not None:
            panel.text(1.03, at, f"{row.inside:.0%} of {row.times}", va="center", fontsize="small")
    panel.axvline(PROMISED, color=_BAD, linestyle="--", linewidth=1)
    panel.set_xlim(0, 1)
    panel.set_xticks((0, 0.25, 0.5, 0.75, 1), ("0 %", "25 %", "50 %", "75 %", "100 %"))
    panel.set_xlabel("measured times inside the interval, by nodes")
    return figure


def _rows(names: Sequence[str]) -> tuple[Figure, Axes]:
    """Return a panel with a named row for each of `names`, the first above."""
    height_in = 0.75 + 0.19 * len(names)
    figure = Figure(figsize=(6.2, height_in))
    panel = figure.add_axes((0.15, 0.5 / height_in, 0.7, 1 - 0.6 / height_in))
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.set_yticks(range(len(names)), names)
    panel.tick_params(labelsize="small", length=2)
    panel.grid(axis="x", color="0.9", linewidth=0.6)
    panel.set_axisbelow(True)
    return figure, panel


def predicted_and_measured(comparison: MeasuredDecisions) -> Figure | None:
    """Draw predicted beside measured gains where the default is replaced, None where it never is.

    At most 600 instances are drawn; rings lie outside the measured range.
    """
    measured, predicted = comparison.measured_gain, comparison.gain
    rows = np.flatnonzero(comparison.replaced & np.isfinite(measured) & np.isfinite(predicted))
    if not len(rows):
        return None
    both = np.concatenate([measured[rows], predicted[rows]])
    low, high = min(0.8, float(both.min())), max(1.5, float(both.max()))
    figure = Figure(figsize=(4.6, 4.4))
    panel = figure.add_axes((0.14, 0.12, 0.82, 0.85))
    panel.axhspan(low**2, 1 / HARM, color=_BAD, alpha=0.1, linewidth=0)
    panel.plot([low**2, high**2], [low**2, high**2], color="0.4", linewidth=0.8)
    panel.axhline(1, color="0.4", linewidth=0.8)
    shown = rows[np.unique(np.linspace(0, len(rows) - 1, MOST_POINTS).round().astype(int))]
    outside = comparison.extrapolated[shown]
    for part, fill, edge in (
        (shown[~outside], _SELECTED, "none"),
        (shown[outside], "none", _DEFAULT),
    ):
        look: Any = {"markerfacecolor": fill, "markeredgecolor": edge, "markersize": 4.5}
        panel.plot(predicted[part], measured[part], "o", **look)
    for name in ("x", "y"):
        scaffold.ratio_axis(panel, name, low, high)
    panel.set(xlabel="predicted gain", ylabel="measured gain")
    panel.grid(color="0.9", linewidth=0.6)
    panel.set_axisbelow(True)
    return figure


def intervals(rows: Sequence[tuple[str, float, float, float]]) -> Figure:
    """Draw gains with their intervals: `rows` of a name, the gain, and the lower and upper end."""
    figure, panel = _rows([scaffold.shortened(name, 18) for name, *_ in rows])
    gain, lower, upper = np.array([values for _, *values in rows], np.float64).T
    at = np.arange(len(rows))
    for part, colour in ((lower > 1, _SELECTED), (upper < 1, _BAD), (None, "0.45")):
        shown = (lower <= 1) & (upper >= 1) if part is None else part
        panel.hlines(at[shown], lower[shown], upper[shown], color=colour, linewidth=2.5, alpha=0.6)
        panel.plot(gain[shown], at[shown], "o", color=colour, markersize=4.5)
    panel.set_xlabel("gain over the default")
    scaffold.ratio_axis(panel, "x", min(0.95, lower.min()), max(1.05, upper.max()))
    panel.axvline(1, color="0.3", linewidth=0.8)
    return figure
