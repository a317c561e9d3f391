"""Gaussian processes on log times, one kernel for all configurations."""

from __future__ import annotations

import numpy as np

from colltune.features import feature_set
from colltune.models.gaussian_process import GaussianProcess
from colltune.models.predictors.processes import Processes
from colltune.models.shared_process import Inputs, SharedProcess

Numbers = np.typing.NDArray[np.float64]
_RICH = feature_set("rich")
_NAMES = ("log2_msize", "log2_nprocs", "nprocs_is_power_of_two")


def _features(n: int, seed: int = 0) -> Numbers:
    """Return the rich features of random instances."""
    rng = np.random.default_rng(seed)
    nodes, ppn = rng.integers(1, 40, n), rng.choice([1, 2, 4, 8], n)
    return _RICH.matrix(nodes, ppn, np.exp2(rng.integers(0, 22, n)))


def _times(features: Numbers, noise: float = 0.0) -> Numbers:
    """Return times (n, 2): linear in processes and message, and with a step at powers of two."""
    rng = np.random.default_rng(1)
    size, nprocs, is_power = (features[:, _RICH.columns.index(name)] for name in _NAMES)
    latency = 1e-6 * np.exp2(0.7 * nprocs) + 1e-10 * np.exp2(size)
    stepped = 1e-5 + 2e-10 * np.exp2(size) * (2.0 - is_power)
    return np.asarray(
        np.column_stack([latency, stepped]) * rng.lognormal(0, noise, (len(features), 2))
    )


def test_predicts_smooth_times_and_steps_at_powers_of_two() -> None:
    """Trained on 300 noisy instances, the median error at fresh ones is within 10 %."""
    features, new = _features(300), _features(200, seed=2)
    predicted = GaussianProcess().fit(features, _times(features, 0.03)).predict(new)
    errors = np.abs(np.log(predicted / _times(new)))
    assert np.median(errors, axis=0).max() < 0.1


def test_is_the_posterior_mean_of_the_chosen_kernel() -> None:
    """Each column of the exported predictor is the process that `level` gives for it alone."""
    features = _features(60)
    log_times = np.log(_times(features, 0.05))
    process = SharedProcess(Inputs.of(features, [0, 1, 2, 9]), np.array([1.2, 0.5, 3.0, 1.2]), 0.03)
    means = process.means(log_times, 1000, np.random.default_rng(0))
    for column in range(2):
        level = process.level(log_times[:, column], 1000, np.random.default_rng(0))
        found = np.log(means.predict(features)[:, column])
        np.testing.assert_allclose(found, level.log_time(features), rtol=1e-9)


def test_unknown_cells_change_only_their_own_configuration() -> None:
    """Under one kernel, gaps in one configuration leave the prediction of another as it was."""
    features = _features(80)
    log_times = np.log(_times(features, 0.05))
    gaps = log_times.copy()
    gaps[::3, 0] = np.nan
    process = SharedProcess(Inputs.of(features, [0, 1, 2]), np.array([1.2, 1.2, 1.2]), 0.1)
    whole, part = (process.means(t, 999, np.random.default_rng(0)) for t in (log_times, gaps))
    assert [len(site.points) for site in part.sites] in ([80, 53], [53, 80])
    new = _features(20, seed=5)
    np.testing.assert_allclose(part.predict(new)[:, 1], whole.predict(new)[:, 1], rtol=1e-10)
    assert not np.allclose(part.predict(new)[:, 0], whole.predict(new)[:, 0], rtol=1e-10)


def test_repeated_measurements_are_averaged_not_followed() -> None:
    """The noise floor keeps two times at one point from being both interpolated."""
    features = np.repeat(_features(30), 2, axis=0)
    times = _times(features)[:, 0] * np.tile([0.8, 1.25], 30)
    predicted = GaussianProcess().fit(features, times).predict(features)
    np.testing.assert_allclose(predicted[::2], predicted[1::2], rtol=1e-12)
    assert np.abs(np.log(predicted / _times(features)[:, 0])).mean() < 0.1


def test_cost_is_bounded_for_thousands_of_rows() -> None:
    """Of 3000 rows no more than the given number of points is kept, and errors stay small."""
    features = _features(3000)
    learner = GaussianProcess(most_points=300).fit(features, _times(features, 0.05))
    (site,) = learner.predictor_.sites
    assert site.weights.shape == (300, 2)
    error = np.abs(np.log(learner.predict(features) / _times(features)))
    assert np.median(error) < 0.1


def test_sites_survive_stacking_and_arrays() -> None:
    """Predictors over different features and points predict after a round trip as before."""
    features, few = _features(40), _features(10, seed=3)
    singles = [
        GaussianProcess().fit(features, _times(features)).predictor_,
        GaussianProcess().fit(few, _times(few)[:, 1]).predictor_,
        GaussianProcess().fit(few[:1], [5e-6]).predictor_,
    ]
    stacked = Processes.stacked(singles)
    rebuilt = Processes.from_arrays(stacked.arrays())
    expected = np.column_stack([single.predict(features) for single in singles])
    assert rebuilt.n_outputs == 4
    np.testing.assert_array_equal(rebuilt.predict(features), expected)


def test_a_prediction_does_not_depend_on_its_company() -> None:
    """One instance alone and among others is predicted the same, to the last bit."""
    features = _features(150)
    exported = GaussianProcess().fit(features, _times(features, 0.1)).predictor_
    alone = np.concatenate([exported.predict(features[k : k + 1]) for k in range(10)])
    np.testing.assert_array_equal(exported.predict(features)[:10], alone)
