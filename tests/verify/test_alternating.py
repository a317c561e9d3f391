"""Gains of alternated measurements."""

from __future__ import annotations

import math

import pytest

from colltune.domain import Collective, Instance, Shape
from colltune.verify.alternating import Alternation, Gain

SMALL = Instance(Collective.BCAST, Shape(1, 4), 8)
LARGE = Instance(Collective.BCAST, Shape(1, 4), 8192)


@pytest.mark.parametrize(
    ("pairs", "dropped"), [(6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5)]
)
def test_interval_is_that_of_the_sign_test(pairs: int, dropped: int) -> None:
    """The interval leaves out as many extremes as the textbook's sign test at 95 % allows."""
    logs = [0.01 * k for k in range(pairs)]
    gain = Gain.of([*reversed(logs)])
    assert gain.pairs == pairs
    assert math.log(gain.ratio) == pytest.approx(0.005 * (pairs - 1))
    assert math.log(gain.lower) == pytest.approx(logs[dropped], abs=1e-12)
    assert math.log(gain.upper) == pytest.approx(logs[-1 - dropped])


def test_one_wild_launch_moves_nothing() -> None:
    """Of nine pairs, a single outlier changes neither the gain nor its interval by much."""
    logs = [0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17]
    wild = Gain.of([*logs, 5.0])
    assert (math.log(wild.ratio), math.log(wild.upper)) == pytest.approx((0.14, 0.17))


def test_few_pairs_have_no_interval() -> None:
    """Fewer than six pairs tell a gain but not how sure it is."""
    gain = Gain.of([math.log(2)] * 5)
    assert gain.ratio == pytest.approx(2)
    assert math.isnan(gain.lower)
    assert math.isnan(gain.upper)


def test_a_range_averages_its_sizes_pair_by_pair() -> None:
    """Sizes of a range are averaged within each pair; what was not measured is left out."""
    alternation = Alternation({SMALL: (0.0, 0.2), LARGE: (0.2, 0.4)}, 1.0, 4)
    gain = alternation.gain([SMALL, LARGE, Instance(Collective.BCAST, Shape(1, 4), 1)])
    assert gain is not None
    assert (math.log(gain.ratio), gain.pairs) == pytest.approx((0.2, 2))
    assert alternation.gain([Instance(Collective.BCAST, Shape(1, 4), 1)]) is None


def test_a_certain_loss_lies_below_one_as_a_whole() -> None:
    """An interval that reaches beyond 1, or no interval at all, is not certain."""
    assert Gain(0.8, 0.7, 0.9, 7, 0).is_slower
    assert not Gain(0.8, 0.7, 1.01, 7, 1).is_slower
    assert not Gain(0.5, math.nan, math.nan, 5, 0).is_slower
