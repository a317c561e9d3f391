"""What every entry of LEARNERS must keep to."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from colltune.features import FEATURE_SETS
from colltune.models.learners import LEARNERS
from colltune.models.predictors import PREDICTORS, predictor_class

Numbers = np.typing.NDArray[np.float64]


def _sample(seed: int, n: int = 120) -> tuple[Numbers, Numbers]:
    """Return log features of random instances and plausible times in seconds."""
    rng = np.random.default_rng(seed)
    features = np.column_stack(
        [rng.uniform(0, 22, n), rng.uniform(1, 6, n), rng.integers(0, 5, n).astype(float)]
    )
    times = (
        2e-6 * features[:, 1] + 1e-10 * np.exp2(features[:, 0]) * (1 + features[:, 2])
    ) * rng.lognormal(0, 0.05, n)
    return features, times


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [entry.create() for entry in LEARNERS.values()]
)
def test_keeps_scikit_learns_contract(estimator: object, check: Callable[[object], None]) -> None:
    """Every learner passes scikit-learn's own checks of an estimator."""
    check(estimator)


@pytest.mark.parametrize("name", LEARNERS)
def test_names_a_known_feature_set(name: str) -> None:
    """A learner's preferred feature set exists."""
    assert LEARNERS[name].feature_set in FEATURE_SETS


@pytest.mark.parametrize("name", LEARNERS)
def test_beats_the_trivial_baseline(name: str) -> None:
    """On held-out points every learner's error in log time is below half of the mean's."""
    features, times = _sample(0)
    predicted = LEARNERS[name].create().fit(features[:90], times[:90]).predict(features[90:])
    error = np.abs(np.log(predicted / times[90:])).mean()
    trivial = np.abs(np.log(times[90:]) - np.log(times[:90]).mean()).mean()
    assert error < 0.5 * trivial


@pytest.mark.parametrize("name", LEARNERS)
def test_export_predicts_the_same_after_a_round_trip(name: str) -> None:
    """The exported arrays, rebuilt, predict what the learner does, and hold no objects."""
    features, times = _sample(1)
    learner = LEARNERS[name].create().fit(features, times)
    exported = learner.export()
    arrays = exported.arrays()
    rebuilt = predictor_class(exported.kind).from_arrays(arrays)
    assert exported.kind in PREDICTORS
    assert not any(a.dtype.hasobject for a in arrays.values())
    np.testing.assert_array_equal(rebuilt.predict(features)[:, 0], learner.predict(features))


@pytest.mark.parametrize("name", LEARNERS)
def test_stacked_outputs_are_the_single_ones(name: str) -> None:
    """Predictors put side by side predict what each predicts alone."""
    samples = [_sample(2), _sample(3, 40), (_sample(2)[0], _sample(2)[1] * 2)]
    singles = [LEARNERS[name].create().fit(features, times).export() for features, times in samples]
    stacked = predictor_class(singles[0].kind).stacked(singles)
    features = _sample(4)[0]
    expected = np.column_stack([single.predict(features)[:, 0] for single in singles])
    assert stacked.n_outputs == 3
    np.testing.assert_allclose(stacked.predict(features), expected, rtol=1e-12)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_fits_a_handful_of_points(name: str, n: int) -> None:
    """Even one to three measured points give a finite prediction of their magnitude."""
    features = np.column_stack([np.arange(n) * 3.0, np.full(n, 2.0), np.full(n, 1.0)])
    times = np.full(n, 5e-6)
    predicted = LEARNERS[name].create().fit(features, times).predict(features)
    np.testing.assert_allclose(predicted, times, rtol=0.02)


@pytest.mark.parametrize("name", LEARNERS)
def test_fitting_is_deterministic(name: str) -> None:
    """The same data gives the same arrays, byte for byte."""
    features, times = _sample(5)
    first, second = (
        LEARNERS[name].create().fit(features, times).export().arrays() for _ in range(2)
    )
    digests = [json.dumps({k: v.tobytes().hex() for k, v in a.items()}) for a in (first, second)]
    assert digests[0] == digests[1]
