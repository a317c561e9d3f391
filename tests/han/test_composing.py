"""Runtimes composed of task times, against sums done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.domain import Configuration, RunStatus, Shape
from colltune.errors import DataError
from colltune.han.choosing import runtime_s
from colltune.han.tasks_file import Manner, TimedSeries
from tests.refusals import refused

SHAPE = Shape(2, 2)
BCAST = Configuration.parse("openmpi.bcast.han_intra:low=tuned,segsize=1024,up=libnbc")
ALLREDUCE = Configuration.parse("openmpi.allreduce.han_intra:low=tuned,segsize=1024,up=libnbc")


def _series(
    setup: Configuration, segments: int, *reps: list[list[float]], manner: Manner = Manner.STEADY
) -> TimedSeries:
    times = tuple(tuple(tuple(leader) for leader in rep) for rep in reps)
    return TimedSeries(SHAPE, setup, segments, manner, times, 1.0)


def test_a_broadcast_of_measured_length_is_the_sum_of_its_tasks() -> None:
    """Equation 1: what the slowest leader's tasks took, as they were run."""
    series = _series(BCAST, 4, [[1, 2, 3, 4, 5], [2, 2, 2, 2, 2]])
    assert runtime_s(series, 4) == 15.0
    assert runtime_s(series, 3) == 1 + (2 + 3) + 5
    assert runtime_s(series, 1) == 6.0


def test_a_longer_broadcast_goes_on_at_the_steady_cost() -> None:
    """Equation 3: tasks beyond those that were run cost the mean of the last two thirds of them."""
    series = _series(BCAST, 4, [[1, 9, 3, 5, 5], [1, 1, 1, 1, 1]])
    assert runtime_s(series, 10) == pytest.approx(1 + (9 + 3 + 5) + 6 * 4 + 5)


def test_an_allreduce_fills_runs_and_empties() -> None:
    """Equation 4, with two steady tasks that were run and five more."""
    leader = [1.0, 2.0, 3.0, 10.0, 20.0, 5.0, 6.0, 7.0]
    series = _series(ALLREDUCE, 5, [leader, [1.0] * 8])
    assert runtime_s(series, 5) == sum(leader)
    assert runtime_s(series, 3) == pytest.approx(1 + 2 + 3 + 5 + 6 + 7)
    assert runtime_s(series, 10) == pytest.approx(6 + 30 + 5 * 15 + 18)


def test_an_allreduce_shorter_than_its_pipeline_is_run_as_it_is(subtests: pytest.Subtests) -> None:
    """With one or two segments there are other tasks, and only their own series tells the time."""
    for segments, tasks in (
        (1, 4),
        (2, 5),
    ):
        with subtests.test(segments=segments, tasks=tasks):
            leaders = [[1.0] * tasks, [2.0] * tasks]
            exact = _series(ALLREDUCE, segments, leaders, manner=Manner.EXACT)
            assert runtime_s(exact, segments) == 2.0 * tasks
            with refused("tasks-cannot-predict", DataError):
                runtime_s(exact, 3 - segments)
            long = _series(ALLREDUCE, 5, [[1.0] * 8, [1.0] * 8])
            with refused("tasks-cannot-predict", DataError):
                runtime_s(long, segments)


def test_repetitions_count_by_their_lower_median() -> None:
    """One repetition that was disturbed changes nothing, even of two."""
    slow, fast = [[9.0, 9.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 2.0]]
    assert runtime_s(_series(BCAST, 1, slow, fast), 1) == 3.0


def test_an_exact_series_tells_no_longer_one() -> None:
    """Whether its tasks are steady was not asked, so that nothing is extrapolated from it."""
    exact = _series(BCAST, 4, [[1.0] * 5, [1.0] * 5], manner=Manner.EXACT)
    assert exact.covers(3)
    assert not exact.covers(5)


def test_times_of_another_shape_are_refused() -> None:
    """A series has a time for each task of each node's leader, all of them positive."""
    for times in ([[1.0] * 5], [[1.0] * 4, [1.0] * 4], [[0.0] * 5, [1.0] * 5]):
        with refused("tasks-need-times", DataError, tasks="5 tasks", leaders="2 leaders"):
            _series(BCAST, 4, times)


def test_a_series_that_failed_is_not_measured_again() -> None:
    """It covers everything, and tells nothing."""
    failed = TimedSeries(
        SHAPE, BCAST, 4, Manner.EXACT, (), 0.0, RunStatus.CRASH, "ended its launch"
    )
    assert failed.covers(100)
    with refused("tasks-cannot-predict", DataError):
        runtime_s(failed, 1)


def test_bursts_count_by_their_mean() -> None:
    """Costs that come every third task only are not lost, as they would be in a median."""
    steps = [0.0001, 0.0001, 0.003] * 4
    series = _series(BCAST, 13, [[0.002, *steps, 0.001]] * 2)
    further = runtime_s(series, 1000) - runtime_s(series, 900)
    assert further == pytest.approx(100 * np.mean(steps[4:]))
