"""Cost models: what published formulas say, how they fit measured times, how far they reach.

The formulas are those of `colltune.models.costs`: groups of a broadcast (Hasanov et al. 2015), work
that adapters take over (Tran et al. 2023), levels that overlap (HAN, Luo et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.domain import Configuration, Shape
from colltune.errors import DataError
from colltune.evaluation import ALL, Evaluation
from colltune.models.cells import CellMatrix
from colltune.models.costs.breakdown import Costs
from colltune.models.costs.han import Setup
from colltune.models.costs.hierarchical import BroadcastCost
from colltune.models.costs.multi_hca import MultiAdapterAllgather
from colltune.models.costs.network import ONE_RAIL, Instances
from colltune.models.plain_fit import PlainFit
from colltune.plots.scaffold import COLOURS, entitle, finish, plain, shortened, small_log_panel
from colltune.text import counted

_ACROSS = 5
_US = 1e6
_HIGHEST = 2.0
_FINER = 60


def groups(costs: Mapping[str, BroadcastCost]) -> Figure:
    """Return F(G), the cost of a broadcast in G groups, one panel for each of `costs` by name.

    Dots are numbers of groups that divide the processes, the star is the best of them, the dashed
    line the algorithm without groups (Hasanov et al. 2015, sec. 3, figure 6).
    """
    figure = Figure(figsize=(3.5 * len(costs) + 0.6, 3.6), layout="constrained")
    panels = figure.subplots(1, len(costs), squeeze=False)[0]
    for panel, (name, cost) in zip(panels, costs.items(), strict=True):
        possible, best = cost.possible_groups(), cost.optimum()
        times_us = [cost.time_s(g) * _US for g in possible]
        panel.axhline(cost.flat_time_s * _US, color="0.4", ls="--", lw=1, label="without groups")
        panel.axvline(math.sqrt(cost.nprocs), color="0.8", lw=1, label="√p")
        panel.plot(possible, times_us, "o-", color="tab:blue", ms=4, label="F(G)")
        star = f"best: {best.groups} group{'s' * (best.groups > 1)}, {best.gain:.2f}x"
        panel.plot(best.groups, best.time_s * _US, "*", color="crimson", ms=13, label=star)
        panel.set_xscale("log", base=2)
        panel.set_ylim(bottom=0)
        panel.set(xlabel=f"groups G of {cost.nprocs} processes", title=plain(name))
        panel.legend(frameon=False, fontsize="small", loc="best")
    panels[0].set_ylabel("predicted time [µs]")
    return figure


def offload(allgathers: Mapping[str, MultiAdapterAllgather]) -> Figure:
    """Return the time of an allgather within a node over the transfers that adapters take over.

    One line for each of `allgathers` by name; the star is d of eq. 1, the dots whole numbers of
    transfers (Tran et al. 2023, eq. 1 and 2, figure 12).
    """
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    panel = figure.subplots()
    for (name, gather), colour in zip(allgathers.items(), COLOURS, strict=False):
        most, best = gather.ppn - 1, gather.optimal_offload()
        d = np.linspace(0, most, 20 * most + 1)
        panel.plot(d, [gather.intra_s(float(x)) * _US for x in d], color=colour, lw=1.2)
        whole = np.arange(most + 1)
        panel.plot(whole, [gather.intra_s(int(x)) * _US for x in whole], "o", color=colour, ms=4)
        label = f"{plain(name)}: {best.transfers} of {most}, {best.without_s / best.time_s:.2f}x"
        least_us = gather.intra_s(best.continuous) * _US
        panel.plot(best.continuous, least_us, "*", color=colour, ms=14, mec="black", label=label)
    panel.set(
        xlabel="transfers d that each process hands to the adapters",
        ylabel="predicted time [µs]",
    )
    # too many of them take so long that the optimum could not be seen
    slowest_us = max((g.optimal_offload().without_s for g in allgathers.values()), default=1) * _US
    panel.set_ylim(0, _HIGHEST * slowest_us)
    panel.grid(color="0.92")
    panel.legend(frameon=False, title="best whole d, gain over none", loc="lower right")
    return figure


def overlap(
    without: Mapping[Setup, float],
    perfect: Mapping[Setup, float],
    references: Mapping[str, float],
) -> Figure:
    """Return predicted seconds over the segment size, between no and perfect overlap of levels.

    A band for each name among the setups, from `without` (dashed) to `perfect` overlap (solid);
    `references` are seconds that were measured, by name (Luo et al. 2020, eq. 3).
    """
    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    panel = figure.subplots()
    names = list(dict.fromkeys(setup.name for setup in without))
    for name, colour in zip(names, COLOURS, strict=False):
        setups = sorted(setup for setup in without if setup.name == name)
        x = [setup.segsize_bytes for setup in setups]
        high, low = ([by[setup] * _US for setup in setups] for by in (without, perfect))
        panel.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
        panel.plot(x, high, "--", color=colour, lw=1)
        panel.plot(x, low, "o-", color=colour, ms=4, label=f"{plain(name)} between nodes")
    for (name, time_s), style in zip(references.items(), ("-", ":", "-."), strict=False):
        panel.axhline(time_s * _US, color="black", ls=style, lw=1.2, label=plain(name))
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set(
        xlabel="segment size [bytes]",
        ylabel="time [µs]",
        title="dashed: no overlap of the levels; solid: perfect overlap",
    )
    panel.grid(color="0.92")
    panel.legend(frameon=False, fontsize="small")
    return figure


def fitted(cells: CellMatrix, costs: Costs, shapes: Sequence[Shape]) -> Figure:
    """Return measured times (dots) and fitted costs (lines) over message size.

    One panel for each configuration of `cells`, a colour for each of `shapes`; titles tell the
    median error over all that was measured.
    """
    shown = [(k, c) for k, c in enumerate(cells.configurations) if c in costs]
    across = min(_ACROSS, len(shown))
    down = math.ceil(len(shown) / across)
    figure = Figure(figsize=(3.0 * across + 0.6, 2.5 * down + 0.9), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for panel, (column, configuration) in zip(panels.flat, shown, strict=False):
        _fitted_panel(panel, cells, column, costs, shapes)
        error = _median_error(cells, column, costs)
        panel.set_title(f"{_short(configuration)}: {100 * error:.0f} %", fontsize="small")
    finish(figure, panels, len(shown))
    entitle(
        figure,
        f"{cells.collective.mpi_name}: measured (dots), fitted (lines), median error over all",
    )
    return figure


def _fitted_panel(
    panel: Axes, cells: CellMatrix, column: int, costs: Costs, shapes: Sequence[Shape]
) -> None:
    cost = costs[cells.configurations[column]]
    for shape, colour in zip(shapes, COLOURS, strict=False):
        rows = (cells.nodes == shape.nodes) & (cells.ppn == shape.ppn)
        if not rows.any():
            continue
        sizes = np.maximum(cells.msize_bytes[rows], 1)
        panel.plot(sizes, cells.time_s[rows, column] * _US, "o", color=colour, ms=3.5)
        finer = np.unique(np.geomspace(sizes.min(), sizes.max(), _FINER).round())
        line = cost.time_s(Instances.of(shape.nodes, shape.ppn, finer), ONE_RAIL) * _US
        panel.plot(finer, line, color=colour, lw=1.2, label=str(shape))
    small_log_panel(panel)


def _median_error(cells: CellMatrix, column: int, costs: Costs) -> float:
    """Return the median of |log(predicted / measured)|, as a share."""
    known = np.isfinite(cells.time_s[:, column])
    there = Instances.of(cells.nodes[known], cells.ppn[known], cells.msize_bytes[known])
    predicted = costs[cells.configurations[column]].time_s(there, ONE_RAIL)
    logs = np.log(np.maximum(predicted, 1e-12) / cells.time_s[known, column])
    return float(np.expm1(np.median(np.abs(logs))))


def _short(configuration: Configuration) -> str:
    parameters = configuration.parameter_text
    return shortened(f"{configuration.algorithm} {parameters}".strip())


def extrapolated(
    cells: CellMatrix,
    fits: Sequence[PlainFit],
    configurations: Sequence[Configuration],
    at: tuple[int, int],
    trained_up_to: int,
) -> Figure:
    """Return times over node counts: measured as dots, as lines what `fits` predict.

    One panel for each of `configurations`; `at` is (ppn, message size in bytes); the shaded part,
    up to `trained_up_to` nodes, is what they were fitted to.
    """
    ppn, msize_bytes = at
    rows = (cells.ppn == ppn) & (cells.msize_bytes == msize_bytes)
    if not rows.any():
        raise DataError(
            f"{cells.collective} was not measured with {counted(ppn, 'process', 'es')} per "
            f"node and {counted(msize_bytes, 'byte')}"
        )
    nodes = np.arange(cells.nodes[rows].min(), cells.nodes[rows].max() + 1)
    forecasts = [fit.time_s(nodes, ppn, msize_bytes) for fit in fits]
    figure = Figure(figsize=(3.6 * len(configurations) + 0.6, 3.9), layout="constrained")
    panels = figure.subplots(1, len(configurations), squeeze=False)[0]
    for panel, configuration in zip(panels, configurations, strict=True):
        panel.axvspan(nodes[0] - 0.5, trained_up_to + 0.5, color="0.93", lw=0)
        for fit, times_s, colour in zip(fits, forecasts, COLOURS, strict=False):
            y = times_s[:, fit.configurations.index(configuration)] * _US
            panel.plot(nodes, y, color=colour, lw=1.5, label=fit.learner.replace("_", " "))
        measured_s = cells.time_s[rows, cells.configurations.index(configuration)]
        panel.plot(cells.nodes[rows], measured_s * _US, "ko", ms=4, label="measured")
        panel.set(xlabel="nodes", title=_short(configuration), yscale="log")
        panel.grid(color="0.95", which="both")
    panels[0].set_ylabel("time [µs]")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    entitle(
        figure,
        f"{cells.collective.mpi_name}, {ppn} processes per node, {msize_bytes} bytes;"
        f" fitted up to {trained_up_to} nodes",
    )
    return figure


def reach(evaluations: Sequence[Evaluation], learners: Sequence[str]) -> Figure:
    """Return what `learners` gain and harm on more nodes than they saw, for several trainings.

    Each of `evaluations` is one training; on the left the share of the possible gain, on the right
    the share of decisions more than 5 % slower than the default.
    """
    figure = Figure(figsize=(10, 3.9), layout="constrained")
    gain, harm = figure.subplots(1, 2)
    x = np.arange(len(evaluations))
    width = 0.8 / len(learners)
    for k, (name, colour) in enumerate(zip(learners, COLOURS, strict=False)):
        scores = [evaluation.scores[name][ALL] for evaluation in evaluations]
        at = x + (k - (len(learners) - 1) / 2) * width
        shares = [math.nan if s.log_gain_share is None else 100 * s.log_gain_share for s in scores]
        label = name.replace("_", " ")
        gain.bar_label(gain.bar(at, shares, width, color=colour, label=label), fmt="%.0f")
        slower = [100 * s.slower_share for s in scores]
        harm.bar_label(harm.bar(at, slower, width, color=colour), fmt="%.0f")
    names = [", ".join(map(str, evaluation.train_nodes)) for evaluation in evaluations]
    for panel in (gain, harm):
        panel.set_xticks(x, names)
        panel.set_xlabel("trained on these node counts")
        panel.axhline(0, color="black", lw=0.8)
        panel.margins(y=0.15)
    gain.set_ylabel("share of the possible gain [%]")
    harm.set_ylabel("decisions that harm by > 5 % [%]")
    tested = ", ".join(map(str, evaluations[0].test_nodes)) if evaluations else ""
    figure.legend(loc="outside lower center", ncols=len(learners), frameon=False)
    entitle(figure, f"Decisions for {tested} nodes, without guard")
    return figure
