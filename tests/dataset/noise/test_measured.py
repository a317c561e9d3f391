"""Noise within a launch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from colltune.dataset.noise import AllocationSource, allocations_of
from colltune.dataset.noise.measured import drift_curve, modes_ratio
from colltune.errors import DataError
from colltune.evidence.repetitions import (
    independent_reps,
    median_factor,
    rank_autocorrelation,
    robust_sd,
)
from tests.refusals import refused

_RNG = np.random.default_rng(7)


def test_robust_sd_is_that_of_the_core(subtests: pytest.Subtests) -> None:
    """On average it is the standard deviation, for few repetitions too, whatever the outliers."""
    for n in (5, 9, 40, 1001):
        with subtests.test(n=n):
            estimates = [robust_sd(_RNG.normal(0, 0.1, n)) for _ in range(2000)]
            assert np.mean(estimates) == pytest.approx(0.1, rel=0.06)
            spoiled = _RNG.normal(0, 0.1, 1000)
            spoiled[:50] += 10
            assert robust_sd(spoiled) == pytest.approx(0.1, rel=0.2)


def test_coarse_clock_gives_no_zero() -> None:
    """More than half equal times do not mean that there is no noise."""
    assert robust_sd(np.log([1.0] * 60 + [2.0] * 40)) > 0.3


def test_variance_of_a_median(subtests: pytest.Subtests) -> None:
    """The formula is that of simulated medians of normal values."""
    for n in (1, 3, 5, 25):
        with subtests.test(n=n):
            medians = np.median(_RNG.normal(0, 1, (40000, n)), axis=1)
            assert medians.var() == pytest.approx(median_factor(n), rel=0.06)


def test_order_does_not_matter_for_independent_repetitions() -> None:
    """White noise has no autocorrelation; a slow wave has much, and counts for few repetitions."""
    white = [rank_autocorrelation(_RNG.normal(0, 1, 100)) for _ in range(100)]
    assert np.mean(np.array(white) == 0) > 0.9
    wave = rank_autocorrelation(np.sin(np.linspace(0, 6, 100)))
    assert independent_reps(100, wave) < 5
    assert rank_autocorrelation(np.zeros(50)) == 0


@pytest.mark.parametrize(
    "logs",
    [
        _RNG.normal(0, 0.05, 300),
        _RNG.normal(0, 0.5, 300),
        _RNG.uniform(0, 2, 300),
        _RNG.exponential(0.3, 300),
        _RNG.exponential(0.3, 30),
        np.log(1 + _RNG.pareto(1.5, 300)),
        np.concatenate([_RNG.normal(0, 0.02, 180), _RNG.normal(0.15, 0.02, 120)]),
        np.concatenate([_RNG.normal(0, 0.02, 290), _RNG.normal(3, 0.02, 10)]),
        np.zeros(50),
    ],
    ids=[
        "narrow",
        "broad",
        "uniform",
        "tail",
        "short",
        "heavy",
        "1.16x apart",
        "outliers",
        "equal",
    ],
)
def test_single_modes_are_not_split(logs: np.ndarray) -> None:
    """Broad, skewed and heavy-tailed distributions, close modes and outliers are no two modes."""
    assert math.isnan(modes_ratio(logs))


def test_two_modes_are_found(subtests: pytest.Subtests) -> None:
    """Two modes are told with the ratio of their medians, in whatever order they come."""
    for share, ratio in ((0.5, 1.4), (0.2, 2.0), (0.8, 10.0)):
        with subtests.test(share=share, ratio=ratio):
            n = int(300 * share)
            logs = np.concatenate(
                [_RNG.normal(0, 0.04, n), _RNG.normal(math.log(ratio), 0.04, 300 - n)]
            )
            assert modes_ratio(_RNG.permutation(logs)) == pytest.approx(ratio, rel=0.05)


def test_drift_curve_shows_the_warm_up() -> None:
    """Launches whose first tenth is twice as slow start at 2 and go on at 1."""
    times = (2e-6,) * 10 + (1e-6,) * 90
    low, middle, high = drift_curve([times, times, (1e-6,) * 5])
    assert middle[:2].tolist() == [2, 2]
    assert set(middle[2:]) == {1}
    assert (low == high).all()
    assert drift_curve([]).shape == (3, 0)


def test_provenance_tells_the_allocation() -> None:
    """A launch belongs to the allocation that it recorded; one that recorded none is its own."""
    facts = {"a": {"allocation": "job 1"}, "b": {"allocation": "job 1"}, "c": {}}
    told = allocations_of(["a", "b", "c", "a"], facts)
    assert told.by_launch["a"] == told.by_launch["b"] == "job 1"
    assert told.by_launch["c"] not in ("job 1", "")
    assert told.sources == {AllocationSource.PROVENANCE: 2, AllocationSource.ASSUMED: 1}


def test_the_importing_machine_is_no_allocation() -> None:
    """What a machine imported was not measured in its allocation."""
    facts = {name: {"allocation": "laptop", "imported_from": "x.csv"} for name in "ab"}
    told = allocations_of("ab", facts)
    assert len(set(told.by_launch.values())) == 2
    assert told.sources == {AllocationSource.ASSUMED: 2}


def test_pattern_tells_it_from_the_name() -> None:
    """The first group, or all that matches, names the allocation, whatever was recorded."""
    facts = {"j1/0": {"allocation": "x"}}
    launches = ["j1/0", "j1/1", "j2/0"]
    assert allocations_of(launches, facts, "([^/]*)/").by_launch["j1/1"] == "j1"
    assert set(allocations_of(launches, facts, r"j\d").by_launch.values()) == {"j1", "j2"}


def test_bad_patterns_are_named(subtests: pytest.Subtests) -> None:
    """A malformed pattern, or one that does not match a launch, is refused."""
    for pattern, message in (
        ("([", "not-a-pattern"),
        ("j1", "allocation-does-not-match launch=j2/0"),
    ):
        with (
            subtests.test(pattern=pattern, message=message),
            refused(message, DataError),
        ):
            allocations_of(["j1/0", "j2/0"], {}, pattern)
