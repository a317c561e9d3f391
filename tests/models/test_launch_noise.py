"""What launches do to times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from colltune.models.error_model import ErrorModel
from colltune.models.launch_noise import UNKNOWN, LaunchNoise, launch_noise


def measured(common: float, own: float, launches: int = 6) -> pd.DataFrame:
    """Return times of 20 instances and 5 configurations with the given noise."""
    rng = np.random.default_rng(3)
    rows = []
    for msize in 2 ** np.arange(20):
        for launch in range(launches):
            luck = rng.normal(0, common)
            for algorithm in "abcde":
                time_s = 1e-6 * msize * np.exp(luck + rng.normal(0, own))
                rows.append((4, 1, msize, algorithm, "", str(launch), time_s))
    names = ["nodes", "ppn", "msize_bytes", "algorithm", "parameters", "launch", "time_s"]
    return pd.DataFrame(rows, columns=names)


def test_the_two_kinds_of_noise_are_told_apart() -> None:
    """What launches do to all configurations is not taken for what they do to one."""
    noise = launch_noise(measured(0.3, 0.05))
    assert noise.common == pytest.approx(0.3, rel=0.3)
    assert noise.own == pytest.approx(0.05, rel=0.15)
    assert noise.of_gain == pytest.approx(np.sqrt(2) * noise.own)
    assert noise.launches == 6


def test_one_launch_tells_nothing() -> None:
    """Without a cell measured twice, or without cells, no noise is claimed."""
    assert launch_noise(measured(0.3, 0.05, launches=1)) == UNKNOWN
    assert launch_noise(measured(0.3, 0.05).iloc[:0]) == UNKNOWN


def test_intervals_are_widened_by_what_the_median_hides() -> None:
    """The interval of one more launch is wider than the errors of medians over launches."""
    errors = np.random.default_rng(0).normal(0, 0.1, (200, 2))
    narrow = ErrorModel.of(np.exp(errors), np.ones((200, 2)), 0)
    wide = ErrorModel.of(np.exp(errors), np.ones((200, 2)), 0, LaunchNoise(0.2, 0.03, 4.0))
    assert (wide.upper > 1.5 * narrow.upper).all()
    assert (wide.lower < 1.5 * narrow.lower).all()
    assert narrow.noise == 0.01
    assert wide.noise == pytest.approx(0.03 * np.sqrt(2 / 10))
