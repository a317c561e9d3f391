"""What every entry of LEARNERS must keep to."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from colltune.domain import Collective, Configuration
from colltune.features import FEATURE_SETS
from colltune.models.bundle_schema import check_predictor
from colltune.models.estimator import RuntimeRegressor
from colltune.models.learners import LEARNERS, PREDICTORS, Predictor, predictor_class

Numbers = np.typing.NDArray[np.float64]
USABLE = [name for name, e in LEARNERS.items() if e.program is None or shutil.which(e.program)]
ALL = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(name not in USABLE, reason=f"{entry.program} is not on PATH"),
    )
    for name, entry in LEARNERS.items()
]
ENTRIES = list(zip(ALL, LEARNERS.values(), strict=True))
JOINT = [param for param, entry in ENTRIES if entry.joint and not entry.informed]
SINGLE = [param for param, entry in ENTRIES if not entry.joint]


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


def _joint_sample(seed: int, n: int = 120) -> tuple[Numbers, Numbers]:
    """Return features and times of three configurations, the second and third less steep."""
    features, times = _sample(seed, n)
    factors = np.exp2(np.outer(features[:, 0], [0.0, -0.1, -0.2]) + np.array([-1.0, 0.0, 1.0]))
    return features, times[:, None] * factors


def _fitted(name: str, features: Numbers, times: Numbers) -> Predictor:
    """Fit one learner, which is told what some configurations of an MPI library are."""
    count = times.shape[1] if times.ndim > 1 else 1
    told = [Configuration("openmpi", Collective.BCAST, a) for a in ("default", "binomial", "chain")]
    return LEARNERS[name].fit(features, times, told[:count], FEATURE_SETS["log"].columns)


def _estimators(*, programs: bool) -> list[RuntimeRegressor]:
    """Return those whose learner starts a program for every fit, or none; no informed ones."""
    entries = ((name, LEARNERS[name]) for name in USABLE)
    named = [n for n, e in entries if not e.informed and (e.program is not None) == programs]
    return [RuntimeRegressor(name) for name in named]


NEGATIVE = {"check_regressor_multioutput": "its targets are negative"}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    _estimators(programs=False), expected_failed_checks=lambda _: NEGATIVE
)
def test_keeps_scikit_learns_contract(estimator: object, check: Callable[[object], None]) -> None:
    """Every learner passes scikit-learn's own checks of an estimator."""
    check(estimator)


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("COLLTUNE_TEST_R"), reason="minutes of R; set COLLTUNE_TEST_R to try it"
)
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    _estimators(programs=True), expected_failed_checks=lambda _: NEGATIVE
)
def test_learners_by_other_programs_keep_it_too(
    estimator: object, check: Callable[[object], None]
) -> None:
    """Learners that start a program for every fit pass the same checks."""
    check(estimator)


@pytest.mark.parametrize("name", SINGLE)
def test_an_estimator_of_several_configurations_is_one_of_each(name: str) -> None:
    """A learner of single configurations learns each of them from where it was timed."""
    features, times = _joint_sample(14, 40)
    times[3, 1] = np.nan
    together = RuntimeRegressor(name).fit(features, times).predict(features)
    known = np.isfinite(times[:, 1])
    alone = RuntimeRegressor(name).fit(features[known], times[known, 1]).predict(features)
    np.testing.assert_array_equal(together[:, 1], alone)


@pytest.mark.parametrize("name", ALL)
def test_beats_the_trivial_baseline(name: str) -> None:
    """On held-out points every learner's error in log time is below half of the mean's."""
    features, times = _sample(0)
    predicted = _fitted(name, features[:90], times[:90]).predict(features[90:])[:, 0]
    error = np.abs(np.log(predicted / times[90:])).mean()
    trivial = np.abs(np.log(times[90:]) - np.log(times[:90]).mean()).mean()
    assert error < 0.5 * trivial


@pytest.mark.parametrize("name", ALL)
def test_export_predicts_the_same_after_a_round_trip(name: str) -> None:
    """The arrays, rebuilt, predict what was learned, hold no objects, and bundles take them."""
    features, times = _sample(1)
    learned = _fitted(name, features, times)
    arrays = learned.arrays()
    rebuilt = predictor_class(learned.kind).from_arrays(arrays)
    assert learned.kind in PREDICTORS
    assert not any(a.dtype.hasobject for a in arrays.values())
    check_predictor(type(learned), arrays, {"C": 1, "k": features.shape[1]})
    np.testing.assert_array_equal(rebuilt.predict(features), learned.predict(features))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("outputs", [1, 3])
