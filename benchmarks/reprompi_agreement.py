"""Runtimes that the native benchmark measures over those that ReproMPI's mpibenchmark measures.

Both force the same algorithms, call with the same datatypes and take the same repetitions, in
launches that alternate. Processes that share cores are shown, too, but not counted: there the order
in which they leave a barrier decides. Needs an mpibenchmark that was built for the MPI of this
environment, on PATH or named by COLLTUNE_REPROMPI.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figure import Figure
from colltune.bench.backends import Backend, LaunchPlan
from colltune.bench.backends.native import NativeBackend
from colltune.bench.backends.reprompi import ReproMpiBackend
from colltune.bench.schedule import Cell, Step
from colltune.domain import Configuration, Instance, Shape
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.provenance import usable_cores

_ROUNDS = 7
_SHAPES = (Shape(1, 2), Shape(1, 4))
_MSIZES = (64, 4096, 65536)
_CONFIGURATIONS = (
    "openmpi.bcast.basic_linear",
    "openmpi.bcast.binomial:segsize=0",
    "openmpi.bcast.scatter_allgather_ring",
    "openmpi.allreduce.recursive_doubling",
    "openmpi.allreduce.ring",
    "openmpi.allreduce.rabenseifner",
    "openmpi.alltoall.linear",
    "openmpi.alltoall.pairwise",
    "openmpi.alltoall.modified_bruck",
)
_VISITS, _REPS, _VISIT_S = 2, 200, 0.05
_LAUNCH_BUDGET_S = 30.0

Medians = list[dict[Cell, float]]


def run() -> Figure:
    """Return the geometric mean over configurations, sizes and shapes of native over ReproMPI."""
    try:
        found = installation.find()
        backends: tuple[Backend, Backend] = (NativeBackend(found), ReproMpiBackend(found))
        backends[1].provenance()
    except ProgramError as error:
        sys.exit(f"reprompi_agreement: {error}")
    groups = [
        [cell for cell in cells if all(backend.feasible(cell) for backend in backends)]
        for shape in _SHAPES
        for cells in _cells(shape)
    ]
    medians: tuple[Medians, Medians] = ([], [])
    for number in range(_ROUNDS):
        for side in medians:
            side.append({})
        for group in filter(None, groups):
            for turn in (number % 2, 1 - number % 2):
                medians[turn][-1].update(_medians_s(backends[turn], group))
    return _figure(*medians)


def _cells(shape: Shape) -> list[list[Cell]]:
    parsed = [Configuration.parse(text) for text in _CONFIGURATIONS]
    return [[Cell(c, Instance(c.collective, shape, m)) for m in _MSIZES] for c in parsed]


def _medians_s(backend: Backend, cells: Sequence[Cell]) -> dict[Cell, float]:
    """Return the median runtime of each cell in one launch."""
    steps = tuple(Step(i, _REPS, _VISIT_S) for _ in range(_VISITS) for i in range(len(cells)))
    plan = LaunchPlan(cells[0].instance.shape, tuple(cells), steps, _LAUNCH_BUDGET_S)
    with tempfile.TemporaryDirectory(prefix="colltune-") as folder:
        result = backend.run(plan, "agreement", Path(folder), lambda _: None)
    return {
        Cell(m.configuration, m.instance): statistics.median(m.times_s)
        for m in result.measurements
        if m.times_s
    }


def _figure(native: Medians, reprompi: Medians) -> Figure:
    """Return the ratio, and geometric means in microseconds; print what they are made of."""
    cells = set.intersection(*(set(medians) for medians in (*native, *reprompi)))
    logs = {
        cell: statistics.median(
            math.log(n[cell] / r[cell]) for n, r in zip(native, reprompi, strict=True)
        )
        for cell in cells
    }
    _print_cells(native, reprompi, logs)
    _print_spreads(native, reprompi, logs)
    counted = [cell for cell in logs if cell.instance.shape.ppn <= usable_cores()] or list(logs)
    means_us = [
        math.exp(statistics.fmean(math.log(_over_rounds(medians, cell)) for cell in counted)) * 1e6
        for medians in (native, reprompi)
    ]
    value = math.exp(statistics.fmean(logs[cell] for cell in counted))
    return Figure("reprompi_agreement", value, "ratio", means_us[0], means_us[1])


def _print_cells(native: Medians, reprompi: Medians, logs: Mapping[Cell, float]) -> None:
    columns = ("native us", "ReproMPI us", "ratio")
    print(f"{'configuration':45}{'shape':>6}{'bytes':>8}" + "".join(f"{c:>12}" for c in columns))
    for cell in sorted(logs, key=_order):
        ours_us, theirs_us = (_over_rounds(side, cell) * 1e6 for side in (native, reprompi))
        instance = cell.instance
        print(
            f"{cell.configuration.id:45}{instance.shape!s:>6}{instance.msize_bytes:>8}"
            f"{ours_us:>12.2f}{theirs_us:>12.2f}{math.exp(logs[cell]):>12.2f}"
        )


def _order(cell: Cell) -> tuple[Shape, Configuration, int]:
    return cell.instance.shape, cell.configuration, cell.instance.msize_bytes


def _print_spreads(native: Medians, reprompi: Medians, logs: Mapping[Cell, float]) -> None:
    """Print how far the ratios spread, and how far rounds of one benchmark differ by noise."""
    for shape in _SHAPES:
        here = [cell for cell in logs if cell.instance.shape == shape]
        _print_spread(f"{shape}, native over ReproMPI", [logs[cell] for cell in here])
        for name, medians in (("native", native), ("ReproMPI", reprompi)):
            _print_spread(f"{shape}, {name}, one round over the next", _drift(medians, here))


def _over_rounds(medians: Sequence[Mapping[Cell, float]], cell: Cell) -> float:
    return statistics.median(round_[cell] for round_ in medians)


def _drift(medians: Medians, cells: Sequence[Cell]) -> list[float]:
    """Return the log ratios of successive rounds of one benchmark: what noise alone does."""
    return [
        math.log(first[cell] / second[cell])
        for first, second in itertools.pairwise(medians)
        for cell in cells
    ]


def _print_spread(what: str, logs: Sequence[float]) -> None:
    """Print geometric mean, and the 10th and 90th percentile, of ratios."""
    if len(logs) > 1:
        tenths = statistics.quantiles(logs, n=10, method="inclusive")
        low, mean, high = (math.exp(x) for x in (tenths[0], statistics.fmean(logs), tenths[-1]))
        print(f"{what}: {mean:.3f} ({low:.3f} to {high:.3f}: 80 % of {len(logs)})")
