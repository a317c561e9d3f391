"""The error of predictions."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.models.error_model import ErrorModel

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
