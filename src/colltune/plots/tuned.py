"""The picture of `colltune tune`: runtime over message size, default and chosen thick."""

from __future__ import annotations

from io import BytesIO

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.dataset import PerformanceDataset
from colltune.decisions import DecisionTable, Interval
from colltune.domain import DEFAULT_ALGORITHM, Collective, Shape


def prepare() -> None:
    """Load what drawing needs, fonts included, so that `runtimes` itself is quick."""
    figure = Figure(figsize=(1, 1))
    figure.suptitle("0")
    figure.savefig(BytesIO(), format="png")


def runtimes(dataset: PerformanceDataset, table: DecisionTable, shape: Shape) -> Figure:
    """Return one panel per collective, of the times measured on `shape` over message size."""
    cells = dataset.cells()
    cells = cells[(cells["nodes"] == shape.nodes) & (cells["ppn"] == shape.ppn)]
    collectives = dataset.collectives
    figure = Figure(figsize=(4.6 * len(collectives), 4.2), layout="constrained")
    panels = figure.subplots(1, len(collectives), squeeze=False)[0]
    for panel, collective in zip(panels, collectives, strict=True):
        intervals = table.rules.get((collective, shape.nprocs), ())
        _panel(panel, cells[cells["collective"] == collective], collective, intervals)
    panels[0].set_ylabel("runtime [µs], median")
    figure.suptitle(f"{dataset.context}, {shape.nodes} x {shape.ppn} processes")
    return figure


def _panel(
    panel: Axes, cells: pd.DataFrame, collective: Collective, intervals: tuple[Interval, ...]
) -> None:
    by_configuration = {
        (str(algorithm), str(parameters)): rows.sort_values("msize_bytes")
        for (algorithm, parameters), rows in cells.groupby(["algorithm", "parameters"])
    }
    for (algorithm, _), rows in by_configuration.items():
        if algorithm != DEFAULT_ALGORITHM:
            panel.plot(rows["msize_bytes"], rows["time_s"] * 1e6, color="0.75", linewidth=0.7)
    default = by_configuration.get((DEFAULT_ALGORITHM, ""))
    if default is not None:
        x, y = default["msize_bytes"], default["time_s"] * 1e6
        panel.plot(x, y, color="tab:orange", linewidth=2.6, label="default")
    chosen = _chosen(by_configuration, intervals)
    panel.plot(*chosen, color="tab:blue", linewidth=2.6, linestyle=(0, (4, 1.5)), label="chosen")
    panel.set(xscale="log", yscale="log", xlabel="message size [bytes]", title=collective.mpi_name)
    panel.legend(loc="upper left", frameon=False)


def _chosen(
    by_configuration: dict[tuple[str, str], pd.DataFrame], intervals: tuple[Interval, ...]
) -> tuple[list[int], list[float]]:
    """Return sizes and microseconds of whatever is chosen at each measured size."""
    points: dict[int, float] = {}
    for interval in intervals:
        configuration = interval.configuration
        rows = by_configuration.get((configuration.stored_algorithm, configuration.parameter_text))
        if rows is None:
            continue
        for msize, time_s in zip(rows["msize_bytes"], rows["time_s"], strict=True):
            if interval.holds(msize):
                points[int(msize)] = float(time_s) * 1e6
    sizes = sorted(points)
    return sizes, [points[size] for size in sizes]
