"""The full grid: every cell is surveyed; what time is left refines the near-best ones."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from colltune.bench import schedule
from colltune.bench.strategies.protocol import CampaignState, Launches, Visit, Visited
from colltune.dataset.noise.measured import FEWEST_REPS
from colltune.domain import Shape

SURVEY, REFINE = "survey", "refine"
_MOST_SURVEYS = 10
_REFINING_LAUNCHES = 2
_FULLEST_LAUNCH = 1.5
_COSTLY_LAUNCHES = 0.25
_FEWEST_LAUNCHES = 2
_FULL_LAUNCH = 1.25


@dataclass(frozen=True)
class _LaunchGroup:
    """Cells that one launch can hold, with what was done and what is left for them."""

    shape: Shape
    cells: tuple[int, ...]
    surveys: int
    refinements: int
    spent_s: float
    weight: float
    launches: Launches

    @property
    def visit_s(self) -> float:
        return math.prod(self.launches)

    @property
    def least_s(self) -> float:
        """Seconds with which something can be compared: of the default and of another one."""
        return _FULL_LAUNCH * min(self.launches.number, _FEWEST_LAUNCHES) * self.launches.seconds

    @property
    def finished(self) -> bool:
        return self.refinements >= _REFINING_LAUNCHES


def full_grid(state: CampaignState, rng: random.Random) -> Visit | None:
    """Visit every cell; groups of cells that need a launch of their own share the time.

    Where launches take so much of it that not all groups can be measured, some are measured well.
    """
    groups = _affordable([g for g in _groups(state) if not g.finished], state.left_s)
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


def _groups(state: CampaignState) -> list[_LaunchGroup]:
    if state.granted is not None:
        everything = tuple(range(len(state.cells)))
        return [_group(state, state.granted, everything, state.history)]
    made: dict[Shape, list[Visited]] = {}
    for visited in state.history:
        made.setdefault(visited.shape, []).append(visited)
    groups = [
        _group(state, shape, cells, made.get(shape, ())) for shape, cells in state.members.items()
    ]
    # those that differ most first: the largest shape, one of middle size, and so on
    spread = sorted(range(len(groups)), key=lambda at: -(at & -at) if at else -math.inf)
    return sorted((groups[at] for at in spread), key=lambda group: -group.weight)


def _affordable(groups: Sequence[_LaunchGroup], left_s: float) -> list[_LaunchGroup]:
    """Return those that there is time for, at least one, those begun first."""
    begun_first = sorted(groups, key=lambda group: not group.spent_s)
    needed_s = list(accumulate(group.least_s for group in begun_first))
    return begun_first[: max(1, bisect_right(needed_s, left_s))]


def _group(
    state: CampaignState, shape: Shape, cells: tuple[int, ...], history: Sequence[Visited]
) -> _LaunchGroup:
    made = [visited for visited in history if visited.shape == shape]
    return _LaunchGroup(
        shape,
        cells,
        surveys=sum(visited.what == SURVEY for visited in made),
        refinements=sum(visited.what == REFINE for visited in made),
        spent_s=sum(visited.wall_s for visited in made),
        weight=_weight(state, cells),
        launches=state.launches(shape),
    )


def _weight(state: CampaignState, cells: Sequence[int]) -> float:
    """Return what a group's share of the time is by: groups share equally without weights."""
    return math.fsum(map(state.weight, cells)) if state.weights else 1.0


def _survey(
    state: CampaignState,
    group: _LaunchGroup,
    cells: Sequence[int],
    left_s: float,
    rng: random.Random,
) -> Visit | None:
    if group.refinements or group.surveys >= _MOST_SURVEYS or left_s <= 0:
        return None
    # what was timed too seldom is surveyed once more, unless a launch for it is dear
    again = group.surveys == 1 and group.launches.seconds <= _COSTLY_LAUNCHES * left_s
    fewest = FEWEST_REPS if again else 1
    missing = [index for index in cells if len(state.times_s.get(index, ())) < fewest]
    if not missing:
        return None
    # some of its launches have been made
    number = max(1, round(group.launches.number * len(missing) / len(cells)))
    launches = group.launches._replace(number=number)
    visit_s = math.prod(launches)
    if visit_s > _COSTLY_LAUNCHES * left_s:
        limits, steps_s = (state.max_reps, state.cell_s), left_s - visit_s
        steps = schedule.survey_once(
            state.cells, missing, launches, steps_s, limits, rng, state.weight
        )
    else:
        survey_s = schedule.SURVEY_SHARE * left_s - visit_s
        steps = schedule.survey(state.cells, missing, survey_s, state.cell_s, rng, state.weight)
    # every cell's turn comes before any refining, though it take longer than planned
    return Visit(SURVEY, group.shape, steps, left_s)


def _refine(
    state: CampaignState,
    group: _LaunchGroup,
    cells: Sequence[int],
    left_s: float,
    rng: random.Random,
) -> Visit | None:
    budget_s = left_s / (_REFINING_LAUNCHES - group.refinements)
    if budget_s < 2 * group.visit_s:
        budget_s = left_s
    if budget_s < _FULLEST_LAUNCH * group.launches.seconds or budget_s <= 0:
        return None
    medians_s = {index: state.median_s(index) for index in cells}
    times_s = {index: time_s for index, time_s in medians_s.items() if time_s is not None}
    if not times_s:
        return None
    steps_s = max(budget_s - group.visit_s, budget_s / 2)
    steps = schedule.refine(
        state.cells, times_s, steps_s, state.max_reps, rng, state.weight, state.times_s
    )
    return Visit(REFINE, group.shape, steps, budget_s)
