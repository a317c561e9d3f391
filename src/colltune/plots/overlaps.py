"""How tasks of coll/han overlap: figures 2, 3 and 6 of Luo et al. (CLUSTER 2020, sec. III)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.errors import DataError
from colltune.plots.scaffold import entitle, legend_columns
from colltune.text import bytes_text, counted

if TYPE_CHECKING:
    from colltune.han.overlap import Overlap

_MS = 1e3
_MOST_PANELS, _ACROSS = 12, 3
_PANEL_IN = (3.4, 2.3)
_TITLE_SIGNS = 42
_BAR = 0.2
_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")
_MOST_TASKS = 8


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
