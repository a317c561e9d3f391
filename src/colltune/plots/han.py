"""Figures 8 and 9 of Luo et al. (CLUSTER 2020): the cost of tuning by tasks, and how good it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.han.comparing import Compared
from colltune.plots.lettering import size_text

_BARS = ("median of all setups", "mean of all setups", "picked by tasks", "best of all setups")
_COLOURS = ("tab:purple", "tab:brown", "tab:red", "tab:orange")
_WIDTH = 0.2


def tuning_time(seconds: Mapping[str, float]) -> Figure:
    """Return figure 8: the seconds that each way of tuning took, as bars.

    `seconds` are by the way's name, the exhaustive search first: the others' shares of it are told.

    Raises
    ------
    DataError
        If there is nothing to compare.
    """
    if len(seconds) < 2 or min(seconds.values()) <= 0:
        raise DataError("figure 8 needs the times of two ways of tuning or more")
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

    Raises
    ------
    DataError
        If there is nothing to show.
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
        for place, (name, colour, values) in enumerate(zip(_BARS, _COLOURS, series, strict=True)):
            at = [i + (place - 1.5) * _WIDTH for i in range(len(found))]
            axes.bar(at, [1e3 * v for v in values], width=_WIDTH, color=colour, label=name)
        sizes = [size_text(one.instance.msize_bytes) for one in found]
        axes.set_xticks(range(len(found)), sizes)
        axes.set_yscale("log")
        axes.set_ylabel("milliseconds")
        axes.set_title(f"{collective.mpi_name} on {shape}")
    all_axes[0].legend(fontsize="small")
    all_axes[-1].set_xlabel("message size")
    return figure
