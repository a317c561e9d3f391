"""Predicting what was not measured yet, and leaving out what would not fit."""

from __future__ import annotations

import pytest

from colltune.bench.schedule import Cell, Forecast, Step, guessed_s, too_slow
from colltune.domain import Collective, Configuration, Instance, Shape


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
    forecast = Forecast({known: 3e-3, other: 9e-3})
    assert forecast.time_s(known) == pytest.approx(3e-3)
    near = _cell("chain", 2048)
    ratio = guessed_s(near.instance) / guessed_s(known.instance)
    assert forecast.time_s(near) == pytest.approx(3e-3 * ratio)


def test_an_unknown_configuration_is_not_predicted() -> None:
    """Nothing is said of a configuration that was never measured."""
    assert Forecast({_cell("chain", 8): 1.0}).time_s(_cell("binomial", 8)) is None


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
    steps = [Step(index, 10, 1.0) for index in range(len(cells))]
    forecast = Forecast(times)
    assert too_slow(cells, steps, forecast, 2 * 19.0) == frozenset()
    assert too_slow(cells, steps, forecast, 2 * 14.0) == {3}
    assert too_slow(cells, steps, forecast, 2 * 11.0) == {2, 3}
    assert too_slow(cells, steps, forecast, 0.0) == {1, 2, 3, 4}


def test_without_measurements_nothing_is_left_out() -> None:
    """A guess alone never keeps a cell from being measured."""
    cells = (_cell("chain", 1 << 20), _cell("linear", 1 << 20))
    assert too_slow(cells, [Step(0, 1, 1.0), Step(1, 1, 1.0)], Forecast({}), 0.0) == frozenset()
