"""How far the same measurement differs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.dataset.noise import (
    Component,
    Group,
    NoiseReport,
    allocation_medians,
    drift_curve,
    paired,
)
from colltune.evidence.launches import TYPICAL
from colltune.plots.scaffold import COLOURS, entitle

_LEAST_PERCENT = 0.1
_WIDE_RATIO = 4.0
# the median of a normal difference of two values over the standard deviation of each
_TYPICAL_DIFFERENCE = TYPICAL * np.sqrt(2)


def levels(table: pd.DataFrame, report: NoiseReport) -> Figure:
    """Return the picture of `report`; `table` is what it was made from."""
    groups = report.collectives
    width = max(11.0, 3 * (1.2 + 0.45 * len(groups)))
    figure = Figure(figsize=(width, 8), layout="constrained")
    grid = figure.add_gridspec(2, 1, height_ratios=[1.25, 1])
    above, below = (figure.add_subfigure(grid[row]) for row in (0, 1))
    _levels(above.subplots(1, 3, sharey=True), table, groups)
    drift, detectable = below.subplots(1, 2, width_ratios=[1.6, 1])
    _drift(drift, table)
    _detectable(detectable, groups)
    context = report.context
    entitle(
        figure,
        f"Noise on {context.machine}, {context.library} {context.library_version};"
        f" launches: {report.overall.launches}, allocations: {report.overall.allocations}",
    )
    return figure


def _levels(panels: Sequence[Axes], table: pd.DataFrame, groups: Sequence[Group]) -> None:
    within, launches, allocations = panels
    known = table.assign(variance=table["variance"].fillna(0.0))
    collectives = known.drop_duplicates("cell").set_index("cell")["collective"]
    launch_pairs = paired(known, ["allocation"], "launch")
    allocation_pairs = paired(allocation_medians(known, 0.0), [], "allocation")
    names = [group.name for group in groups]
    _boxes(within, table["p90_over_median"], table["collective"], names, 0)
    _boxes(launches, *_ratios(launch_pairs, collectives), names, 1)
    _boxes(allocations, *_ratios(allocation_pairs, collectives), names, 2)
    _own_part(launches, [group.between_launches for group in groups])
    _own_part(allocations, [group.between_allocations for group in groups])
    within.set_title("within a launch:\n90th percentile over median")
    launches.set_title("between launches of an allocation:\nratio of two medians")
    allocations.set_title("between allocations:\nratio of two medians")
    within.set_yscale("log")
    within.set_ylim(_LEAST_PERCENT, 3 * within.get_ylim()[1])
    within.set_ylabel("difference [%]")
    within.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")


def _ratios(
    pairs: pd.DataFrame, collectives: pd.Series[str]
) -> tuple[pd.Series[float], pd.Series[str]]:
    return np.exp(pairs["difference"].abs()), pairs["cell"].map(collectives)


def _boxes(
    panel: Axes, ratios: pd.Series[float], by: pd.Series[str], names: Sequence[str], colour: int
) -> None:
    """Draw one box (quartiles, whiskers from 5 to 95 %) per collective, of percents."""
    percents = 100 * (ratios.dropna() - 1).clip(lower=_LEAST_PERCENT / 100)
    samples = [percents[by.loc[percents.index] == name].to_numpy() for name in names]
    panel.boxplot(
        samples,
        whis=(5, 95),
        showfliers=False,
        widths=0.6,
        patch_artist=True,
        boxprops={"facecolor": COLOURS[colour], "alpha": 0.45, "linewidth": 0.8},
        medianprops={"color": "black", "linewidth": 1.8},
    )
    panel.set_xticks(range(1, len(names) + 1), names, rotation=45, ha="right")
    panel.grid(axis="y", color="0.88")
    panel.set_axisbelow(True)
    if not any(map(len, samples)):
        _say(panel, "nothing to compare in this dataset")


def _own_part(panel: Axes, components: Sequence[Component | None]) -> None:
    """Mark what is left of the typical difference without the scatter of repetitions."""
    told = [(x, c.sd) for x, c in enumerate(components, start=1) if c and c.sd]
    if told:
        x, sds = zip(*told, strict=True)
        typical = 100 * np.expm1(_TYPICAL_DIFFERENCE * np.array(sds))
        label = "median without\nthe levels below"
        panel.plot(x, typical, "D", color="crimson", markersize=6, label=label)
        panel.legend(loc="upper right", frameon=False, fontsize="small")


def _drift(panel: Axes, table: pd.DataFrame) -> None:
    panel.set_title("along a launch")
    panel.set_xlabel("part of the launch's repetitions of a cell [%]")
    panel.set_ylabel("time over its median")
    low, middle, high = drift_curve(table["times_s"])
    if not len(middle):
        _say(panel, "no cell has 40 raw repetitions")
        panel.set(xticks=[], yticks=[])
        return
    x = (np.arange(len(middle)) + 0.5) * 100 / len(middle)
    panel.fill_between(x, low, high, color=COLOURS[0], alpha=0.25, label="80 % of the cells")
    panel.plot(x, middle, color=COLOURS[0], linewidth=2, label="median cell")
    panel.axhline(1, color="0.5", linewidth=0.8)
    panel.set_xlim(0, 100)
    if high.max() > _WIDE_RATIO:
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    panel.legend(loc="upper right", frameon=False)


def _detectable(panel: Axes, groups: Sequence[Group]) -> None:
    panel.set_title("smallest detectable difference (line: 5 %)")
    bars = [
        (group.name, 100 * told.smallest_detectable, group.detectable_text() or "")
        for group in reversed(groups)
        if (told := group.decisions) and told.smallest_detectable is not None
    ]
    if not bars:
        _say(panel, "unknown in this dataset")
        panel.set(xticks=[], yticks=[])
        return
    names, values, labels = zip(*bars, strict=True)
    drawn = panel.barh(names, values, color="0.65", height=0.6)
    middle, half = (len(bars) - 1) / 2, max(1.5, len(bars) / 2 + 0.1)
    panel.set_ylim(middle - half, middle + half)
    panel.bar_label(drawn, labels, padding=3)
    panel.axvline(5, color="crimson", linewidth=1)
    panel.set_xlim(0, 1.4 * max(5, *values))
    panel.set_xlabel("between the two fastest configurations [%]")


def _say(panel: Axes, text: str) -> None:
    panel.text(0.5, 0.5, text, ha="center", va="center", transform=panel.transAxes, color="0.4")
