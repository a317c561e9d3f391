"""What learners predict, side by side, over message size and beside what was measured.

`colltune.plots.ggplot` draws the same tables with R.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.models.plain_fit import MEASURED
from colltune.plots.lettering import plain, shortened
from colltune.plots.time_grid import finish

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_ACROSS = 5
_RATIOS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 5, 10)


def curves(table: pd.DataFrame) -> Figure:
    """Return a panel for each configuration.

    `table` is that of `colltune.models.plain_fit.curves`.
    Dots are measured times, lines the learners' predictions.
    """
    names = sorted(table["configuration"].unique())
    learners = _learners(table)
    across = min(_ACROSS, len(names))
    down = math.ceil(len(names) / across)
    figure = Figure(figsize=(2.5 * across + 0.6, 2.3 * down + 0.9), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for panel, name in zip(panels.flat, names, strict=False):
        _curve_panel(panel, table[table["configuration"] == name], learners)
        panel.set_title(shortened(name), fontsize="small")
    finish(figure, panels, len(names))
    return figure


def _curve_panel(panel: Axes, rows: pd.DataFrame, learners: list[str]) -> None:
    measured = rows[rows["learner"] == MEASURED]
    for learner, colour in zip(learners, _COLOURS, strict=False):
        mine = rows[rows["learner"] == learner].sort_values("msize_bytes")
        x = np.maximum(mine["msize_bytes"], 1)
        panel.plot(x, mine["time_s"] * 1e6, color=colour, label=plain(learner), lw=1.3)
    x = np.maximum(measured["msize_bytes"], 1)
    panel.plot(x, measured["time_s"] * 1e6, "k.", ms=6, label=MEASURED)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.minorticks_off()
    panel.tick_params(labelsize="x-small")
    panel.grid(color="0.93")


def errors(table: pd.DataFrame) -> Figure:
    """Return a picture of predicted over measured time.

    `table` is that of `colltune.models.plain_fit.compared`.
    A box for each configuration and learner: quartiles, whiskers from 5 to 95 %.
    """
    names = sorted(table["configuration"].unique())
    learners = _learners(table)
    figure = Figure(figsize=(max(7.0, 0.9 * len(names) + 1.5), 4.2), layout="constrained")
    panel = figure.subplots()
    width = 0.8 / len(learners)
    for k, (learner, colour) in enumerate(zip(learners, _COLOURS, strict=False)):
        mine = table[table["learner"] == learner]
        ratios = (mine["predicted_s"] / mine["measured_s"]).groupby(mine["configuration"])
        samples = [ratios.get_group(name).to_numpy() for name in names if name in ratios.groups]
        places = [place for place, name in enumerate(names) if name in ratios.groups]
        drawn = panel.boxplot(
            samples,
            positions=[place + (k - (len(learners) - 1) / 2) * width for place in places],
            widths=0.85 * width,
            whis=(5, 95),
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": colour, "alpha": 0.6, "linewidth": 0.8},
            medianprops={"color": "black", "linewidth": 1.4},
        )
        drawn["boxes"][0].set_label(plain(learner))
    panel.axhline(1, color="0.4", lw=0.8, zorder=0)
    panel.set_yscale("log")
    low, high = panel.get_ylim()
    panel.set_yticks([r for r in _RATIOS if low < r < high])
    panel.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    panel.minorticks_off()
    panel.grid(axis="y", color="0.93")
    panel.set_axisbelow(True)
    panel.set_ylabel("predicted / measured")
    panel.set_xticks(range(len(names)), map(shortened, names), rotation=30, ha="right")
    panel.set_xlim(-0.6, len(names) - 0.4)
    figure.legend(loc="outside lower center", ncols=len(learners), frameon=False)
    return figure


def _learners(table: pd.DataFrame) -> list[str]:
    return [name for name in dict.fromkeys(table["learner"]) if name != MEASURED]
