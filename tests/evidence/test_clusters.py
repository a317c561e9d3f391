"""Intervals over shapes and changes of a level, on worlds whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from colltune.evidence.components import LevelChange, changed, clustered

_WORLDS = 1500
_NIGHTS = range(40, 130, 3)


def _shapes(rng: np.random.Generator, count: int, kind: str) -> list[NDArray[np.float64]]:
    """Return values whose mean is 0, of shapes that share an effect of sd .05."""
    sizes = rng.integers(5, 30, count) if kind == "unequal" else np.full(count, 20)
    tails = rng.standard_t(3, count) / math.sqrt(3)
    effects = 0.05 * (tails if kind == "t3" else rng.normal(size=count))
    return [e + rng.normal(0, 0.05, n) for e, n in zip(effects, sizes, strict=True)]


@pytest.mark.parametrize("kind", ["equal", "unequal", "t3"])
@pytest.mark.parametrize("count", [3, 4, 6, 10, 20])
def test_intervals_hold_the_truth_for_few_shapes(count: int, kind: str) -> None:
    """From 3 shapes on, 93 % of intervals or more hold the truth; 5 % pass at the limit."""
    rng = np.random.default_rng(1)
    held = passed = 0
    for _ in range(_WORLDS):
        values = _shapes(rng, count, kind)
        clusters = np.repeat(np.arange(count), [len(v) for v in values])
        flat = np.concatenate(values)
        ends = clustered(flat, np.ones(len(flat)), clusters)
        assert ends is not None
        held += ends[0] <= 0.0 <= ends[1]
        passed += ends[1] < 0.0
    # less two standard errors of the simulation
    assert held / _WORLDS >= 0.93 - 0.013
    assert passed / _WORLDS <= 0.05


def test_a_ratio_of_sums_has_its_own_scatter() -> None:
    """Parts that are the same share of every whole are certain, however the wholes differ."""
    wholes = np.arange(1.0, 13.0)
    clusters = np.arange(12) // 3
    assert clustered(0.25 * wholes, wholes, clusters) == pytest.approx((0.25, 0.25))


@pytest.mark.parametrize(
    ("parts", "wholes"),
    [([], []), ([1.0] * 4, [1.0] * 4), ([math.nan] * 9, [1.0] * 9), ([0.0] * 9, [0.0] * 9)],
)
def test_what_tells_nothing_has_no_interval(parts: list[float], wholes: list[float]) -> None:
    """Two clusters, numbers that are unknown, or a whole of nothing, are None."""
    assert clustered(parts, wholes, np.arange(len(parts)) // 3) is None


def _level(rng: np.random.Generator, sd: float, alike: float, n: int) -> NDArray[np.float64]:
    values = np.empty(n)
    values[0] = rng.normal(0, sd)
    for i in range(1, n):
        values[i] = alike * values[i - 1] + rng.normal(0, sd * math.sqrt(1 - alike * alike))
    return values


def _alarm(found: LevelChange | None) -> bool:
    return found is not None and found.chance < 0.005 / 3 and abs(found.log) > math.log(1.15)


@pytest.mark.parametrize(("sd", "alike"), [(0.1, 0.0), (0.1, 0.7), (0.2, 0.0)])
def test_a_level_that_stays_seldom_alarms(sd: float, alike: float) -> None:
    """Within 90 nights at most a tenth of levels alarm, which resemble their neighbours or not."""
    rng = np.random.default_rng(6)
    levels = [_level(rng, sd, alike, 130) for _ in range(60)]
    alarms = [
        any(_alarm(changed(x[: t - 10], x[t - 10 : t], 0.1)) for t in _NIGHTS) for x in levels
    ]
    assert np.mean(alarms) <= 0.1


def test_a_change_is_found() -> None:
    """A level that is 1.4 times as high for ten allocations is found amid 10 % of noise."""
    rng = np.random.default_rng(7)
    levels = [_level(rng, 0.1, 0.0, 50) for _ in range(60)]
    found = [_alarm(changed(x[:40], x[40:] + math.log(1.4), 0.1)) for x in levels]
    assert np.mean(found) >= 0.9


def test_nothing_before_or_after_is_no_change() -> None:
    """Without values to compare, and without an error of what was expected, there is None."""
    assert changed([], [0.1], 0.1) is None
    assert changed([0.1, 0.2], [], 0.1) is None
    assert changed([], [3.0] * 4, 0.1, 0.3) is not None
