"""Figures and their intervals, on decisions made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colltune.evaluation.scores import (
    ALL,
    Decided,
    EvaluatedInstances,
    differences,
    scores,
)


def instances(n_shapes: int = 4, per_shape: int = 3) -> EvaluatedInstances:
    """Return instances of one collective: default 2 s, best 1 s."""
    n = n_shapes * per_shape
    return EvaluatedInstances(
        ("bcast",) * n,
        ("all",) * n,
        np.repeat(np.arange(2, n_shapes + 2), per_shape),
        np.ones(n, np.int64),
        np.tile(np.arange(1, per_shape + 1), n_shapes),
        np.full(n, 2.0),
        np.ones(n),
        ("openmpi.bcast.chain",) * n,
    )


def decided(selected_s: Any, noise: float = np.nan) -> Decided:
    """Return decisions with these times."""
    times = np.asarray(selected_s, float)
    names = tuple("openmpi.bcast.x" for _ in times)
    spread = np.full(len(times), noise)
    kept, never = times == 2.0, np.zeros(len(times), np.bool_)
    return Decided(names, times, kept, never, spread, {"bcast": 1.0}, {"bcast": 2.0}, True)


def test_figures_of_known_decisions() -> None:
    """Every figure follows from four decisions: best, default, 4 % slower, twice as slow."""
    score = scores(instances(4, 1), decided([1.0, 2.0, 2.08, 4.0]))[ALL]
    assert score.instances == score.shapes == 4
    assert score.arithmetic_mean_speedup == pytest.approx((2 + 1 + 1 / 1.04 + 0.5) / 4)
    assert score.geometric_mean_speedup == pytest.approx((1 / 1.04) ** 0.25)
    assert score.log_gain_share == pytest.approx(-np.log(1.04) / (4 * np.log(2)))
    assert score.mean_regret == pytest.approx((1 + 2 + 2.08 + 4) / 4)
    assert (score.slower_share, score.mean_slowdown, score.worst_slowdown) == (0.25, 2.0, 2.0)
    assert score.default_share == 0.25
    assert (score.fit_s, score.predict_s) == (1.0, 2.0)


def test_harm_is_a_slow_down_beyond_twice_the_noise() -> None:
    """A slow-down of 10 % is harm at 1 % of noise, not at 10 %; unknown noise excuses nothing."""
    times = [1.0, 2.0, 2.2, 4.0]
    unknown, small, large = (scores(instances(4, 1), decided(times, n))[ALL] for n in _NOISES)
    assert unknown.harm_share == small.harm_share == 0.5
    assert large.harm_share == 0.25
    assert unknown.slower_share == small.slower_share == large.slower_share == 0.5
    assert large.harm_share_interval is not None
    assert large.harm_share_interval[1] <= (large.slower_share_interval or (0, 1))[1]


_NOISES = (np.nan, 0.01, 0.1)


def test_nothing_to_gain_has_no_share() -> None:
    """Where the default is always the best the share is None, not zero or infinite."""
    even = EvaluatedInstances(**(vars(instances()) | {"best_s": np.full(12, 2.0)}))
    score = scores(even, decided(np.full(12, 2.0)))[ALL]
    assert score.log_gain_share is None
    assert score.log_gain_share_interval is None


def test_intervals_count_shapes_and_not_instances() -> None:
    """Decisions that are alike within a shape give the same interval however many they are."""
    per_shape = [1.0, 2.0, 4.0, 1.0, 2.0]
    few = scores(instances(5, 1), decided(per_shape))[ALL]
    many = scores(instances(5, 40), decided(np.repeat(per_shape, 40)))[ALL]
    assert few.geometric_mean_speedup_interval == pytest.approx(
        many.geometric_mean_speedup_interval
    )
    assert few.slower_share_interval == pytest.approx(many.slower_share_interval)
    assert few.slower_share_interval is not None
    assert few.slower_share_interval[0] < few.slower_share < few.slower_share_interval[1]


def test_harm_that_was_never_seen_has_no_interval() -> None:
    """Without a slow-down the interval of harm is unknown, not 0 to 0, which would flatter."""
    score = scores(instances(), decided(np.ones(12)))[ALL]
    assert score.slower_share == 0
    assert score.slower_share_interval is None
    assert score.log_gain_share_interval == (1.0, 1.0)


def test_fewer_than_three_shapes_have_no_interval() -> None:
    """Two shapes tell nothing of how shapes scatter."""
    score = scores(instances(2, 9), decided(np.ones(18)))[ALL]
    assert score.geometric_mean_speedup_interval is None
    assert score.slower_share_interval is None


def test_paired_difference_is_surer_than_two_intervals() -> None:
    """A selector that is always 5 % faster differs for sure, though both intervals overlap."""
    rng = np.random.default_rng(1)
    times = np.exp(rng.normal(0.3, 0.4, 12)).clip(1.0)
    first, second = decided(times * 1.05), decided(times)
    found = differences(instances(12, 1), first, second)[-1]
    assert found.speedup == pytest.approx(1.05)
    assert found.speedup_interval == pytest.approx((1.05, 1.05))
    both = [scores(instances(12, 1), one)[ALL] for one in (first, second)]
    ends = [score.geometric_mean_speedup_interval for score in both]
    assert ends[0] is not None
    assert ends[1] is not None
    assert ends[0][1] > ends[1][0]


def test_a_difference_to_itself_is_none() -> None:
    """The same decisions differ by nothing, with certainty."""
    one = decided(np.linspace(1, 3, 12))
    found = differences(instances(), one, one)[-1]
    assert (found.speedup, found.share, found.harm) == (1.0, 0.0, 0.0)
    assert found.share_interval == (0.0, 0.0)
    assert (found.better, found.worse) == (0.0, 0.0)
