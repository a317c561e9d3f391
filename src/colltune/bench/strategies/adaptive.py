"""The adaptive schedule: it measures where a second lowers the decisions' expected regret most.

What was measured is generalised by `models.surrogate`; its uncertainty gives, at every instance of
the box that the campaign spans, the expected regret of deciding now. An instance is worth what
measuring it is expected to save there and around, per second. A launch holds the best instances
until the next one would pay less than the average, launch included; the campaign ends when going on
would save next to nothing.

Lessons that are built in: the first launches span the shapes (corners, and a node count that is no
power of two), because the surrogate is over-confident about what it has never seen; an instance is
visited with all its configurations, because learners need to see what is slow; few repetitions, a
few more where decisions are close.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from colltune.bench import schedule
from colltune.bench.schedule import Step
from colltune.bench.strategies.acquisition import Acquisition, SurrogateState
from colltune.bench.strategies.protocol import State, Visit
from colltune.domain import Shape

_FIRST_LAUNCH = 0.25
_LATER_LAUNCHES = 0.5
_SLACK = 2.0
_WORTH_GOING_ON = 0.002


@dataclass
class _Launch:
    """A launch being filled: what it saves, how long its steps take, its cells' repetitions."""

    shape: Shape
    gain: float = 0.0
    timed_s: float = 0.0
    reps: dict[int, int] = field(default_factory=dict)


def adaptive(state: State, rng: random.Random) -> Visit | None:
    """Visit what lowers the expected regret of the decisions most per second."""
    if state.left_s <= state.launch_s or not state.open:
        return None
    numbers = np.random.default_rng(rng.getrandbits(32))
    collectives = dict.fromkeys(state.cells[i].instance.collective for i in state.open)
    tables = [
        Acquisition(SurrogateState.of(state, collective, numbers), state.max_reps)
        for collective in collectives
    ]
    seeds = _seeds([state.cells[i].instance.shape for i in state.open])
    limit_s = _limit_s(state)
    if state.granted is not None:
        among = None if state.times_s else frozenset(seeds)
        launch = _filled(state, tables, state.granted, among, limit_s)
    else:
        seen = {state.cells[i].instance.shape for i in state.times_s}
        unseen = [shape for shape in seeds if shape not in seen]
        every = sorted({state.cells[i].instance.shape for i in state.open})
        launch = max(
            (_filled(state, tables, s, frozenset([s]), limit_s) for s in unseen[:1] or every),
            key=lambda launch: launch.gain / (state.launch_s + launch.timed_s),
        )
    return _visit(state, launch, rng)


def _limit_s(state: State) -> float:
    """Return how long the next launch's steps may take."""
    spent_s = sum(visited.wall_s for visited in state.history)
    if not state.times_s:
        wanted_s = _FIRST_LAUNCH * state.launch_s
    else:
        wanted_s = max(state.launch_s, _LATER_LAUNCHES * spent_s)
    return min(wanted_s, state.left_s - state.launch_s)


def _seeds(shapes: Iterable[Shape]) -> list[Shape]:
    """Return the shapes to begin with: the corners, and one whose nodes are no power of two."""
    known = sorted(set(shapes))
    by_ppn = sorted(known, key=lambda s: (s.ppn, s.nodes))
    crosswise = [
        max(known, key=lambda s: (s.nodes, -s.ppn)),
        max(known, key=lambda s: (-s.nodes, s.ppn)),
    ]
    seeds = [known[-1], by_ppn[-1], known[0], by_ppn[0], *crosswise]
    odd = [s for s in known if s.nodes & (s.nodes - 1)]
    if odd:
        middle = math.sqrt(known[0].nodes * known[-1].nodes)
        seeds.append(min(odd, key=lambda s: (abs(math.log(s.nodes / middle)), s.ppn)))
    return list(dict.fromkeys(seeds))


def _filled(
    state: State,
    tables: Sequence[Acquisition],
    shape: Shape,
    among: frozenset[Shape] | None,
    limit_s: float,
) -> _Launch:
    """Fill a launch with the best instances of the shapes `among` (None: all)."""
    launch = _Launch(shape)
    batches = [acquisition.batch(among) for acquisition in tables]
    while offered := [(best.rate, n) for n, b in enumerate(batches) if (best := b.best())]:
        batch = batches[max(offered)[1]]
        best = batch.best()
        assert best is not None
        if launch.reps and launch.timed_s + best.cost_s > limit_s:
            break
        launch.gain += best.gain
        launch.timed_s += best.cost_s
        launch.reps |= batch.take(best)
    return launch


def _visit(state: State, launch: _Launch, rng: random.Random) -> Visit | None:
    spent_s = sum(visited.wall_s for visited in state.history)
    rate = launch.gain / (state.launch_s + launch.timed_s)
    ahead_s = max(spent_s, state.launch_s)
    if not launch.reps or (state.times_s and rate * ahead_s < _WORTH_GOING_ON):
        return None
    order = schedule.shuffled(state.cells, list(launch.reps), rng, state.weight)
    steps = [Step(index, launch.reps[index], state.cell_s) for index in order]
    # a start may take longer than it is said to; one that brought nothing gets more the next time
    expected_s = state.launch_s + max(launch.timed_s, _FIRST_LAUNCH * state.launch_s)
    budget_s = min(state.left_s, _SLACK * expected_s + spent_s)
    return Visit("adaptive", launch.shape, tuple(steps), budget_s)
