"""The picture of `colltune plan --replay`: regret over cost of the schedule strategies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.plots.lettering import plain

if TYPE_CHECKING:
    from colltune.bench.strategies.curves import Curve
    from colltune.domain import Collective

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink")


def regret_over_cost(curves: Sequence[Curve], title: str = "") -> Figure:
    """Return one panel per collective; `title` says of what campaigns.

    Lines are medians over seeds, bands their extremes; the star is the exhaustive campaign.

    `curves` are those of several strategies and seeds, of one dataset.
    """
    collectives = sorted(curves[0].reference.instances)
    figure = Figure(figsize=(4.8 * len(collectives), 4.2), layout="constrained")
    panels = figure.subplots(1, len(collectives), squeeze=False)[0]
    for panel, collective in zip(panels, collectives, strict=True):
        _panel(panel, curves, collective)
    panels[0].set_ylabel("regret on unseen node counts, geo. mean [%]")
    panels[0].legend(loc="upper right", frameon=False)
    figure.suptitle(plain(title) or "What the schedule strategies reach, by replay")
    return figure


def _panel(panel: Axes, curves: Sequence[Curve], collective: Collective) -> None:
    strategies = list(dict.fromkeys(curve.strategy for curve in curves))
    least = min(curve.points[0].cost for curve in curves if curve.points)
    for number, strategy in enumerate(strategies):
        mine = [curve for curve in curves if curve.strategy == strategy]
        costs = sorted({point.cost for curve in mine for point in curve.points})
        regrets = [[_regret(curve, cost, collective) for curve in mine] for cost in costs]
        middle = [statistics.median(values) for values in regrets]
        colour = _COLOURS[number % len(_COLOURS)]
        name = strategy.replace("_", " ")
        panel.step(costs, middle, where="post", color=colour, linewidth=1.8, label=name)
        low, high = [min(v) for v in regrets], [max(v) for v in regrets]
        panel.fill_between(costs, low, high, step="post", color=colour, alpha=0.15, linewidth=0)
        panel.plot(costs[-1:], middle[-1:], marker="o", markersize=4, color=colour)
    exhaustive = _percent(curves[0], curves[0].reference.full[collective], collective)
    panel.axhline(exhaustive, color="0.6", linewidth=0.8, linestyle=":")
    panel.plot([1.0], [exhaustive], "k*", markersize=11, label="exhaustive", linestyle="none")
    panel.set(
        xscale="log",
        xlim=(least / 1.3, 1.5),
        xlabel="cost, of the exhaustive campaign's wall time",
        title=collective.mpi_name,
    )
    panel.set_ylim(bottom=0)
    ticks = [t for t in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0) if t >= least / 1.3]
    panel.set_xticks(ticks, [f"{100 * tick:g} %" for tick in ticks])
    panel.minorticks_off()


def _regret(curve: Curve, cost: float, collective: Collective) -> float:
    """Return the regret in per cent after spending `cost`; at first all is left to the default."""
    gained = 0.0
    for point in curve.points:
        if point.cost <= cost:
            gained = point.gained[collective]
    return _percent(curve, gained, collective)


def _percent(curve: Curve, gained: float, collective: Collective) -> float:
    lost = curve.reference.possible[collective] - gained
    return 100 * math.expm1(lost / curve.reference.instances[collective])
