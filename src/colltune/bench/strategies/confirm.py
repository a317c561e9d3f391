"""Confirming decisions: what a bundle proposes is measured beside the default until it is decided.

A launch holds one shape: the one where most is at stake and in doubt for its seconds, another one
than the launch before where there is one, since neighbouring launches may be alike. In it the
default, the proposal and the nearest runners-up of an instance take turns, several times in random
order. Proof takes two launches and usually four, so a launch begins no more than such a number can
end; see `colltune.selector.confirming`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from colltune.bench.schedule import ScheduleStep
from colltune.bench.strategies.protocol import CampaignState, Visit
from colltune.domain import Shape
from colltune.selector.confirming import (
    MOST_REPS,
    TURN_S,
    Cell,
    ContestState,
    judge,
    worth_measuring,
)

CONFIRM = "confirm"
_SLACK = 1.5
_MOST_VISITS = 10


@dataclass(frozen=True)
class _PlannedLaunch:
    """What a launch decides, and how long its steps are thought to take."""

    shape: Shape
    judgements: Sequence[ContestState]

    @property
    def value(self) -> float:
        return sum(judgement.value for judgement in self.judgements)

    @property
    def steps_s(self) -> float:
        return sum(map(_seconds, self.judgements))


def confirm(state: CampaignState, rng: random.Random) -> Visit | None:
    """Visit what is not decided yet, the most valuable doubt first."""
    if state.left_s <= state.launch_s:
        return None
    by_shape: dict[Shape, list[ContestState]] = {}
    for judgement in judged(state):
        if judgement.is_open:
            by_shape.setdefault(judgement.contest.shape, []).append(judgement)
    visits = [visited.shape for visited in state.history]
    launches = [
        _filled(shape, found, state.left_s, state.launch_s)
        for shape, found in by_shape.items()
        if visits.count(shape) < _MOST_VISITS
    ]
    if not launches:
        return None
    launches = [launch for launch in launches if launch.shape not in visits[-1:]] or launches
    best = max(
        launches, key=lambda launch: launch.value / (state.visit_s(launch.shape) + launch.steps_s)
    )
    steps = _steps(state, best.judgements, rng)
    steps_s = max(best.steps_s, sum(step.max_seconds for step in steps))
    budget_s = min(state.left_s, _SLACK * (2 * state.visit_s(best.shape) + steps_s))
    return Visit(CONFIRM, best.shape, steps, budget_s)


def judged(state: CampaignState) -> list[ContestState]:
    """Return what is known of the campaign's contests."""
    cells: list[Cell] = [(cell.configuration, cell.instance) for cell in state.cells]
    times = {cells[index]: found for index, found in state.by_launch.items()}
    failed = {cells[index] for index in state.failed}
    missing = {cell for contest in state.contests for cell in contest.cells} - set(cells)
    closed = missing | {cells[index] for index in state.closed}
    return judge(state.contests, times, failed, closed)


def _filled(
    shape: Shape, open_: Sequence[ContestState], left_s: float, launch_s: float
) -> _PlannedLaunch:
    """Return a launch of what can be decided in the time that is left."""
    launches = max(judgement.launches_left for judgement in open_)

    def seconds(judgement: ContestState) -> float:
        return judgement.launches_left * _seconds(judgement)

    limit_s = max(left_s - launches * launch_s, 0.0)
    return _PlannedLaunch(shape, worth_measuring(open_, seconds, limit_s, always_one=True))


def _seconds(judgement: ContestState) -> float:
    """Return how long a launch measures it, by what the default is predicted to take."""
    time_s = judgement.contest.time_s
    turn_s = max(time_s, min(TURN_S, MOST_REPS * time_s))
    return (1 + len(judgement.open_candidates)) * (judgement.turns(time_s) * turn_s)


def _steps(
    state: CampaignState, judgements: Sequence[ContestState], rng: random.Random
) -> tuple[ScheduleStep, ...]:
    """Return rounds of all instances in random order, those of one instance side by side."""
    index = {(cell.configuration, cell.instance): i for i, cell in enumerate(state.cells)}
    asked = [
        (j.turns(contest.time_s), contest.instance, (contest.default, *j.open_candidates))
        for j in judgements
        for contest in [j.contest]
    ]
    steps: list[ScheduleStep] = []
    for turn in range(max(rounds for rounds, _, _ in asked)):
        rng.shuffle(asked)
        for rounds, instance, configurations in asked:
            cells = [index[c, instance] for c in configurations if (c, instance) in index]
            cells = [cell for cell in cells if turn < rounds and cell not in state.closed]
            rng.shuffle(cells)
            steps += [ScheduleStep(cell, MOST_REPS, TURN_S) for cell in cells]
    return tuple(steps)
