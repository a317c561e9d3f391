"""The full grid: every cell is surveyed; what time is left refines the near-best ones."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from colltune.bench import schedule
from colltune.bench.strategies.protocol import State, Visit, Visited
from colltune.domain import Shape

SURVEY, REFINE = "survey", "refine"
_MOST_SURVEYS = 10
_REFINING_LAUNCHES = 2
_FULLEST_LAUNCH = 1.5


@dataclass(frozen=True)
class _Group:
    """Cells that one launch can hold, with what was done and what is left for them."""

    shape: Shape
    cells: tuple[int, ...]
    surveys: int
    refinements: int
    spent_s: float
    weight: float

    @property
    def finished(self) -> bool:
        return self.refinements >= _REFINING_LAUNCHES


def full_grid(state: State, rng: random.Random) -> Visit | None:
    """Visit every cell; groups of cells that need a launch of their own share the time."""
    groups = [group for group in _groups(state) if not group.finished]
    for number, group in enumerate(groups):
        cells = [index for index in group.cells if index not in state.closed]
        weight = group.weight / math.fsum(other.weight for other in groups[number:])
        share_s = (state.left_s + group.spent_s) * weight
        left_s = min(state.left_s, share_s - group.spent_s)
        survey = _survey(state, group, cells, left_s, rng)
        visit = survey or _refine(state, group, cells, left_s, rng)
        if visit is not None:
            return visit
    return None


def _groups(state: State) -> list[_Group]:
    if state.granted is not None:
        everything = tuple(range(len(state.cells)))
        return [_group(state, state.granted, everything, state.history)]
    made: dict[Shape, list[Visited]] = {}
    for visited in state.history:
        made.setdefault(visited.shape, []).append(visited)
    groups = [
        _group(state, shape, cells, made.get(shape, ())) for shape, cells in state.members.items()
    ]
    return sorted(groups, key=lambda group: -group.weight)


def _group(
    state: State, shape: Shape, cells: tuple[int, ...], history: Sequence[Visited]
) -> _Group:
    made = [visited for visited in history if visited.shape == shape]
    return _Group(
        shape,
        cells,
        surveys=sum(visited.what == SURVEY for visited in made),
        refinements=sum(visited.what == REFINE for visited in made),
        spent_s=sum(visited.wall_s for visited in made),
        weight=_weight(state, cells),
    )


def _weight(state: State, cells: Sequence[int]) -> float:
    """Return what a group's share of the time is by: groups share equally without weights."""
    return math.fsum(map(state.weight, cells)) if state.weights else 1.0


def _survey(
    state: State, group: _Group, cells: Sequence[int], left_s: float, rng: random.Random
) -> Visit | None:
    missing = [index for index in cells if not state.times_s.get(index)]
    if not missing or group.refinements or group.surveys >= _MOST_SURVEYS or left_s <= 0:
        return None
    survey_s = schedule.SURVEY_SHARE * left_s - state.launch_s
    steps = schedule.survey(state.cells, missing, survey_s, state.cell_s, rng, state.weight)
    # every cell's turn comes before any refining, though it take longer than planned
    return Visit(SURVEY, group.shape, steps, left_s)


def _refine(
    state: State, group: _Group, cells: Sequence[int], left_s: float, rng: random.Random
) -> Visit | None:
    medians_s = {index: state.median_s(index) for index in cells}
    times_s = {index: time_s for index, time_s in medians_s.items() if time_s is not None}
    budget_s = left_s / (_REFINING_LAUNCHES - group.refinements)
    if budget_s < 2 * state.launch_s:
        budget_s = left_s
    if not times_s or budget_s < _FULLEST_LAUNCH * state.launch_s or budget_s <= 0:
        return None
    steps = schedule.refine(
        state.cells, times_s, budget_s - state.launch_s, state.max_reps, rng, state.weight
    )
    return Visit(REFINE, group.shape, steps, budget_s)
