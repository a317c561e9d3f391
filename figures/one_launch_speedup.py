"""Wall time of measuring 60 configurations by a launch each, over that of one launch for all."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from colltune.bench.backends import LaunchPlan
from colltune.bench.backends.native import NativeBackend
from colltune.bench.campaign import Campaign
from colltune.bench.progress import cells_of
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Collective, Configuration
from colltune.mpi import installation
from figures.figure import Figure

_CONFIGURATIONS = 60
_ROUNDS = 2
_REPS = 20
_VISIT_S = 0.02
_BUDGET_S = 300.0
_CAMPAIGN = Campaign(
    (
        Collective.BCAST,
        Collective.REDUCE,
        Collective.ALLREDUCE,
        Collective.ALLTOALL,
        Collective.ALLGATHER,
        Collective.REDUCE_SCATTER,
    ),
    (64, 4096, 262144),
    segsizes_bytes=(0, 4096, 65536),
    fanouts=(2, 4, 8),
)


def run() -> Figure:
    """Return the ratio; the same cells, visits and repetitions, in one run on this machine."""
    backend = NativeBackend(installation.find())
    backend.program()
    groups = _groups(backend)
    together = [cell for cells in groups for cell in cells]
    _wall_s(backend, together[:1])
    one_s = _wall_s(backend, together)
    each_s = sum(_wall_s(backend, cells) for cells in groups)
    one_s = (one_s + _wall_s(backend, together)) / 2
    return Figure("one_launch_speedup", each_s / one_s, "ratio", one_s, each_s)


def _groups(backend: NativeBackend) -> list[list[Cell]]:
    """Return the cells of each of the first 60 configurations."""
    (shape,) = _CAMPAIGN.shapes
    found: dict[Configuration, list[Cell]] = {}
    for cell in cells_of(_CAMPAIGN, backend, shape):
        found.setdefault(cell.configuration, []).append(cell)
    if len(found) < _CONFIGURATIONS:
        raise SystemExit(f"only {len(found)} configurations can be measured on {shape}")
    return list(found.values())[:_CONFIGURATIONS]


def _wall_s(backend: NativeBackend, cells: list[Cell]) -> float:
    steps = [ScheduleStep(i, _REPS, _VISIT_S) for _ in range(_ROUNDS) for i in range(len(cells))]
    plan = LaunchPlan(_CAMPAIGN.shapes[0], tuple(cells), tuple(steps), _BUDGET_S)
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        backend.run(plan, "bench", Path(folder), lambda _spent_s: None)
        return time.monotonic() - started
