"""Runtimes that the native benchmark measures over those that ReproMPI's mpibenchmark measures.

Both force the same algorithms, call with the same datatypes, take the same repetitions, and begin
them in windows, in launches that alternate: on two processes of this machine and on a virtual
cluster of 4 hosts and 2 ms. Needs an mpibenchmark that was built for the MPI of this environment
with -DOPTION_BUFFER_ALIGNMENT=64, on PATH or named by COLLTUNE_REPROMPI, and a core for each of two
processes.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from cluster import Network, obstacle, virtual_cluster
from cluster.launching import OnCluster
from cluster.virtual import VirtualCluster
from colltune.bench.backends import Backend, LaunchPlan
from colltune.bench.backends.native import NativeBackend
from colltune.bench.backends.reprompi import ReproMpiBackend
from colltune.bench.launchers import Launcher, launcher_of
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Configuration, Instance, RunStatus, Shape, Synchronisation
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from figures.figure import Figure

_NODE, _HOSTS = Shape(1, 2), Shape(4, 2)
_ROUNDS = {_NODE: 7, _HOSTS: 3}
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
_VISITS = 2
_REPS = {_NODE: 200, _HOSTS: 20}
_VISIT_S = {_NODE: 0.05, _HOSTS: 0.5}
_LAUNCH_BUDGET_S = 60.0

Medians = list[dict[Cell, float]]
Backends = tuple[Backend, Backend]


def run() -> Figure:
    """Return the median over configurations, sizes and shapes of native over ReproMPI.

    `ours` and `baseline` are how often native and ReproMPI told less than half a round trip.
    """
    if reason := obstacle():
        sys.exit(f"reprompi_agreement: {reason}")
    network = Network(_HOSTS.nodes, _HOSTS.ppn, latency_us=2000.0)
    try:
        found = installation.find()
        logs, too_fast = _compared(_NODE, _backends(found, None))
        with virtual_cluster(network) as cluster:
            on_hosts = _compared(_HOSTS, _backends(found, cluster))
    except ProgramError as error:
        sys.exit(f"reprompi_agreement: {error}")
    logs |= on_hosts[0]
    below = [sum(counts) for counts in zip(too_fast, on_hosts[1], strict=True)]
    ratios = sorted(math.exp(log) for log in logs.values())
    low, high = (float(q) for q in np.quantile(ratios, [0.05, 0.95]))
    facts = {"cells": len(ratios), "low_5pct": round(low, 3), "high_95pct": round(high, 3)}
    value = statistics.median(ratios)
    return Figure("reprompi_agreement", value, "ratio", below[0], below[1], facts)


def _backends(found: Installation, cluster: VirtualCluster | None) -> Backends:
    """Return both benchmarks, on this machine or on `cluster`."""
    launcher: Launcher = launcher_of(found)
    program = None
    if cluster is not None:
        launcher = OnCluster(launcher, cluster, realtime=True)
        program = cluster.environment.get("COLLTUNE_REPROMPI")
    windows = (Synchronisation.WINDOW,)
    theirs = ReproMpiBackend(found, launcher, program, _HOSTS.ppn, windows)
    theirs.provenance()
    return NativeBackend(found, launcher=launcher), theirs


def _compared(shape: Shape, backends: Backends) -> tuple[dict[Cell, float], list[int]]:
    """Return the log ratio of each cell, and how many cells of each were below the possible."""
    groups = [
        [cell for cell in cells if all(backend.feasible(cell) for backend in backends)]
        for cells in _cells(shape)
    ]
    medians: tuple[Medians, Medians] = ([], [])
    below = [0, 0]
    for number in range(_ROUNDS[shape]):
        for side in medians:
            side.append({})
        for group in filter(None, groups):
            for turn in (number % 2, 1 - number % 2):
                found, too_fast = _medians_s(backends[turn], group)
                medians[turn][-1].update(found)
                below[turn] += too_fast
    native, reprompi = medians
    logs = _logs(native, reprompi)
    _print_cells(native, reprompi, logs)
    _print_spreads(native, reprompi, logs)
    return logs, below


def _cells(shape: Shape) -> list[list[Cell]]:
    parsed = [Configuration.parse(text) for text in _CONFIGURATIONS]
    return [[Cell(c, Instance(c.collective, shape, m)) for m in _MSIZES] for c in parsed]


def _medians_s(backend: Backend, cells: Sequence[Cell]) -> tuple[dict[Cell, float], int]:
    """Return the median runtime of each cell in one launch, and how many were too fast."""
    shape = cells[0].instance.shape
    step = (_REPS[shape], _VISIT_S[shape])
    steps = tuple(ScheduleStep(i, *step) for _ in range(_VISITS) for i in range(len(cells)))
    plan = LaunchPlan(shape, tuple(cells), steps, _LAUNCH_BUDGET_S, Synchronisation.WINDOW)
    with tempfile.TemporaryDirectory(prefix="colltune-") as folder:
        result = backend.run(plan, "agreement", Path(folder), lambda _: None)
    times = {
        Cell(m.configuration, m.instance): statistics.median(m.times_s)
        for m in result.measurements
        if m.times_s
    }
    return times, sum(m.status is RunStatus.TOO_FAST for m in result.measurements)


def _logs(native: Medians, reprompi: Medians) -> dict[Cell, float]:
    """Return the median over rounds of each cell's log ratio; a round may lack a cell."""
    cells = {cell for medians in (*native, *reprompi) for cell in medians}
    pairs = {
        cell: [
            math.log(n[cell] / r[cell])
            for n, r in zip(native, reprompi, strict=True)
            if cell in n and cell in r
        ]
        for cell in cells
    }
    return {cell: statistics.median(found) for cell, found in pairs.items() if found}


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
    for shape in sorted({cell.instance.shape for cell in logs}):
        here = [cell for cell in logs if cell.instance.shape == shape]
        _print_spread(f"{shape}, native over ReproMPI", [logs[cell] for cell in here])
        for name, medians in (("native", native), ("ReproMPI", reprompi)):
            _print_spread(f"{shape}, {name}, one round over the next", _drift(medians, here))


def _over_rounds(medians: Sequence[Mapping[Cell, float]], cell: Cell) -> float:
    return statistics.median(round_[cell] for round_ in medians if cell in round_)


def _drift(medians: Medians, cells: Sequence[Cell]) -> list[float]:
    """Return the log ratios of successive rounds of one benchmark: what noise alone does."""
    return [
        math.log(first[cell] / second[cell])
        for first, second in itertools.pairwise(medians)
        for cell in cells
        if cell in first and cell in second
    ]


def _print_spread(what: str, logs: Sequence[float]) -> None:
    """Print geometric mean, and the 10th and 90th percentile, of ratios."""
    if len(logs) > 1:
        tenths = statistics.quantiles(logs, n=10, method="inclusive")
        low, mean, high = (math.exp(x) for x in (tenths[0], statistics.fmean(logs), tenths[-1]))
        print(f"{what}: {mean:.3f} ({low:.3f} to {high:.3f}: 80 % of {len(logs)})")
