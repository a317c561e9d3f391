"""What learners share: positive runtimes in, one exported numpy predictor out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from colltune.models.predictors import Predictor

Numbers = NDArray[np.float64]
_LEAST_SLOWNESS = 1.0


def validated(learner: object, X: ArrayLike, y: ArrayLike) -> tuple[Numbers, Numbers]:
    """Return features (n, k) and times (n) as float64, as scikit-learn's contract asks."""
    features, times = validate_data(learner, X, y, dtype=np.float64, y_numeric=True)
    times = np.asarray(times, np.float64)
    if not (times > 0).all():
        raise ValueError(
            f"{type(learner).__name__} needs positive runtimes, but the smallest one is "
            f"{times.min():g}"
        )
    return features, times


class RuntimeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the learners: ``fit`` of a subclass leaves its predictor in ``predictor_``."""

    predictor_: Predictor

    def predict(self, X: ArrayLike) -> Numbers:
        """Return times (n) for features `X` (n, k)."""
        return self._predicted(X)[:, 0]

    def _predicted(self, X: ArrayLike) -> Numbers:
        check_is_fitted(self)
        features: Numbers = validate_data(self, X, dtype=np.float64, reset=False)
        return self.predictor_.predict(features)

    def export(self) -> Predictor:
        """Return the numpy predictor that `predict` itself uses."""
        check_is_fitted(self)
        return self.predictor_

    def __sklearn_tags__(self) -> Tags:
        """Declare that targets are positive."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class JointRegressor(RuntimeRegressor):
    """Base of learners whose times have the shape (n, C), or (n) for a single configuration."""

    n_dim_: int

    def predict(self, X: ArrayLike) -> Numbers:
        """Return times for features `X` (n, k), of the shape that those fitted to had."""
        predicted = self._predicted(X)
        return predicted[:, 0] if self.n_dim_ < 2 else predicted

    def __sklearn_tags__(self) -> Tags:
        """Declare that several configurations can be fitted at once."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[Numbers, Numbers]:
        """Return features (n, k) and times (n, C), NaN where unknown and infinite where slow."""
        given = np.asarray(y)
        self.n_dim_ = given.ndim
        if self.n_dim_ < 2:
            features, times = validated(self, X, y)
            return features, times[:, None]
        features = validate_data(self, X, dtype=np.float64)
        times = check_array(given, dtype=np.float64, ensure_all_finite=False, input_name="y")
        if len(times) != len(features):
            raise ValueError(f"{len(features)} instances have {len(times)} rows of times")
        if (times <= 0).any():
            name = type(self).__name__
            raise ValueError(f"{name} needs positive runtimes, but one is {np.nanmin(times):g}")
        untimed = np.flatnonzero(~np.isfinite(times).any(axis=0))
        if len(untimed):
            raise ValueError(f"configuration {untimed[0]} has no times")
        return features, times


def slow_guessed(times_s: Numbers) -> Numbers:
    """Return times (n, C) with a guess for those that are infinite because they are slow.

    Nobody knows how slow; the guess is the instance's best time, as often as the configuration ever
    lost against the best, and e times at least. Where nothing else is known it is NaN.
    """
    slow = np.isposinf(times_s)
    if not slow.any():
        return times_s
    logs = np.log(np.where(slow, np.nan, times_s))
    best = np.fmin.reduce(logs, axis=1, keepdims=True)
    slowness = np.fmax(np.fmax.reduce(logs - best, axis=0), _LEAST_SLOWNESS)
    return np.asarray(np.where(slow, np.exp(best + slowness), times_s))
