"""Every repetition of one cell, launch after launch, and how often which time was seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from colltune.dataset.noise import NoisyCell
from colltune.domain import Configuration
from colltune.errors import DataError
from colltune.plots.lettering import plain

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink")
_BINS = 40


class _Launch(NamedTuple):
    """One launch's repetitions in seconds, and the colour of its allocation."""

    times_s: NDArray[np.float64]
    colour: str


def series(table: pd.DataFrame, cell: NoisyCell) -> Figure:
    """Return the repetitions of `cell` in the order in which they were made, and their histogram.

    `table` is that of `colltune.dataset.noise.measured`. A colour is an allocation, a horizontal
    line a launch's median.

    Raises
    ------
    DataError
        If `table` has no raw repetitions of the cell.
    """
    launches = _launches(table, cell)
    if not launches:
        raise DataError(
            f"no raw repetitions of {cell.configuration} on {cell.nodes}x{cell.ppn} with"
            f" {cell.msize_bytes} bytes in this dataset; choose another cell"
        )
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    along, across = figure.subplots(1, 2, sharey=True, width_ratios=[4, 1])
    _along(along, launches)
    _across(across, launches)
    figure.suptitle(
        f"{plain(cell.configuration)}, {cell.nodes}x{cell.ppn}, {cell.msize_bytes} bytes:"
        f" {len(launches)} launches, a colour for each allocation"
    )
    return figure


def _launches(table: pd.DataFrame, cell: NoisyCell) -> list[_Launch]:
    configuration = Configuration.parse(cell.configuration)
    wanted = {
        "collective": configuration.collective.value,
        "algorithm": configuration.stored_algorithm,
        "parameters": configuration.parameter_text,
        "nodes": cell.nodes,
        "ppn": cell.ppn,
        "msize_bytes": cell.msize_bytes,
    }
    rows = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    rows = rows[rows["times_s"].map(len) > 0].sort_values("launch")
    allocations = list(dict.fromkeys(rows["allocation"]))
    return [
        _Launch(
            np.asarray(times, np.float64), _COLOURS[allocations.index(allocation) % len(_COLOURS)]
        )
        for times, allocation in zip(rows["times_s"], rows["allocation"], strict=True)
    ]


def _along(panel: Axes, launches: list[_Launch]) -> None:
    begins = 0
    for launch in launches:
        ends = begins + len(launch.times_s)
        x = np.arange(begins, ends)
        panel.plot(x, launch.times_s * 1e6, ".", color=launch.colour, markersize=3.5)
        panel.hlines(np.median(launch.times_s) * 1e6, begins, ends - 1, color="black", lw=1.6)
        panel.axvline(ends - 0.5, color="0.85", linewidth=0.7, zorder=0)
        begins = ends
    panel.set(
        yscale="log",
        xlabel="repetitions, launch after launch (black: a launch's median)",
        ylabel="time [µs]",
        xlim=(-0.5, begins - 0.5),
    )
    panel.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    panel.grid(axis="y", color="0.92")


def _across(panel: Axes, launches: list[_Launch]) -> None:
    times_us = np.concatenate([launch.times_s for launch in launches]) * 1e6
    low, high = times_us.min() / 1.02, times_us.max() * 1.02
    bins = np.geomspace(low, high, _BINS).tolist()
    panel.hist(times_us, bins, orientation="horizontal", color="0.6", lw=0)
    panel.set_xlabel("repetitions")
    panel.tick_params(labelleft=False)
