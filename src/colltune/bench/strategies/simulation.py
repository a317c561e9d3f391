"""Runs a strategy against a backend in memory: what it knows after each launch, at what cost.

The cost is what a real campaign would pay: the repetitions' own time, and ``launch_s`` a launch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from colltune.bench.backends.protocol import Backend, LaunchPlan
from colltune.bench.schedule import Cell
from colltune.bench.strategies.protocol import State, Strategy, Visit, Visited
from colltune.domain import Measurement, RunStatus, Shape

_MOST_LAUNCHES = 10_000


@dataclass(frozen=True)
class Terms:
    """What a simulated campaign is granted; see `State` for the fields' meaning."""

    total_s: float
    launch_s: float = 2.0
    max_reps: int = 500
    cell_s: float = 0.5
    granted: Shape | None = None


@dataclass(frozen=True)
class Reached:
    """Everything measured up to the end of a launch, and the seconds spent until then."""

    cost_s: float
    launches: int
    measurements: tuple[Measurement, ...]


def simulate(
    strategy: Strategy, backend: Backend, cells: Sequence[Cell], terms: Terms, *, seed: int = 0
) -> Iterator[Reached]:
    """Yield what is known after every launch, until the strategy or the time ends."""
    cells = tuple(cells)
    index = {cell: i for i, cell in enumerate(cells)}
    times: dict[int, tuple[float, ...]] = {}
    closed: set[int] = set()
    history: list[Visited] = []
    measurements: list[Measurement] = []
    rng = random.Random(seed)  # noqa: S311
    cost_s = 0.0
    while len(history) < _MOST_LAUNCHES:
        visit = strategy.next(_state(cells, times, closed, history, cost_s, terms), rng)
        if visit is None:
            return
        plan = _plan(visit, cells)
        result = backend.run(plan, f"launch-{len(history)}", Path(), lambda _spent_s: None)
        cost_s += result.wall_s
        history.append(Visited(visit.what, visit.shape, result.wall_s))
        for m in result.measurements:
            cell = index[Cell(m.configuration, m.instance)]
            if m.status is not RunStatus.OK:
                closed.add(cell)
            times[cell] = times.get(cell, ()) + m.times_s
        measurements += result.measurements
        yield Reached(cost_s, len(history), tuple(measurements))


def _state(
    cells: tuple[Cell, ...],
    times: dict[int, tuple[float, ...]],
    closed: set[int],
    history: Sequence[Visited],
    cost_s: float,
    terms: Terms,
) -> State:
    return State(
        cells=cells,
        times_s={i: t for i, t in times.items() if t},
        closed=frozenset(closed),
        history=tuple(history),
        left_s=terms.total_s - cost_s,
        launch_s=terms.launch_s,
        max_reps=terms.max_reps,
        cell_s=terms.cell_s,
        granted=terms.granted,
    )


def _plan(visit: Visit, cells: tuple[Cell, ...]) -> LaunchPlan:
    return LaunchPlan(visit.shape, cells, visit.steps, visit.budget_s)
