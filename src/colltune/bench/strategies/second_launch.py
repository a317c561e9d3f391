"""A second launch of some shapes: only two launches tell what a launch itself adds to a time."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

from colltune.bench import schedule
from colltune.bench.strategies.protocol import CampaignState, Strategy, Visit
from colltune.domain import Collective, Shape

SECOND_LAUNCH = "second launch"
_MOST_RESERVED = 0.25
_COMPARED = 2
_MOST_TRIES = 2


def with_second_launch(strategy: Strategy) -> Strategy:
    """Measure as `strategy` does, and then the shapes ``CampaignState.repeated`` once more.

    The time for it is reserved from the start. Shapes that the strategy measured in two launches
    anyway cost nothing; for a shape that it did not measure the nearest measured one is taken. What
    is left afterwards is the strategy's again.
    """

    def following(state: CampaignState, rng: random.Random) -> Visit | None:
        if not state.repeated:
            return strategy(state, rng)
        left_s = state.left_s - reserved_s(state)
        visit = strategy(replace(state, left_s=left_s), rng) if left_s > 0 else None
        return visit or _second_launch(state, rng) or strategy(state, rng)

    return following


def reserved_s(state: CampaignState) -> float:
    """Return the seconds to be kept for second launches: their starts, and a survey of their cells.

    The surveys get no more than the shapes' share of what all surveys of a full grid get, and the
    whole no more than a quarter of the campaign's time.
    """
    shapes = _to_repeat(state)
    if not shapes:
        return 0.0
    total_s = state.left_s + math.fsum(visited.wall_s for visited in state.history)
    starts_s = math.fsum(map(state.visit_s, (state.granted,) if state.granted else shapes))
    cells = [index for shape in shapes for index in state.members[shape]]
    needed_s = math.fsum(
        min(state.cell_s, schedule.SURVEY_REPS * (state.median_s(index) or state.cell_s))
        for index in cells
        if index not in state.closed
    )
    share = schedule.SURVEY_SHARE * len(shapes) / len(state.members)
    surveys_s = min(needed_s, share * total_s)
    return min(starts_s + surveys_s, _MOST_RESERVED * total_s)


def _to_repeat(state: CampaignState) -> tuple[Shape, ...]:
    """Return the shapes that want a second launch; before anything is measured, those wished for.

    Shapes of which the campaign has no cells cannot be measured, neither first nor again.
    """
    visits = Counter(v.shape for v in state.history if v.what == SECOND_LAUNCH)
    made = {shape for shape, count in visits.items() if count >= _MOST_TRIES}
    if state.granted in made:
        return ()
    wished = [shape for shape in state.repeated if shape in state.members]
    measured = {
        shape
        for shape, indices in state.members.items()
        if not state.times_s.keys().isdisjoint(indices)
    }
    if not measured:
        return tuple(wished)
    found: dict[Shape, None] = {}
    for shape in wished:
        free = [other for other in measured if other not in found]
        if free:
            found[min(free, key=lambda other: (schedule.octaves_apart(shape, other), other))] = None
    return tuple(s for s in found if s not in made and not _measured_twice(state, s))


def _measured_twice(state: CampaignState, shape: Shape) -> bool:
    """Tell whether of each collective there are configurations to compare between two launches."""
    cells = [i for i in state.members[shape] if i in state.times_s and i not in state.closed]
    again = [i for i in cells if len(state.by_launch.get(i, ())) > 1]
    if cells and not again:
        return False
    n_cells, n_again = (Counter(_problem(state, i) for i in indices) for indices in (cells, again))
    compared = {p[0] for p, number in n_cells.items() if n_again[p] >= min(_COMPARED, number)}
    return compared == {collective for collective, _ in n_cells}


def _problem(state: CampaignState, index: int) -> tuple[Collective, int]:
    instance = state.cells[index].instance
    return instance.collective, instance.msize_bytes


def _second_launch(state: CampaignState, rng: random.Random) -> Visit | None:
    shapes = _to_repeat(state)
    if not state.times_s or not shapes or state.left_s <= state.launch_s:
        return None
    together = shapes if state.granted else shapes[:1]
    cells = [
        index
        for shape in together
        for index in state.members[shape]
        if index in state.times_s and index not in state.closed
    ]
    if not cells:
        return None
    budget_s = state.left_s / (len(shapes) if state.granted is None else 1)
    visit_s = state.visit_s(state.granted or together[0])
    if budget_s < 2 * visit_s:
        budget_s = state.left_s
    survey_s = budget_s - visit_s
    steps = schedule.survey(state.cells, cells, survey_s, state.cell_s, rng, state.weight)
    return Visit(SECOND_LAUNCH, state.granted or together[0], steps, budget_s)
