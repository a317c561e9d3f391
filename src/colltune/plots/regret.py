"""Regret: how much slower than the best measured is what is taken, over instances and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.models.bundle import Bundle
from colltune.models.guard import Guard
from colltune.plot_data import regrets
from colltune.plot_data.pick import ALL, Pick
from colltune.plot_data.regrets import InstanceRegrets, Regrets, geometric_mean
from colltune.plots import panels as layout
from colltune.plots.lettering import plain
from colltune.selector.argmin import ModelSelector

_LEARNED = ("#0072b2", "#009e73", "#cc79a7", "#e69f00")
_RATIOS = (1.0, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4)
_MOST_RATIOS = 6


class _Look(NamedTuple):
    colour: str
    dashes: str
    width: float


def of_dataset(
    dataset: PerformanceDataset,
    *,
    learners: Sequence[str] = ("auto",),
    split: str | None = None,
    guard: bool | Guard = True,
    pick: Pick = ALL,
    objective: Objective = DEFAULT_OBJECTIVE,
    jobs: int | None = None,
) -> Figure:
    """Draw regrets of the default, the single best configuration and held-out predictions.

    Parameters
    ----------
    dataset
        The measurements.
    learners
        Names of learners, or ``auto`` as `colltune fit` has it.
    split
        What is held out: ``leave-nodes-out``, ``leave-ppn-out`` or ``message-sizes``; by default
        the first of these that the data allow.
    guard
        Whether learners keep the default unless the predicted gain is beyond doubt and noise.
    pick
        Which collectives, and which of their instances are shown; learned is from all.
    objective
        The statistic of the repetitions that is learned and judged by.
    jobs
        Processes at most; by default one per core.

    Raises
    ------
    DataError
        If a collective is missing, nothing can be held out, or a learner is unknown.
    """
    return draw(
        regrets.held_out(
            dataset,
            pick,
            learners=learners,
            split=split,
            guard=guard,
            objective=objective,
            jobs=jobs,
        )
    )


def of_bundle(
    bundle: Bundle,
    dataset: PerformanceDataset,
    *,
    guard: bool | Guard = True,
    pick: Pick = ALL,
) -> Figure:
    """Draw regrets of the default and of the decisions of `bundle` on the instances of `dataset`.

    `guard` is as for `colltune.selector.configuration.selector_for`.

    Raises
    ------
    DataError
        If a collective is missing, or `dataset` cannot be compared.
    """
    return draw(regrets.of_bundle(ModelSelector(bundle, guard=guard), dataset, pick))


def draw(found: Regrets) -> Figure:
    """Draw regrets; see `of_dataset` and `of_bundle`."""
    looks = _looks(found)
    n_groups = len(found.groups)
    frame = layout.Frame(found.subject, found.notes)
    figure, blocks = layout.blocks([2] * n_groups, 2.3, [2.1] * n_groups, frame)
    for block, group in zip(blocks, found.groups, strict=True):
        _over_instances(block.panels[0], group, looks)
        _over_sizes(block.panels[1], group, looks)
        handles, _ = block.panels[0].get_legend_handles_labels()
        block.legend.legend(
            handles,
            [_label(name, group) for name in group.ratios],
            title="geometric mean; 95 % below",
            loc="center left",
            frameon=False,
            fontsize="small",
            title_fontsize="small",
            alignment="left",
            borderaxespad=0.0,
        )
    return figure


def _looks(found: Regrets) -> dict[str, _Look]:
    looks = {
        regrets.DEFAULT: _Look("#d55e00", "--", 1.8),
        regrets.SINGLE_BEST: _Look("0.5", ":", 1.8),
    }
    for at, name in enumerate(found.learned):
        looks[name] = _Look(_LEARNED[at % len(_LEARNED)], "-", 2.2)
    return looks


def _label(name: str, group: InstanceRegrets) -> str:
    ratios = group.ratios[name]
    p95 = float(np.quantile(ratios, 0.95))
    return f"{plain(name)}\n{geometric_mean(ratios):.2f}x; {p95:.2f}x"


def _over_instances(axes: Axes, group: InstanceRegrets, looks: dict[str, _Look]) -> None:
    for name, ratios in group.ratios.items():
        look = looks[name]
        axes.ecdf(
            ratios,
            color=look.colour,
            linestyle=look.dashes,
            linewidth=look.width,
            label=plain(name),
        )
    name = "all collectives" if group.collective is None else group.collective.mpi_name
    axes.set_title(f"{name}, {len(group)} instances", fontsize="medium")
    _ratio_axis(axes, "x", max(float(r.max()) for r in group.ratios.values()))
    axes.set_xlabel("time over best measured", fontsize="small")
    axes.set_ylabel("share of instances", fontsize="small")
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    _finish(axes)


def _over_sizes(axes: Axes, group: InstanceRegrets, looks: dict[str, _Look]) -> None:
    highest = 1.0
    every = group.msize_bytes.tolist()
    for name in group.ratios:
        look, sizes = looks[name], group.by_size(name)
        places = layout.place_of([*every, *sizes.msize_bytes])
        x = [places[size] for size in sizes.msize_bytes]
        axes.fill_between(x, sizes.p10, sizes.p90, color=look.colour, alpha=0.1, linewidth=0)
        axes.plot(
            x,
            sizes.mean,
            color=look.colour,
            linestyle=look.dashes,
            linewidth=look.width,
            marker="o",
            markersize=3,
            label=plain(name),
        )
        highest = max(highest, float(sizes.p90.max()))
    layout.size_axis(axes, every)
    _ratio_axis(axes, "y", highest)
    axes.set_title("geometric mean; band: middle 80 %", fontsize="medium")
    axes.set_xlabel("message size", fontsize="small")
    axes.set_ylabel("time over best measured", fontsize="small")
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize="small")


def _ratio_axis(axes: Axes, name: str, highest: float) -> None:
    """Make the axis x or y logarithmic, of ratios from 1 to `highest`."""
    top = max(highest, 1.04) ** 1.05
    axes.set(**{f"{name}scale": "log", f"{name}lim": (top**-0.03, top)})
    axis = axes.xaxis if name == "x" else axes.yaxis
    fitting = [ratio for ratio in _RATIOS if ratio <= top]
    apart = np.log(top) / (_MOST_RATIOS + 1)
    ticks = [1.0]
    for ratio in fitting:
        if np.log(ratio / ticks[-1]) >= apart:
            ticks.append(ratio)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}x"))
    axis.set_minor_locator(NullLocator())
