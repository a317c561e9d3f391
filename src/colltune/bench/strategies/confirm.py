"""Confirming decisions: what a bundle proposes is measured beside the default until it is decided.

A launch holds one shape: the one where most is at stake and in doubt for its seconds. In it the
default, the proposal and the nearest runners-up of an instance take turns, several times in random
order. What one launch cannot decide gets another one, with more turns where it is their scatter
that leaves it open; see `colltune.selector.confirming`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from colltune.bench.schedule import Step
from colltune.bench.strategies.protocol import State, Visit
from colltune.domain import Configuration, Instance, Shape
from colltune.selector.confirming import MOST_REPS, TURN_S, Cell, Judgement, judge

CONFIRM = "confirm"
_SLACK = 1.5
_MOST_VISITS = 10


@dataclass
class _Launch:
    """A launch being filled: what it decides, and how long its steps are thought to take."""

    shape: Shape
    judgements: list[Judgement] = field(default_factory=list)
    value: float = 0.0
    steps_s: float = 0.0


class Confirm:
    """Visits what is not decided yet, the most valuable doubt first.

    Whatever is random comes from the `rng` that `next` is given.
    """

    def next(self, state: State, rng: random.Random) -> Visit | None:
        """Return the launch that decides most per second, None when all is decided."""
        if state.left_s <= state.launch_s:
            return None
        by_shape: dict[Shape, list[Judgement]] = {}
        for judgement in judged(state):
            if judgement.is_open:
                by_shape.setdefault(judgement.contest.shape, []).append(judgement)
        visits = [visited.shape for visited in state.history]
        launches = [
            _filled(shape, found, state.left_s - state.launch_s)
            for shape, found in by_shape.items()
            if visits.count(shape) < _MOST_VISITS
        ]
        if not launches:
            return None
        best = max(launches, key=lambda launch: launch.value / (state.launch_s + launch.steps_s))
        steps = _steps(state, best.judgements, rng)
        budget_s = min(state.left_s, _SLACK * (2 * state.launch_s + best.steps_s))
        return Visit(CONFIRM, best.shape, steps, budget_s)


def judged(state: State) -> list[Judgement]:
    """Return what is known of the campaign's contests."""
    cells: list[Cell] = [(cell.configuration, cell.instance) for cell in state.cells]
    times = {cells[index]: found for index, found in state.by_launch.items()}
    failed = {cells[index] for index in state.failed}
    missing = {cell for contest in state.contests for cell in contest.cells} - set(cells)
    closed = missing | {cells[index] for index in state.closed}
    return judge(state.contests, times, failed, closed)


def _filled(shape: Shape, open_: Sequence[Judgement], limit_s: float) -> _Launch:
    """Fill a launch with what is worth most per second; with one judgement at least."""
    launch = _Launch(shape)
    for judgement in sorted(open_, key=lambda j: j.value / _seconds(j), reverse=True):
        if launch.judgements and launch.steps_s + _seconds(judgement) > limit_s:
            continue
        launch.judgements.append(judgement)
        launch.value += judgement.value
        launch.steps_s += _seconds(judgement)
    return launch


def _seconds(judgement: Judgement) -> float:
    """Return how long a launch measures it, by what the default is predicted to take."""
    each = 1 + len(judgement.open_candidates)
    return each * sum(
        judgement.turns(time_s) * max(time_s, min(TURN_S, MOST_REPS * time_s))
        for time_s in _times_s(judgement)
    )


def _times_s(judgement: Judgement) -> list[float]:
    contest = judgement.contest
    times_s = dict(zip(contest.instances, contest.times_s, strict=True))
    return [times_s[instance] for instance in judgement.instances]


def _steps(state: State, judgements: Sequence[Judgement], rng: random.Random) -> tuple[Step, ...]:
    """Return rounds of all instances in random order, those of one instance side by side."""
    index = {(cell.configuration, cell.instance): i for i, cell in enumerate(state.cells)}
    asked: list[tuple[int, Instance, tuple[Configuration, ...]]] = [
        (j.turns(time_s), instance, (j.contest.default, *j.open_candidates))
        for j in judgements
        for time_s, instance in zip(_times_s(j), j.instances, strict=True)
    ]
    steps: list[Step] = []
    for turn in range(max(rounds for rounds, _, _ in asked)):
        rng.shuffle(asked)
        for rounds, instance, configurations in asked:
            cells = [index[c, instance] for c in configurations if (c, instance) in index]
            cells = [cell for cell in cells if turn < rounds and cell not in state.closed]
            rng.shuffle(cells)
            steps += [Step(cell, MOST_REPS, TURN_S) for cell in cells]
    return tuple(steps)
