"""The statistic of a cell's repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import trim_mean

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import (
    Objective,
    common,
    launch_times,
    of_repetitions,
    parse_objective,
)
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    LaunchStatistics,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import DataError
from tests.refusals import refused

CONTEXT = Context("made-up", "openmpi", "4.1.4")
INSTANCE = Instance(Collective.BCAST, Shape(2, 4), 64)
CHAIN = Configuration("openmpi", Collective.BCAST, "chain")
NAN = float("nan")


def _raw(*launches: Sequence[float]) -> PerformanceDataset:
    return PerformanceDataset.of(
        CONTEXT,
        [
            Measurement(INSTANCE, CHAIN, str(k), RunStatus.OK, tuple(times))
            for k, times in enumerate(launches)
        ],
    )


def _summary(**changes: float) -> PerformanceDataset:
    """Return one imported measurement: median 2, mean 2.2, p90 3 seconds."""
    known = {"time_s": 2.0, "time_mean_s": 2.2, "time_min_s": 1.0, "time_p90_s": 3.0}
    fields = known | {"time_max_s": 9.0} | changes
    summary = LaunchStatistics(n_reps=100, **fields)
    return PerformanceDataset.of(
        CONTEXT, [Measurement(INSTANCE, CHAIN, "one", RunStatus.OK, summary=summary)]
    )


def test_trimmed_mean_is_scipys(subtests: pytest.Subtests) -> None:
    """From ten repetitions on it is the mean without a tenth at either end, as scipy has it."""
    for n in (10, 19, 20, 137):
        with subtests.test(n=n):
            times = np.random.default_rng(n).lognormal(size=(4, n))
            found = of_repetitions(times, Objective.TRIMMED_MEAN)
            np.testing.assert_allclose(found, trim_mean(times, 0.1, axis=1), rtol=1e-12)


def test_trimmed_mean_survives_an_outlier_of_a_thousand(subtests: pytest.Subtests) -> None:
    """One repetition 1000 times as long changes the trimmed mean by nothing."""
    for n in (3, 4, 9, 10, 100):
        with subtests.test(n=n):
            times = np.ones((1, n))
            times[0, n // 2] = 1000.0
            assert of_repetitions(times, Objective.TRIMMED_MEAN) == [1.0]


def test_trimmed_mean_feels_a_slow_mode_that_the_median_hides() -> None:
    """With 30 of 100 calls three times as slow the median says 1, the trimmed mean 1.5."""
    times = np.array([[1.0] * 70 + [3.0] * 30])
    assert of_repetitions(times, Objective.MEDIAN) == [1.0]
    assert of_repetitions(times, Objective.TRIMMED_MEAN) == [1.5]
    assert of_repetitions(times, Objective.MEAN) == pytest.approx(1.6)


def test_quantiles_are_measured_values(subtests: pytest.Subtests) -> None:
    """Of the times 1 to 100 the p-th percentile is p, in whatever order they came."""
    for name, expected in (("p75", 75), ("p90", 90), ("p95", 95), ("p99", 99)):
        with subtests.test(name=name, expected=expected):
            times = np.random.default_rng(0).permutation(np.arange(1.0, 101.0))[None]
            assert of_repetitions(times, Objective(name)) == [expected]


def test_a_single_repetition_is_every_statistic(subtests: pytest.Subtests) -> None:
    """Of one repetition each statistic is that time."""
    for objective in Objective:
        with subtests.test(objective=objective):
            assert of_repetitions(np.array([[4e-6]]), objective) == [4e-6]
            dataset = _raw([4e-6])
            np.testing.assert_allclose(launch_times(dataset.frame, objective), [4e-6])


def test_trimmed_mean_of_a_summary(subtests: pytest.Subtests) -> None:
    """A summary's mean counts where it lies between minimum and p90, else the median does."""
    for changes, expected in (
        ({}, 2.2),
        ({"time_mean_s": 50.0}, 2.0),
        ({"time_p90_s": NAN}, 2.0),
        ({"time_mean_s": NAN}, 2.0),
        ({"time_mean_s": 0.5}, 2.0),
        ({"time_min_s": NAN}, 2.2),
    ):
        with subtests.test(changes=changes, expected=expected):
            found = launch_times(_summary(**changes).frame, Objective.TRIMMED_MEAN)
            np.testing.assert_array_equal(found, [expected])


def test_rows_with_and_without_repetitions_keep_their_order() -> None:
    """In a mixture of launches of several lengths and summaries each row has its own statistic."""
    raw = _raw([1.0, 2.0, 9.0], [5.0], [3.0, 4.0, 4.0, 50.0]).measurements()
    (summary,) = _summary().measurements()
    dataset = PerformanceDataset.of(CONTEXT, [raw[0], summary, raw[1], raw[2]])
    found = launch_times(dataset.frame, Objective.TRIMMED_MEAN)
    np.testing.assert_array_equal(found, [2.0, 2.2, 5.0, 4.0])


def test_over_launches_the_median_or_for_the_mean_the_mean() -> None:
    """Three launches, one of them slow: the trimmed mean leaves it out, the mean does not."""
    dataset = _raw([1.0], [2.0], [9.0])
    assert dataset.cells(Objective.TRIMMED_MEAN)["time_s"].tolist() == [2.0]
    assert dataset.cells(Objective.MEAN)["time_s"].tolist() == [4.0]
    assert dataset.cells()["time_s"].tolist() == [2.0]


def test_statistics_that_a_summary_lacks_are_refused(subtests: pytest.Subtests) -> None:
    """Asking for what a summary does not tell names the cell and what could be asked for."""
    for objective, changes in (
        ("p95", {}),
        ("p90", {"time_p90_s": NAN}),
        ("mean", {"time_mean_s": NAN}),
    ):
        with (
            subtests.test(objective=objective, changes=changes),
            refused("objective-unknown", DataError),
        ):
            _summary(**changes).cells(Objective(objective))


@pytest.mark.parametrize("bad", [NAN, 0.0, -1e-6, float("inf")])
@pytest.mark.parametrize("objective", Objective)
def test_times_that_are_none_are_refused(bad: float, objective: Objective) -> None:
    """A repetition that is no positive number is an error that names the cell, not a prediction."""
    dataset = _raw([1e-6, 2e-6], [1e-6, bad])
    with refused("no-positive-time", DataError):
        dataset.cells(objective)


def test_names_are_read_and_strange_ones_explained() -> None:
    """An objective is named as it is written, and an unknown one is told with those that exist."""
    assert parse_objective(" Trimmed-Mean ") is Objective.TRIMMED_MEAN
    with refused("unknown", DataError, what="objective", name="p50"):
        parse_objective("p50")


def test_objectives_do_not_mix() -> None:
    """Parts of one dataset that were reduced in different ways cannot be fitted together."""
    assert common([Objective.MEAN, Objective.MEAN]) is Objective.MEAN
    with refused("objectives-differ", DataError, distinct="mean, median"):
        common([Objective.MEDIAN, Objective.MEAN])
