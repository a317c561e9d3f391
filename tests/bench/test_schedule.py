"""In which order cells are measured, for how long, and what they are predicted to take."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.bench.schedule import (
    Cell,
    NearestForecast,
    ScheduleStep,
    guessed_s,
    refine,
    survey,
    too_slow,
)
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


def test_what_scatters_is_repeated_more_often() -> None:
    """Of two equally fast cells the one whose repetitions differ gets more of the same time."""
    cells, times = _cells(3), {0: 1e-3, 1: 1e-3, 2: 1e-3}
    seen = {0: [1e-3] * 20, 1: [k * 1e-4 for k in range(1, 21)], 2: [1e-3] * 2}
    plain = refine(cells, times, 10.0, 100, random.Random(0))
    following = refine(cells, times, 10.0, 100, random.Random(0), seen_s=seen)
    spent_s = dict.fromkeys(times, 0.0)
    for step in following:
        spent_s[step.cell] += step.max_seconds
    assert spent_s[0] < spent_s[1] <= spent_s[2]
    assert sum(spent_s.values()) == pytest.approx(sum(step.max_seconds for step in plain))


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


def _cell(algorithm: str, msize_bytes: int) -> Cell:
    configuration = Configuration("openmpi", Collective.BCAST, algorithm)
    return Cell(configuration, Instance(Collective.BCAST, Shape(4, 4), msize_bytes))


@pytest.mark.parametrize("collective", [Collective.BCAST, Collective.ALLTOALL, Collective.BARRIER])
def test_guesses_grow_with_the_problem(collective: Collective) -> None:
    """More bytes and more processes take longer; even nothing takes some time."""
    small = guessed_s(Instance(collective, Shape(1, 2), 0))
    wide = guessed_s(Instance(collective, Shape(8, 4), 0))
    large = guessed_s(Instance(collective, Shape(8, 4), 1 << 20))
    assert 0 < small < wide < large


def test_the_nearest_cell_of_the_configuration_tells() -> None:
    """A measured cell predicts itself; its neighbours are scaled by the ratio of the guesses."""
    known, other = _cell("chain", 1024), _cell("chain", 1 << 20)
    forecast = NearestForecast({known: 3e-3, other: 9e-3})
    assert forecast.time_s(known) == pytest.approx(3e-3)
    near = _cell("chain", 2048)
    ratio = guessed_s(near.instance) / guessed_s(known.instance)
    assert forecast.time_s(near) == pytest.approx(3e-3 * ratio)


def test_an_empty_all_to_all_of_one_process_tells_of_others() -> None:
    """It sends nothing, but takes time."""
    configuration = Configuration("openmpi", Collective.ALLTOALL, "linear")
    alone, two = (
        Cell(configuration, Instance(Collective.ALLTOALL, Shape(1, n), 0)) for n in (1, 2)
    )
    forecast = NearestForecast({alone: 1e-6})
    assert forecast.time_s(two) == pytest.approx(1e-6)


def test_nothing_is_predicted_to_take_longer_than_the_bound() -> None:
    """`most_s` spares predictions where all fit anyway."""
    times = {_cell("chain", 1 << k): (1 + k % 3) * 1e-6 for k in range(0, 20, 3)}
    forecast = NearestForecast(times)
    for size in range(24):
        cell = _cell("chain", 1 << size)
        predicted_s = forecast.time_s(cell)
        assert predicted_s is not None
        assert predicted_s <= forecast.most_s(cell) * 1.000001


def test_an_unknown_configuration_is_not_predicted() -> None:
    """Nothing is said of a configuration that was never measured."""
    assert NearestForecast({_cell("chain", 8): 1.0}).time_s(_cell("binomial", 8)) is None


def test_the_slowest_against_the_best_go_first() -> None:
    """What does not fit is left out by predicted regret; default and unknown always stay."""
    times = {
        _cell("default", 8): 4.0,
        _cell("fast", 8): 1.0,
        _cell("slow", 8): 3.0,
        _cell("slower", 8): 5.0,
        _cell("large_but_best", 64): 6.0,
    }
    cells = (*times, _cell("unknown", 8))
    steps = [ScheduleStep(index, 10, 1.0) for index in range(len(cells))]
    forecast = NearestForecast(times)
    assert too_slow(cells, steps, forecast, 2 * 19.0) == frozenset()
    assert too_slow(cells, steps, forecast, 2 * 14.0) == {3}
    assert too_slow(cells, steps, forecast, 2 * 11.0) == {2, 3}
    assert too_slow(cells, steps, forecast, 0.0) == {1, 2, 3, 4}


def test_without_measurements_nothing_is_left_out() -> None:
    """A guess alone never keeps a cell from being measured."""
    cells = (_cell("chain", 1 << 20), _cell("linear", 1 << 20))
    assert (
        too_slow(
            cells, [ScheduleStep(0, 1, 1.0), ScheduleStep(1, 1, 1.0)], NearestForecast({}), 0.0
        )
        == frozenset()
    )
