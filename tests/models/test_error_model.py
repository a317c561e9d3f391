"""The error of predictions, and what launches do to times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from colltune.evidence.launches import Noise
from colltune.models.error_model import UNKNOWN, ErrorModel, LaunchNoise, launch_noise

RNG = np.random.default_rng(5)


def test_quantiles_of_held_out_errors() -> None:
    """Interval and shortfall are the quantiles of the errors of time and of the ratio."""
    errors = RNG.normal(0, [0.1, 0.3], (400, 2))
    model = ErrorModel.of(np.exp(errors), np.ones((400, 2)), 0)
    np.testing.assert_allclose(model.lower, np.quantile(errors, 0.05, axis=0))
    np.testing.assert_allclose(model.upper, np.quantile(errors, 0.95, axis=0))
    ratio = np.quantile(errors[:, 0] - errors[:, 1], 0.4)
    np.testing.assert_allclose(model.shortfall, [0.0, -ratio])


def test_few_errors_are_borrowed() -> None:
    """A configuration with fewer than ten errors takes the quantiles of all together."""
    measured = np.exp(RNG.normal(0, 0.2, (50, 2)))
    measured[9:, 1] = np.nan
    model = ErrorModel.of(measured, np.ones((50, 2)), None)
    everything = np.log(measured[np.isfinite(measured)])
    assert model.upper[1] == pytest.approx(np.quantile(everything, 0.95))
    assert model.upper[0] == pytest.approx(np.quantile(np.log(measured[:, 0]), 0.95))


def test_a_default_that_is_underestimated_lowers_no_shortfall_below_zero() -> None:
    """A model that is too pessimistic about gains asks for no more than the guard does."""
    errors = np.column_stack([np.full(20, 0.5), np.zeros(20)])
    assert ErrorModel.of(np.exp(errors), np.ones((20, 2)), 0).shortfall.tolist() == [0.0, 0.0]


def test_nothing_known_is_a_wide_interval() -> None:
    """Without a single held-out error the interval is a factor of two, the shortfall a fifth."""
    unknown = np.full((3, 1), np.nan)
    model = ErrorModel.of(np.ones((3, 1)), unknown, 0)
    got = np.exp([model.lower[0], model.upper[0]])
    np.testing.assert_allclose(got, [0.5, 2.0])
    two = ErrorModel.of(np.ones((3, 2)), np.full((3, 2), np.nan), 0)
    np.testing.assert_allclose(np.exp(two.shortfall), [1.0, 1.2])


def measured(common: float, own: float, launches: int = 6) -> pd.DataFrame:
    """Return times of 20 instances and 5 configurations with the given noise."""
    rng = np.random.default_rng(3)
    rows = []
    for msize in 2 ** np.arange(20):
        for launch in range(launches):
            luck = rng.normal(0, common)
            for algorithm in ("default", *"abcd"):
                time_s = 1e-6 * msize * np.exp(luck + rng.normal(0, own))
                rows.append(("bcast", 4, 1, msize, algorithm, "", str(launch), time_s))
    names = ["collective", "nodes", "ppn", "msize_bytes", "algorithm", "parameters", "launch"]
    return pd.DataFrame(rows, columns=[*names, "time_s"])


def test_the_two_kinds_of_noise_are_told_apart() -> None:
    """What launches do to all configurations is not taken for what they do to one."""
    noise = launch_noise(measured(0.3, 0.05))
    assert noise.level == pytest.approx(np.hypot(0.3, 0.05), rel=0.3)
    assert noise.ratio.sd == pytest.approx(0.05 * np.sqrt(2), rel=0.15)
    assert (noise.ratio.worth, noise.launches) == (6, 6)


def test_one_launch_tells_nothing() -> None:
    """Without a cell measured twice, or without cells, what other machines tell is all there is."""
    assert launch_noise(measured(0.3, 0.05, launches=1)) == UNKNOWN
    assert launch_noise(measured(0.3, 0.05).iloc[:0]) == UNKNOWN


def test_an_import_of_one_launch_shows_no_gain_of_three_percent() -> None:
    """Not where it was measured, and not as a mean over ten cells; its own scatter counts more."""
    quiet = measured(0.0, 0.0, launches=1)
    told = quiet.assign(time_rank_min_s=quiet["time_s"] * 0.9)
    apart = told.assign(launch=told["algorithm"])
    for noise in (launch_noise(told), launch_noise(apart)):
        assert noise.detectable / np.sqrt(10) > np.log(1.03)
    assert launch_noise(apart).ratio.sd > launch_noise(told).ratio.sd
    scattered = apart.assign(time_s=told["time_s"] * RNG.lognormal(0.0, 0.3, len(told)))
    assert launch_noise(scattered).ratio.sd > 0.2


def test_a_cell_that_is_missing_in_a_launch_does_not_make_noise() -> None:
    """Identical launches stay identical where one cell is missing in one of them."""
    data = measured(0.0, 0.0, launches=4)
    missing = data[~((data["launch"] == "2") & (data["algorithm"] == "b"))]
    assert launch_noise(missing).ratio == launch_noise(data).ratio


def test_what_other_collectives_tell_counts_where_nothing_was_repeated() -> None:
    """A collective of one launch has the launches' noise of the others."""
    others = LaunchNoise(0.2, Noise(0.04, 3.0), 3.0)
    found = launch_noise(measured(0.3, 0.05, launches=1), others)
    assert found == others._replace(launches=1.0)


def test_intervals_are_widened_by_what_the_median_hides() -> None:
    """The interval of one more launch is wider than the errors of medians over launches."""
    errors = np.random.default_rng(0).normal(0, 0.1, (200, 2))
    narrow = ErrorModel.of(np.exp(errors), np.ones((200, 2)), 0)
    noise = LaunchNoise(0.2, Noise(0.03, 5.0), 4.0)
    wide = ErrorModel.of(np.exp(errors), np.ones((200, 2)), 0, noise)
    assert (wide.upper > 1.5 * narrow.upper).all()
    assert (wide.lower < 1.5 * narrow.lower).all()
    assert wide.detectable == noise.detectable < narrow.detectable
