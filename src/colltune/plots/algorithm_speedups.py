"""The figure 2 of Hunold et al. (CLUSTER 2020): what an algorithm's parameters are worth.

There it is MPI_Bcast on 32 x 32 processes: the speed-up of the chain algorithm over the linear one,
over message size, a line per segment size and number of chains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.plots import panels as layout
from colltune.plots.lettering import plain

_LINEAR = ("basic_linear", "linear", "flattree", "flat_tree")
_DASHES = ("-", "--", ":", "-.")
_COLOURS = 10
_ENOUGH = 0.75


class Speedups(NamedTuple):
    """Times of some configurations of a collective on one shape, over those of a reference.

    ``speedup`` (n, C) is t_reference / t_configuration for the ``msize_bytes`` (n) of the
    ``configurations`` (C), NaN where one of the two was not measured. ``family`` is the algorithm
    whose parameters differ; None: the algorithms do.
    """

    collective: Collective
    shape: Shape
    reference: Configuration
    family: str | None
    configurations: tuple[Configuration, ...]
    msize_bytes: NDArray[np.int64]
    speedup: NDArray[np.float64]


def speedups(dataset: PerformanceDataset, collective: Collective | None = None) -> Speedups:
    """Return the speed-ups of the algorithm with the most parameter values over the linear one.

    Where no algorithm was measured with several parameter values, all algorithms are compared.
    The reference is the linear algorithm, or else the library's default, or else the first
    configuration; the shape is the largest on which three quarters of the most were measured.

    Parameters
    ----------
    dataset
        The measurements.
    collective
        By default the one with the most parameter values of one algorithm.

    Raises
    ------
    DataError
        If `collective` was not measured well, or only in one configuration.
    """
    matrices = cell_matrices(dataset)
    if collective is not None and collective not in matrices:
        known = ", ".join(matrices) or "nothing"
        raise DataError(f"{collective} was not measured well in this dataset, only {known}")
    if not matrices:
        raise DataError("no measurement is usable: none has status ok; measure again")
    cells = _richest(matrices.values()) if collective is None else matrices[collective]
    reference = _reference(cells)
    family = _family(cells)[0] if _family(cells)[1] > 1 else None
    columns = [
        column
        for column, c in enumerate(cells.configurations)
        if column != reference and family in (None, c.algorithm)
    ]
    if not columns:
        raise DataError(
            f"{cells.collective} was measured in one configuration only; speed-ups need two"
        )
    return _of_shape(cells, reference, columns, family)


def _richest(matrices: Iterable[CellMatrix]) -> CellMatrix:
    """Return the collective with the most parameter values of one algorithm.

    Of several the first that has a linear algorithm, that of the paper before others.
    """

    def rank(cells: CellMatrix) -> tuple[int, bool, bool, str]:
        other = cells.collective is not Collective.BCAST
        return -_family(cells)[1], _linear(cells) is None, other, cells.collective

    return min(matrices, key=rank)


def _family(cells: CellMatrix) -> tuple[str, int]:
    """Return the algorithm with the most configurations, and how many these are."""
    counts = Counter(c.algorithm for c in cells.configurations)
    return min(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _linear(cells: CellMatrix) -> int | None:
    names = [c.algorithm for c in cells.configurations]
    return next((names.index(name) for name in _LINEAR if name in names), None)


def _reference(cells: CellMatrix) -> int:
    linear = _linear(cells)
    return linear if linear is not None else cells.default_column or 0


def _of_shape(
    cells: CellMatrix, reference: int, columns: list[int], family: str | None
) -> Speedups:
    speedup = cells.time_s[:, [reference]] / cells.time_s[:, columns]
    known = Counter[tuple[int, int]]()
    for nodes, ppn, row in zip(cells.nodes, cells.ppn, speedup, strict=True):
        known[int(nodes), int(ppn)] += int(np.isfinite(row).sum())
    enough = _ENOUGH * max(known.values())
    nodes, ppn = max(
        (shape for shape, count in known.items() if count >= enough),
        key=lambda shape: (shape[0] * shape[1], shape),
    )
    rows = (cells.nodes == nodes) & (cells.ppn == ppn)
    return Speedups(
        cells.collective,
        Shape(nodes, ppn),
        cells.configurations[reference],
        family,
        tuple(cells.configurations[c] for c in columns),
        cells.msize_bytes[rows],
        speedup[rows],
    )


def draw(found: Speedups) -> Figure:
    """Draw speed-ups over message size, a line per configuration."""
    figure = Figure(figsize=(8.2, 4.4), layout="constrained")
    panel = figure.subplots()
    sizes = found.msize_bytes.tolist()
    for number, configuration in enumerate(found.configurations):
        ratio = found.speedup[:, number]
        rows = np.isfinite(ratio)
        text = configuration.parameter_text if found.family else configuration.algorithm
        panel.plot(
            np.array(layout.size_places(sizes))[rows],
            ratio[rows],
            linestyle=_DASHES[number // _COLOURS % len(_DASHES)],
            color=colormaps["tab10"](number % _COLOURS),
            marker="o",
            markersize=3.5,
            label=plain(text or configuration.algorithm),
        )
    panel.axhline(1, color="0.3", linewidth=0.8)
    layout.size_axis(panel, sizes)
    panel.set(yscale="log", xlabel="message size")
    panel.set_ylabel(plain(f"speed-up over {_short(found.reference)}"))
    low, high = panel.get_ylim()
    steps = (1, 2, 5) if high < 100 * low else (1,)
    panel.yaxis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
    panel.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    panel.yaxis.set_minor_formatter(lambda _value, _position: "")
    panel.grid(color="0.9")
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    what = f"configurations of {found.family}" if found.family else "algorithms"
    title = f"Speed-ups of {what} of {found.collective.mpi_name} on {found.shape} processes"
    panel.set_title(plain(title), loc="left", fontsize="medium")
    return figure


def _short(configuration: Configuration) -> str:
    return configuration.short
