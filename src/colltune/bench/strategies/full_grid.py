"""The full grid: every cell is surveyed; what time is left refines the near-best ones."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from colltune.bench import schedule
from colltune.bench.strategies.protocol import State, Visit
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

    @property
    def finished(self) -> bool:
        return self.refinements >= _REFINING_LAUNCHES


class FullGrid:
    """Visits every cell; groups of cells that need a launch of their own share the time equally."""

    def next(self, state: State, rng: random.Random) -> Visit | None:
        """Return the survey, or a refining launch, of the first group that wants one."""
        groups = [group for group in _groups(state) if not group.finished]
        for number, group in enumerate(groups):
            share_s = (state.left_s + group.spent_s) / (len(groups) - number)
            left_s = min(state.left_s, share_s - group.spent_s)
            visit = _survey(state, group, left_s, rng) or _refine(state, group, left_s, rng)
            if visit is not None:
                return visit
        return None


def _groups(state: State) -> list[_Group]:
    members: dict[Shape, list[int]] = {}
    for index in state.open:
        shape = state.granted or state.cells[index].instance.shape
        members.setdefault(shape, []).append(index)
    return [_group(state, shape, tuple(cells)) for shape, cells in members.items()]


def _group(state: State, shape: Shape, cells: tuple[int, ...]) -> _Group:
    made = [visited for visited in state.history if visited.shape == shape]
    return _Group(
        shape,
        cells,
        surveys=sum(visited.what == SURVEY for visited in made),
        refinements=sum(visited.what == REFINE for visited in made),
        spent_s=sum(visited.wall_s for visited in made),
    )


def _survey(state: State, group: _Group, left_s: float, rng: random.Random) -> Visit | None:
    missing = [index for index in group.cells if not state.times_s.get(index)]
    if not missing or group.refinements or group.surveys >= _MOST_SURVEYS or left_s <= 0:
        return None
    survey_s = schedule.SURVEY_SHARE * left_s - state.launch_s
    steps = schedule.survey(state.cells, missing, survey_s, state.cell_s, rng)
    # every cell's turn comes before any refining, though it take longer than planned
    return Visit(SURVEY, group.shape, steps, left_s)


def _refine(state: State, group: _Group, left_s: float, rng: random.Random) -> Visit | None:
    times_s = {
        index: float(np.median(state.times_s[index]))
        for index in group.cells
        if state.times_s.get(index)
    }
    budget_s = left_s / (_REFINING_LAUNCHES - group.refinements)
    if budget_s < 2 * state.launch_s:
        budget_s = left_s
    if not times_s or budget_s < _FULLEST_LAUNCH * state.launch_s or budget_s <= 0:
        return None
    steps = schedule.refine(state.cells, times_s, budget_s - state.launch_s, state.max_reps, rng)
    return Visit(REFINE, group.shape, steps, budget_s)
