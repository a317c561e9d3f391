"""Whether a level shifts over time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from colltune.evidence.levels import BatchLevel


def test_a_level_that_shifts_is_told_once() -> None:
    """It is told with its ratio and beginning; what is small, or only scatters, is not."""
    rng = np.random.default_rng(7)
    level = BatchLevel()
    quiet = [level.add(float(v)) for v in rng.normal(0, 0.02, 200)]
    assert not any(quiet)
    told = [level.add(float(v)) for v in rng.normal(math.log(1.2), 0.02, 40)]
    [(at, shift)] = [(at, shift) for at, shift in enumerate(told) if shift is not None]
    assert at <= 5
    assert math.exp(shift) == pytest.approx(1.2, abs=0.03)
    assert not any(level.add(float(v)) for v in rng.normal(math.log(1.22), 0.02, 40))
