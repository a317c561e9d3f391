"""What all learners share: positive runtimes in, one exported numpy predictor out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from colltune.models.predictors import Predictor

Numbers = NDArray[np.float64]


def validated(learner: object, X: ArrayLike, y: ArrayLike) -> tuple[Numbers, Numbers]:
    """Return features (n, k) and times (n) as float64, as scikit-learn's contract asks.

    Raises
    ------
    ValueError
        If a value is missing or infinite, lengths differ, or a time is not positive.
    """
    features, times = validate_data(learner, X, y, dtype=np.float64, y_numeric=True)
    times = np.asarray(times, np.float64)
    if not (times > 0).all():
        raise ValueError(
            f"{type(learner).__name__} models runtimes, which are positive;"
            f" the smallest given is {times.min()}"
        )
    return features, times


class RuntimeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the learners: ``fit`` of a subclass leaves its predictor in ``predictor_``."""

    predictor_: Predictor

    def predict(self, X: ArrayLike) -> Numbers:
        """Return times (n) for features `X` (n, k)."""
        check_is_fitted(self)
        features: Numbers = validate_data(self, X, dtype=np.float64, reset=False)
        return self.predictor_.predict(features)[:, 0]

    def export(self) -> Predictor:
        """Return the numpy predictor that `predict` itself uses."""
        check_is_fitted(self)
        return self.predictor_

    def __sklearn_tags__(self) -> Tags:
        """Declare that targets are positive."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
