"""The broadcast in groups over the same algorithm without, simulated on 64 and 128 processes.

Hasanov et al. 2015, algorithm 1: scatter and ring allgather, whose groups pay where latency
dominates, alpha / beta > 2 m / p (eq. 6), and the chain, whose groups always do (eq. 1). Both sides
run in SimGrid's simulated time: no noise, and the same digits each time.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from colltune.bench.backends import LaunchPlan
from colltune.bench.backends.smpi import SimGrid, SmpiBackend
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.bench.simulated import Simulation
from colltune.domain import Collective, Configuration, Instance, Shape
from figures.figure import Figure

_LATENCY_US = 100.0
_RATE_MBIT = 1000.0
_PROCESSES = (64, 128)
_WORDS = ("scatter_ring_allgather", "chain")
_MSIZES_BYTES = (8192, 262144, 1048576)
_BUDGET_S = 1500.0
# a message passes two links of this one
_BED = Simulation(latency_us=_LATENCY_US / 2, rate_mbit=_RATE_MBIT, limit_s=_BUDGET_S)

Times = Mapping[int, float]


def run() -> Figure:
    """Return the largest ratio of the best grouped to the flat time, where it is promised to pay.

    Before it, one line for each case tells the best number of groups beside the square root of the
    processes, where the theory has its optimum (eq. 2, 7).
    """
    installed = SimGrid.find()
    worst = (0.0, 0.0, 1.0)
    for nprocs in _PROCESSES:
        for word in _WORDS:
            for msize_bytes, times_s in _simulated(installed, nprocs, word):
                best = min((groups for groups in times_s if groups > 1), key=times_s.__getitem__)
                ratio = times_s[best] / times_s[1]
                told = {"algorithm": word, "nprocs": nprocs, "msize_bytes": msize_bytes}
                found = {"best_groups": best, "sqrt": round(math.sqrt(nprocs), 1)}
                promised = word == "chain" or _promised(nprocs, msize_bytes)
                print(json.dumps({**told, **found, "promised": promised, "ratio": round(ratio, 4)}))
                if promised:
                    worst = max(worst, (ratio, times_s[best], times_s[1]))
    return Figure("smpi_hierarchical_bcast", worst[0], "ratio", worst[1], worst[2])


def _promised(nprocs: int, msize_bytes: int) -> bool:
    """Tell whether eq. 6 holds."""
    latency_bytes = _LATENCY_US * 1e-6 * _RATE_MBIT * 1e6 / 8
    return latency_bytes > 2 * msize_bytes / nprocs


def _simulated(installed: SimGrid, nprocs: int, word: str) -> Iterator[tuple[int, Times]]:
    """Yield each message size with the times of its numbers of groups, in seconds."""
    groups = [1 << i for i in range(int(math.log2(nprocs)))]
    cells = tuple(_cell(nprocs, word, g, m) for m in _MSIZES_BYTES for g in groups)
    steps = tuple(ScheduleStep(i, 1, _BUDGET_S) for i in range(len(cells)))
    plan = LaunchPlan(Shape(nprocs, 1), cells, steps, _BUDGET_S)
    with tempfile.TemporaryDirectory() as folder:
        backend = SmpiBackend(_BED, installed)
        result = backend.run(plan, "bench", Path(folder), lambda _spent_s: None)
    found = {
        (m.instance.msize_bytes, m.configuration.numbers["groups"]): m.times_s[0]
        for m in result.measurements
        if m.times_s
    }
    if len(found) < len(cells):
        raise SystemExit(f"only {len(found)} of {len(cells)} cells\n{result.message}")
    for msize_bytes in _MSIZES_BYTES:
        yield msize_bytes, {g: found[msize_bytes, g] for g in groups}


def _cell(nprocs: int, word: str, groups: int, msize_bytes: int) -> Cell:
    text = f"colltune.bcast.hierarchical:groups={groups},inner={word}"
    instance = Instance(Collective.BCAST, Shape(nprocs, 1), msize_bytes)
    return Cell(Configuration.parse(text), instance)
