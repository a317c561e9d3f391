"""The order of measuring."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from colltune.bench.schedule import Cell, refine, survey
from colltune.domain import Collective, Configuration, Instance, Shape


def _cells(n: int) -> tuple[Cell, ...]:
    instance = Instance(Collective.BCAST, Shape(1, 4), 8)
    names = ["default", *(f"a{i}" for i in range(1, n))]
    return tuple(Cell(Configuration("openmpi", Collective.BCAST, name), instance) for name in names)


@given(st.integers(1, 60), st.floats(0.5, 100), st.floats(0.001, 1))
def test_a_survey_visits_every_cell_in_its_time(n: int, budget_s: float, cell_s: float) -> None:
    """Each round visits each cell once, and all steps together fit into the budget."""
    steps = survey(_cells(n), range(n), budget_s, cell_s, random.Random(0))
    assert sorted(step.cell for step in steps[:n]) == list(range(n))
    assert sum(step.max_seconds for step in steps) <= budget_s * 1.000001
    assert all(step.max_seconds <= cell_s for step in steps)


def test_rounds_are_in_random_order() -> None:
    """Cells are shuffled anew in each round, by the given generator."""
    cells = _cells(40)
    steps = [step.cell for step in survey(cells, range(40), 10, 1, random.Random(1))]
    assert steps[:40] != steps[40:]
    again = survey(cells, range(40), 10, 1, random.Random(1))
    assert steps == [step.cell for step in again]


def test_refining_keeps_the_default_and_the_near_best() -> None:
    """Time goes to what is near the best and to the default, slow though it may be."""
    cells = _cells(5)
    times = dict(enumerate([9.0, 1.0, 1.2, 1.4, 5.0]))
    steps = refine(cells, times, 10.0, 100, random.Random(0))
    assert {step.cell for step in steps} == {0, 1, 2}


def test_nothing_measured_leaves_nothing_to_refine() -> None:
    """Without any time there is nothing to refine."""
    assert refine(_cells(3), {}, 10.0, 100, random.Random(0)) == ()


def test_the_cells_of_a_shape_stand_together() -> None:
    """Within a round no shape is left and come back to; all shapes have their turn."""
    wide = Cell(_cells(1)[0].configuration, Instance(Collective.BCAST, Shape(2, 4), 8))
    cells = (*_cells(3), wide, wide)
    steps = [step.cell for step in survey(cells, range(5), 10, 1, random.Random(2))]
    for first in (0, 5):
        turns = [cells[i].instance.shape for i in steps[first : first + 5]]
        assert sum(a != b for a, b in pairwise(turns)) == 1
