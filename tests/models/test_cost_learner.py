"""The cost model as a learner, and its parameters: noise, outliers and too little data."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.domain import Collective, Configuration
from colltune.features import FEATURE_SETS, feature_set
from colltune.models.costs.families import configuration_amounts
from colltune.models.costs.network import (
    COEFFICIENTS,
    Coefficient,
    Instances,
    Link,
    NetworkParameters,
)
from colltune.models.learners import LEARNERS, Predictor, predictor_class
from colltune.models.learners.cost_model import LEAST_S, Costs, ParameterPrior, fit_parameters

Numbers = np.typing.NDArray[np.float64]
NETWORK = NetworkParameters(
    Link(5e-7, 8e-11), Link(2e-6, 1e-10), reduction_s_per_byte=2e-10, contention=0.3
)
ALGORITHMS = ("recursive_doubling", "ring", "rabenseifner")
CONFIGURATIONS = tuple(Configuration("openmpi", Collective.ALLREDUCE, a) for a in ALGORITHMS)


def _grid(nodes: tuple[int, ...]) -> Numbers:
    cells = [(m, n, p) for n in nodes for p in (1, 4, 16) for m in (8, 1024, 65536, 4194304)]
    return np.array(cells, np.float64)


def _times(instances: Numbers, noise: float = 0.0) -> Numbers:
    rng = np.random.default_rng(1)
    msize, nodes, ppn = instances.T
    at = Instances.of(nodes, ppn, msize)
    exact = np.column_stack(
        [configuration_amounts(c, at) @ NETWORK.vector() for c in CONFIGURATIONS]
    )
    return np.asarray((exact + 1e-7) * rng.lognormal(0, noise, exact.shape))


def _features(name: str, instances: Numbers) -> Numbers:
    msize, nodes, ppn = instances.T
    return FEATURE_SETS[name].matrix(nodes, ppn, msize)


def _fitted(features: str, inputs: Numbers, times_s: Numbers) -> Predictor:
    columns = feature_set(features).columns
    return LEARNERS["cost_model"].fit(inputs, times_s, CONFIGURATIONS, columns)


def test_extrapolates_a_machine_that_follows_the_formulas() -> None:
    """Fitted to up to 8 nodes, 512 nodes are predicted to 10 %, from whatever features."""
    training, test = _grid((2, 3, 4, 6, 8)), _grid((100, 512))
    for features in FEATURE_SETS:
        learned = _fitted(features, _features(features, training), _times(training, 0.02))
        predicted = learned.predict(_features(features, test))
        assert np.abs(np.log(predicted / _times(test))).max() < 0.1, features


def test_gaps_slow_cells_and_a_round_trip() -> None:
    """Fitted with cells missing and slow ones, the rebuilt predictor predicts the same numbers."""
    instances = _grid((2, 4, 8, 16))
    times = _times(instances, 0.05)
    times[::7, 0] = np.nan
    times[instances[:, 0] > 1e6, 1] = np.inf
    features = _features("rich", instances)
    exported = _fitted("rich", features, times)
    rebuilt = predictor_class(exported.kind).from_arrays(exported.arrays())
    predicted = exported.predict(features)
    np.testing.assert_array_equal(rebuilt.predict(features), predicted)
    assert (predicted > 0).all()
    assert np.isfinite(predicted).all()
    stacked = type(exported).stacked([exported, exported])
    np.testing.assert_array_equal(stacked.predict(features), np.tile(predicted, 2))


def test_impossible_data_is_an_error_that_names_the_configuration() -> None:
    """A time of 0 and a configuration without a time are told, not fitted."""
    instances = _grid((2, 4))
    features, times = _features("basic", instances), _times(instances)
    for wrong in (0.0, np.nan):
        broken = times.copy()
        broken[:, 1] = wrong
        with pytest.raises(ValueError, match=r"openmpi\.allreduce\.ring"):
            _fitted("basic", features, broken)


def test_features_without_nodes_are_an_error() -> None:
    """A cost model says which feature it misses."""
    told = CONFIGURATIONS[:1], ("msize_bytes", "ppn")
    with pytest.raises(ValueError, match="needs nodes among the features, not msize_bytes, ppn"):
        LEARNERS["cost_model"].fit(np.ones((3, 2)), np.ones((3, 1)), *told)


def test_parameters_of_other_formulas_are_refused() -> None:
    """A bundle fitted with another version of the formulas has to be fitted again."""
    predictor = Costs(CONFIGURATIONS[:1], feature_set("basic").columns, np.ones((1, 10)))
    arrays = predictor.arrays() | {"formulas_version": np.array([0])}
    with pytest.raises(ValueError, match="Fit again"):
        Costs.from_arrays(arrays)


def test_what_was_never_paid_for_still_takes_time() -> None:
    """Where no fitted part has a cost, as between nodes after one alone, times are not zero."""
    columns = feature_set("basic").columns
    free = Costs(CONFIGURATIONS[:1], columns, np.zeros((1, 10)))
    assert (free.predict(np.full((3, len(columns)), 4.0)) == LEAST_S).all()


GRID = np.array(
    [(n, p, m) for n in (1, 2, 4, 8, 16) for p in (1, 4, 16) for m in 4 ** np.arange(1, 12)]
)


def _amounts(algorithm: str, collective: Collective = Collective.ALLREDUCE) -> Numbers:
    configuration = Configuration("openmpi", collective, algorithm)
    amounts = configuration_amounts(configuration, Instances.of(*GRID.T))
    amounts[:, COEFFICIENTS.index(Coefficient.SETUP)] = 0.0
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


def test_a_prior_decides_where_one_point_cannot() -> None:
    """A single time fits the believed parameters' proportions, much data overrules them."""
    amounts = _amounts("recursive_doubling")
    exact = amounts @ NETWORK.vector()
    slower = NETWORK.vector() * 2
    believed = fit_parameters(amounts[:1], exact[:1] * 2, ParameterPrior(NETWORK.vector(), 0.01))
    np.testing.assert_allclose(amounts[:1] @ believed, exact[:1] * 2, rtol=0.05)
    overruled = fit_parameters(amounts, amounts @ slower, ParameterPrior(NETWORK.vector(), 1.0))
    np.testing.assert_allclose(amounts @ overruled, amounts @ slower, rtol=0.05)
