"""Gains of alternated measurements."""

from __future__ import annotations

import math

import pytest

from colltune.bench.verify import Alternation, Gain
from colltune.domain import Collective, Instance, Shape

SMALL = Instance(Collective.BCAST, Shape(1, 4), 8)
LARGE = Instance(Collective.BCAST, Shape(1, 4), 8192)


def test_interval_is_students() -> None:
    """Mean and 95 % interval of four pairs agree with the textbook."""
    logs = [0.1, 0.2, 0.3, 0.4]
    gain = Gain.of(logs)
    half = 3.182446 * math.sqrt(sum((x - 0.25) ** 2 for x in logs) / 3 / 4)
    assert gain.pairs == 4
    assert math.log(gain.ratio) == pytest.approx(0.25)
    assert math.log(gain.lower) == pytest.approx(0.25 - half, rel=1e-6)
    assert math.log(gain.upper) == pytest.approx(0.25 + half, rel=1e-6)


def test_one_pair_has_no_interval() -> None:
    """A single pair tells a gain but not how sure it is."""
    gain = Gain.of([math.log(2)])
    assert gain.ratio == pytest.approx(2)
    assert math.isnan(gain.lower)


def test_a_range_averages_its_sizes_pair_by_pair() -> None:
    """Sizes of a range are averaged within each pair; what was not measured is left out."""
    alternation = Alternation({SMALL: (0.0, 0.2), LARGE: (0.2, 0.4)}, 1.0, 4)
    gain = alternation.gain([SMALL, LARGE, Instance(Collective.BCAST, Shape(1, 4), 1)])
    assert gain is not None
    expected = Gain.of([0.1, 0.3])
    assert (gain.ratio, gain.lower) == pytest.approx((expected.ratio, expected.lower))
    assert alternation.gain([Instance(Collective.BCAST, Shape(1, 4), 1)]) is None
