"""What a budget buys where launches take long to start, beside one who knows how long they take.

A script that sleeps before mpirun makes starts take .1 to 10 s; budgets are 15 to 120 s, less
than 5 minutes in all. ReproMPI measures where its mpibenchmark is found, with a launch for each
configuration; otherwise colltune's own benchmark, which changes the algorithm inside a launch.
"""

from __future__ import annotations

import contextlib
import math
import shlex
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from colltune.bench.backends import Backend
from colltune.bench.backends.native import NativeBackend
from colltune.bench.backends.reprompi import ReproMpiBackend
from colltune.bench.campaign import Campaign
from colltune.bench.journal import launch_costs
from colltune.bench.progress import cells_of
from colltune.bench.runner import run_campaign
from colltune.bench.schedule import ENOUGH_REPS, Cell
from colltune.dataset import read_parquet
from colltune.domain import Collective, RunStatus, Shape
from colltune.errors import BudgetError, ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from figures.figure import Figure

_RUNS = ((0.1, 15.0), (1.0, 15.0), (1.0, 30.0), (3.0, 30.0), (10.0, 60.0), (10.0, 120.0))
_SHAPE = Shape(1, 2)
_CAMPAIGN = Campaign(
    (Collective.BCAST, Collective.ALLREDUCE),
    (8, 512, 8192, 131072),
    machine="slow-start",
    nodes=(_SHAPE.nodes,),
    ppn=(_SHAPE.ppn,),
    segsizes_bytes=(0, 4096),
    fanouts=(2,),
)
_SCRIPT = '#!/bin/sh\nsleep {}\nexec {} "$@"\n'
Samples = Mapping[Cell, Sequence[float]]


def run(runs: Sequence[tuple[float, float]] = _RUNS) -> Figure:
    """Return the worst share of the cells measured with enough repetitions, over all budgets.

    Of those that one could measure who knows how long starts take, and needs no other launches.
    """
    try:
        found = installation.find()
        shares = {key: _share(found, *key) for key in runs}
    except ProgramError as error:
        sys.exit(f"budget_with_slow_start: {error}")
    (start_s, total_s), (ours, possible) = min(shares.items(), key=lambda item: _ratio(*item[1]))
    facts = {
        "start_s": start_s,
        "budget_s": total_s,
        "backend": _backend(found).provenance()["backend"],
    }
    worst = _ratio(ours, possible)
    return Figure("budget_with_slow_start", worst, "fraction", ours, possible, facts)


def _ratio(ours: int, possible: int) -> float:
    return ours / possible if possible else math.nan


def _backend(found: Installation) -> Backend:
    with contextlib.suppress(ProgramError):
        return ReproMpiBackend(found)
    return NativeBackend(found)


def _share(found: Installation, start_s: float, total_s: float) -> tuple[int, int]:
    """Return how many cells a campaign measured well, and how many could have been."""
    with tempfile.TemporaryDirectory(prefix="colltune-") as folder:
        mpirun = Path(folder) / "mpirun"
        mpirun.write_text(_SCRIPT.format(start_s, shlex.quote(str(found.mpirun))))
        mpirun.chmod(0o700)
        backend = _backend(replace(found, mpirun=mpirun))
        if isinstance(backend, NativeBackend):
            backend.program()
        dataset = Path(folder) / "dataset"
        campaign = _CAMPAIGN.changed(total_s=total_s)
        with contextlib.suppress(BudgetError):
            run_campaign(campaign, backend, dataset, seed=1)
        costs = [cost.seconds for cost in launch_costs(dataset, campaign) if not cost.cut]
        times_s, dropped = _measured(dataset)
        cells = [c for c in cells_of(campaign, backend, _SHAPE) if c not in dropped]
        ours = sum(len(times_s.get(cell, ())) >= ENOUGH_REPS for cell in cells)
        cost_s = min(costs, default=start_s)
        most = possible(backend.together(cells), times_s, cost_s, total_s)
    print(f"starts of {start_s:g} s, {total_s:g} s: {ours} of {most} cells (all: {len(cells)})")
    return ours, most


def _measured(dataset: Path) -> tuple[Samples, set[Cell]]:
    """Return the repetitions of each cell, and the cells that cannot or need not have enough.

    They failed, or proved too slow before.
    """
    times_s: dict[Cell, list[float]] = defaultdict(list)
    dropped: set[Cell] = set()
    if not any(dataset.glob("*.parquet")):
        return times_s, dropped
    for m in read_parquet(dataset).measurements():
        cell = Cell(m.configuration, m.instance)
        times_s[cell] += m.times_s
        if m.status not in (RunStatus.OK, RunStatus.SKIPPED, RunStatus.TOO_FEW):
            dropped.add(cell)
    return times_s, {cell for cell in dropped if len(times_s[cell]) < ENOUGH_REPS}


def possible(
    groups: Sequence[Sequence[Cell]], times_s: Samples, cost_s: float, total_s: float
) -> int:
    """Return the most cells that can have enough repetitions, in whole launches."""
    least_s = {0: 0.0}
    for group in groups:
        seconds = cost_s + ENOUGH_REPS * math.fsum(_time_s(times_s, cell) for cell in group)
        for cells, before_s in tuple(least_s.items()):
            more = cells + len(group)
            least_s[more] = min(before_s + seconds, least_s.get(more, math.inf))
    return max(cells for cells, seconds in least_s.items() if seconds <= total_s)


def _time_s(times_s: Samples, cell: Cell) -> float:
    """Return what a repetition takes; nothing is held against one who would have measured it."""
    return statistics.median(times_s[cell]) if times_s.get(cell) else 0.0