def test_an_instance_is_predicted_alike_alone_and_among_others(name: str, outputs: int) -> None:
    """To the last bit, because else two configurations may change places with what else is asked.

    This is the one promise about last bits; which ones they are depends on the machine.
    """
    joint = LEARNERS[name].joint
    features, times = _joint_sample(12) if joint else _sample(12)
    if joint:
        exported = _fitted(name, features, times[:, :outputs])
    else:
        singles = [_fitted(name, features, times * 2.0**k) for k in range(outputs)]
        exported = predictor_class(singles[0].kind).stacked(singles)
    asked = _sample(13, 67)[0]
    alone = np.concatenate([exported.predict(row[None, :]) for row in asked])
    for layout in (asked, np.asfortranarray(asked)):
        np.testing.assert_array_equal(exported.predict(layout), alone)
    np.testing.assert_array_equal(exported.predict(asked[40:7:-3]), alone[40:7:-3])


@pytest.mark.parametrize("name", SINGLE)
def test_stacked_outputs_are_the_single_ones(name: str) -> None:
    """Predictors put side by side predict what each predicts alone."""
    samples = [_sample(2), _sample(3, 40), (_sample(2)[0], _sample(2)[1] * 2)]
    singles = [_fitted(name, features, times) for features, times in samples]
    stacked = predictor_class(singles[0].kind).stacked(singles)
    features = _sample(4)[0]
    expected = np.column_stack([single.predict(features)[:, 0] for single in singles])
    assert stacked.n_outputs == 3
    np.testing.assert_allclose(stacked.predict(features), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_fits_a_handful_of_points(name: str) -> None:
    """Even one to three measured points give a finite prediction of their magnitude."""
    for n in (1, 2, 3):
        features = np.column_stack([np.arange(n) * 3.0, np.full(n, 2.0), np.full(n, 1.0)])
        times = np.full(n, 5e-6)
        predicted = _fitted(name, features, times).predict(features)
        np.testing.assert_allclose(predicted[:, 0], times, rtol=0.02)


@pytest.mark.parametrize("name", ALL)
def test_fitting_is_deterministic(name: str) -> None:
    """The same data gives the same arrays, byte for byte."""
    features, times = _sample(5)
    first, second = (_fitted(name, features, times).arrays() for _ in range(2))
    digests = [json.dumps({k: v.tobytes().hex() for k, v in a.items()}) for a in (first, second)]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("name", JOINT)
def test_joint_learners_fit_all_configurations(name: str) -> None:
    """All outputs come in order, and for most held-out instances the fastest is the fastest."""
    features, times = _joint_sample(6)
    learner = _fitted(name, features[:90], times[:90])
    predicted = learner.predict(features[90:])
    assert learner.n_outputs == 3
    assert (predicted.argmin(axis=1) == times[90:].argmin(axis=1)).mean() > 0.8


@pytest.mark.parametrize("name", JOINT)
def test_joint_learners_round_trip_with_gaps(name: str) -> None:
    """Fitted with gaps and cells left out as slow, the rebuilt export predicts the same numbers."""
    features, times = _joint_sample(7)
    rng = np.random.default_rng(8)
    times[rng.random(times.shape) < 0.1] = np.nan
    times[features[:, 0] > 18, 2] = np.inf
    learned = _fitted(name, features, times)
    rebuilt = predictor_class(learned.kind).from_arrays(learned.arrays())
    predicted = rebuilt.predict(features)
    np.testing.assert_array_equal(predicted, learned.predict(features))
    assert np.isfinite(predicted).all()


@pytest.mark.parametrize("name", JOINT)
def test_joint_learners_do_not_choose_what_was_left_out_as_slow(name: str) -> None:
    """Where a configuration was left out because it is slow, it is never predicted fastest."""
    features, times = _joint_sample(9)
    slow = features[:, 0] > 14
    times[slow, 2] = np.inf
    predicted = _fitted(name, features, times).predict(features)
    assert (predicted[slow].argmin(axis=1) != 2).all()
    assert (predicted[~slow].argmin(axis=1) == 2).any()


@pytest.mark.parametrize("name", JOINT)
def test_joint_learners_fit_a_handful(name: str) -> None:
    """One to three instances, one cell unknown, are enough to tell fast from slow."""
    for n in (1, 2, 3):
        features = np.column_stack([np.arange(n) * 3.0, np.full(n, 2.0), np.full(n, 1.0)])
        times = np.tile([5e-6, 1e-5, 6e-6], (n, 1))
        times[0, 2] = np.nan if n > 1 else 6e-6
        predicted = _fitted(name, features, times).predict(features)
        np.testing.assert_allclose(predicted, np.tile([5e-6, 1e-5, 6e-6], (n, 1)), rtol=0.05)


@pytest.mark.parametrize("name", JOINT)
def test_joint_learners_refuse_times_that_are_none(name: str) -> None:
    """A time of zero or less is refused, and a configuration that was never measured."""
    features, times = _joint_sample(10, 20)
    for bad in (0.0, -1e-6, -np.inf):
        times[3, 1] = bad
        with pytest.raises(ValueError, match="positive"):
            _fitted(name, features, times)
    times[:, 1] = np.nan
    with pytest.raises(ValueError, match="binomial"):
        _fitted(name, features, times)
