"""What measuring costs and finds.

Open MPI's han tuned by its tasks, and how these overlap, figures 2, 3, 6, 8 and 9 of Luo et al.
(CLUSTER 2020); the threshold of an alltoallv, adapted during a run, figure 2 of Fagg et al. (2006,
sec. 6.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator

from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.mpi.libcolltune.adaptation import (
    Adaptation,
    Iteration,
    IterationKind,
    IterationVerdict,
)
from colltune.plots.scaffold import entitle, legend_columns
from colltune.text import bytes_text, counted

if TYPE_CHECKING:
    from colltune.han.choosing import Compared
    from colltune.han.measuring import Overlap

_MS = 1e3
_MOST_PANELS, _ACROSS = 12, 3
_PANEL_IN = (3.4, 2.3)
_TITLE_SIGNS = 42
_BAR = 0.2
_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")
_MOST_TASKS = 8
_MARKS = {
    IterationVerdict.KEPT: ("^", "tab:green", "tested and kept"),
    IterationVerdict.REJECTED: ("v", "crimson", "tested and rejected"),
    IterationVerdict.RESTARTED: ("s", "tab:purple", "workload changed: all values tried again"),
    IterationVerdict.NONE: (".", "tab:orange", "tested, not decided yet"),
}
_BARS = (
    ("median of all setups", "mean of all setups", "picked by tasks", "best of all setups"),
    ("tab:purple", "tab:brown", "tab:red", "tab:orange"),
)
"""Names and colours."""
_WIDTH = 0.2


def threshold_over_iterations(adaptation: Adaptation, title: str = "") -> Figure:
    """Return time per iteration above, the threshold below, over the iterations of a run.

    Grey dots are iterations with the best threshold known, timed by one process; marks are those
    that tested another one, timed by the slowest process, by what became of it. `title` stands
    above; if empty, it tells collective and processes.
    """
    if not adaptation.iterations:
        raise DataError("the adaptation has no iterations, so there is nothing to draw")
    figure = Figure(figsize=(8.0, 5.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_times(above, adaptation.iterations)
    _draw_thresholds(below, adaptation.iterations)
    entitle(figure, title or f"MPI_Alltoallv on {adaptation.nprocs} processes, threshold adapted")
    return figure


def _draw_times(panel: Axes, iterations: Sequence[Iteration]) -> None:
    usual = [i for i in iterations if i.kind is not IterationKind.TEST]
    panel.plot(
        [i.number for i in usual],
        [i.time_s * _MS for i in usual],
        ".",
        color="0.55",
        markersize=3,
        label="best threshold",
    )
    for verdict, (mark, colour, label) in _MARKS.items():
        these = [i for i in iterations if i.verdict is verdict and _is_marked(i)]
        if these:
            times = [i.time_s * _MS for i in these]
            panel.plot(
                [i.number for i in these], times, mark, color=colour, ms=6, ls="none", label=label
            )
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    panel.minorticks_off()
    panel.set_ylabel("time per iteration [ms]")
    panel.grid(color="0.92", linewidth=0.6)
    panel.legend(frameon=False, fontsize="small", loc="best")


def _is_marked(iteration: Iteration) -> bool:
    return iteration.kind is IterationKind.TEST or iteration.verdict is IterationVerdict.RESTARTED


def _draw_thresholds(panel: Axes, iterations: Sequence[Iteration]) -> None:
    usual = [i for i in iterations if i.kind is not IterationKind.TEST]
    numbers, values = [i.number for i in usual], [i.threshold_bytes for i in usual]
    panel.step(numbers, values, where="post", color="black", linewidth=1.4, label="in force")
    tested = [i for i in iterations if i.kind is IterationKind.TEST]
    panel.plot(
        [i.number for i in tested],
        [i.threshold_bytes for i in tested],
        ".",
        color="tab:orange",
        markersize=5,
        label="tested",
    )
    smallest = min((i.threshold_bytes for i in iterations if i.threshold_bytes), default=1)
    panel.set_yscale("symlog", base=2, linthresh=smallest, linscale=0.5)
    panel.set_ylim(bottom=0)
    seen = sorted({i.threshold_bytes for i in iterations})
    panel.set_yticks(seen, [bytes_text(value) if value else "0 (pairwise)" for value in seen])
    panel.minorticks_off()
    panel.set(xlabel="iteration", ylabel="threshold")
    panel.grid(color="0.92", linewidth=0.6)
    panel.legend(frameon=False, fontsize="small", loc="best")


def tuning_time(seconds: Mapping[str, float]) -> Figure:
    """Return figure 8: the seconds that each way of tuning took, as bars.

    `seconds` are by the way's name, the exhaustive search first: the others' shares of it are told.
    """
    if len(seconds) < 2 or min(seconds.values()) <= 0:
        raise DataError("figure 8 needs the times of at least two ways of tuning")
    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    axes = figure.add_subplot()
    first = next(iter(seconds.values()))
    bars = axes.bar(list(seconds), list(seconds.values()), color="tab:orange", width=0.6)
    axes.bar_label(bars, [f"{value / first:.1%}" for value in seconds.values()])
    axes.set_ylabel("seconds of tuning")
    axes.margins(y=0.15)
    return figure


def picks(compared: Sequence[Compared]) -> Figure:
    """Return figure 9: measured runtimes of the picks beside all setups', by message size.

    One panel for each collective and shape.
    """
    panels: dict[tuple[Collective, Shape], list[Compared]] = {}
    for one in compared:
        panels.setdefault((one.instance.collective, one.instance.shape), []).append(one)
    if not panels:
        raise DataError("figure 9 needs picks that were measured")
    figure = Figure(figsize=(6.5, 0.4 + 2.8 * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), squeeze=False)[:, 0]
    for axes, ((collective, shape), found) in zip(all_axes, sorted(panels.items()), strict=True):
        series = (
            [one.median_s for one in found],
            [one.mean_s for one in found],
            [one.picked_s for one in found],
            [one.best_s for one in found],
        )
        for place, (name, colour, values) in enumerate(zip(*_BARS, series, strict=True)):
            at = [i + (place - 1.5) * _WIDTH for i in range(len(found))]
            axes.bar(at, [1e3 * v for v in values], width=_WIDTH, color=colour, label=name)
        sizes = [bytes_text(one.instance.msize_bytes) for one in found]
        axes.set_xticks(range(len(found)), sizes)
        axes.set_yscale("log")
        axes.set_ylabel("milliseconds")
        axes.set_title(f"{collective.mpi_name} on {shape}")
    all_axes[0].legend(fontsize="small")
    all_axes[-1].set_xlabel("message size")
    return figure


def apart_and_together(found: Sequence[Overlap]) -> Figure:
    """Return figure 2 of a broadcast or figure 6 of an allreduce: tasks alone and at once.

    `found` are of one collective: bars by node leader, a panel for each setup. The black line is
    the longer of both tasks, to which perfect overlap would come.
    """
    figure, panels, shown = _panels(found)
    for panel, one in zip(panels, shown, strict=False):
        _bars(panel, one)
    panels[0].set_ylabel("milliseconds")
    first, second, both = shown[0].names
    _finish(figure, panels, f"{first} and {second}, alone and at once ({both})", shown[0])
    return figure


def _bars(panel: Axes, one: Overlap) -> None:
    first, second, both = one.names
    bars = {first: one.first_s, second: one.second_s, both: one.both_s}
    if both == "sbib":
        # the leaders begin the first of them as far apart as ib left them
        bars = {first: one.first_s, second: one.second_s}
        bars |= {f"{both}, the first": one.course_s[:, 0], f"{both}, steady": one.both_s}
    leaders = np.arange(len(one.first_s))
    for k, ((name, seconds), colour) in enumerate(zip(bars.items(), _COLOURS, strict=False)):
        at = leaders + (k - (len(bars) - 1) / 2) * _BAR
        panel.bar(at, _MS * seconds, width=_BAR, color=colour, label=name)
    longer = _MS * np.maximum(one.first_s, one.second_s)
    half = len(bars) / 2 * _BAR
    panel.hlines(longer, leaders - half, leaders + half, color="black", lw=1.2, label="the longer")
    panel.set_xticks(leaders)
    panel.set_xlabel("leader of node", fontsize="small")


def settling(found: Sequence[Overlap]) -> Figure:
    """Return figure 3: what the first tasks of the steady kind cost, one after another.

    The leader is the one on which they cost most in the end; the dashed line is what the steady
    ones cost there.
    """
    figure, panels, shown = _panels(found)
    name = {"sbib": "sbib", "ibirsr": "sbibirsr"}[shown[0].names[2]]
    for panel, one in zip(panels, shown, strict=False):
        course = _MS * one.course_s
        steady = course[:, course.shape[1] // 3 :].mean(axis=1)
        leader = int(np.argmax(steady))
        tasks = course[leader, :_MOST_TASKS]
        panel.plot(np.arange(1, len(tasks) + 1), tasks, "o-", ms=4, label=f"{name}(i)")
        panel.axhline(steady[leader], color="0.4", ls="--", lw=1, label="steady")
        panel.set_ylim(0, 1.15 * max(tasks.max(), steady[leader]))
        panel.set_xticks(np.arange(1, len(tasks) + 1))
        panel.set_xlabel(f"i, on the leader of node {leader}", fontsize="small")
    panels[0].set_ylabel("milliseconds")
    _finish(figure, panels, f"how the cost of {name} settles", shown[0])
    return figure


def _panels(found: Sequence[Overlap]) -> tuple[Figure, list[Axes], Sequence[Overlap]]:
    if not found:
        raise DataError("no series of tasks shows an overlap, so there is nothing to draw")
    shown = found[:_MOST_PANELS]
    across = min(len(shown), _ACROSS)
    down = math.ceil(len(shown) / across)
    width = max(_PANEL_IN[0] * across, 2 * _PANEL_IN[0])
    figure = Figure(figsize=(width, 0.9 + _PANEL_IN[1] * down), layout="constrained")
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel, one in zip(panels, shown, strict=False):
        words = ", ".join(f"{k}={v}" for k, v in one.setup.parameters if k != "segsize")
        panel.set_title(fill(words, _TITLE_SIGNS), fontsize="small")
        panel.tick_params(labelsize="small")
    return figure, panels, shown


def _finish(figure: Figure, panels: Sequence[Axes], what: str, one: Overlap) -> None:
    segment = bytes_text(one.setup.numbers["segsize"])
    entitle(
        figure,
        f"{one.setup.collective.mpi_name} on {counted(one.shape.nodes, 'node')} of {one.shape.ppn}"
        f" processes, segments of {segment}: {what}",
    )
    handles, labels = panels[0].get_legend_handles_labels()
    columns = legend_columns(figure, labels)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
