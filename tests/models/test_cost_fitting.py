"""Parameters fitted to times, with noise, outliers and too little data."""

from __future__ import annotations

import numpy as np

from colltune.domain import Collective, Configuration
from colltune.models.cost_fitting import Belief, fit_parameters
from colltune.models.cost_model import (
    COEFFICIENTS,
    Coefficient,
    Link,
    NetworkParameters,
    term_matrix,
)
from colltune.models.costs.catalogue import cost_terms

NETWORK = NetworkParameters(
    Link(5e-7, 8e-11), Link(2e-6, 1e-10), reduction_s_per_byte=2e-10, contention=0.3
)
Numbers = np.typing.NDArray[np.float64]
GRID = np.array(
    [(n, p, m) for n in (1, 2, 4, 8, 16) for p in (1, 4, 16) for m in 4 ** np.arange(1, 12)]
)


def _amounts(algorithm: str, collective: Collective = Collective.ALLREDUCE) -> Numbers:
    configuration = Configuration("openmpi", collective, algorithm)
    amounts = term_matrix(*cost_terms(configuration, *GRID.T))
    return amounts[amounts.any(axis=1)]


def test_parameters_are_recovered_without_noise() -> None:
    """Times made by the formula give back every parameter that the algorithms use."""
    amounts = np.concatenate([_amounts("recursive_doubling"), _amounts("rabenseifner")])
    fitted = fit_parameters(amounts, amounts @ NETWORK.vector())
    used = amounts.any(axis=0)
    np.testing.assert_allclose(fitted[used], NETWORK.vector()[used], rtol=1e-3)
    assert not fitted[~used].any()


def test_parameters_are_recovered_from_noise_and_outliers() -> None:
    """With 10 % noise and every tenth time 1000 times too long, predictions are right to 10 %."""
    rng = np.random.default_rng(0)
    amounts = np.concatenate([_amounts("recursive_doubling"), _amounts("ring")])
    exact = amounts @ NETWORK.vector()
    times = exact * rng.lognormal(0, 0.1, len(exact))
    times[rng.random(len(times)) < 0.1] *= 1000
    error = np.log(amounts @ fit_parameters(amounts, times) / exact)
    assert np.abs(error).max() < 0.15
    latency = COEFFICIENTS.index(Coefficient.INTER_LATENCY)
    np.testing.assert_allclose(fit_parameters(amounts, times)[latency], 2e-6, rtol=0.1)


def test_a_time_that_is_far_too_short_does_not_decide() -> None:
    """One time of a thousandth among many right ones changes predictions by less than 5 %."""
    amounts = np.concatenate([_amounts("recursive_doubling"), _amounts("ring")])
    exact = amounts @ NETWORK.vector()
    times = exact.copy()
    times[len(times) // 2] /= 1000
    assert np.abs(np.log(amounts @ fit_parameters(amounts, times) / exact)).max() < 0.05


def test_parameters_are_never_negative() -> None:
    """Even times that fall with the message size give no negative price."""
    amounts = _amounts("ring")
    fitted = fit_parameters(amounts, 1.0 / np.arange(1.0, len(amounts) + 1.0))
    assert (fitted >= 0).all()
    assert np.isfinite(fitted).all()


def test_a_belief_decides_where_one_point_cannot() -> None:
    """A single time fits the believed parameters' proportions, much data overrules them."""
    amounts = _amounts("recursive_doubling")
    exact = amounts @ NETWORK.vector()
    slower = NETWORK.vector() * 2
    believed = fit_parameters(amounts[:1], exact[:1] * 2, Belief(NETWORK.vector(), 0.01))
    np.testing.assert_allclose(amounts[:1] @ believed, exact[:1] * 2, rtol=0.05)
    overruled = fit_parameters(amounts, amounts @ slower, Belief(NETWORK.vector(), 1.0))
    np.testing.assert_allclose(amounts @ overruled, amounts @ slower, rtol=0.05)
