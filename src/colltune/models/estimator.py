"""Every learner as an estimator of scikit-learn, for pipelines, searches and notebooks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from colltune.domain import Configuration
from colltune.models.learners import AUTO, Predictor, learner_entry

Numbers = NDArray[np.float64]


class RuntimeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A learner behind scikit-learn's contract; `fit` of a bundle does not need it.

    Parameters
    ----------
    learner
        A name of ``LEARNERS``, or ``auto``.
    configurations, columns
        What an informed learner is told: the configurations of the times' columns, and the names of
        the features.

    Attributes
    ----------
    predictor_
        The numpy predictor that was learned, which bundles keep.
    """

    predictor_: Predictor
    n_dim_: int

    def __init__(
        self,
        learner: str = AUTO,
        configurations: Sequence[Configuration] = (),
        columns: Sequence[str] = (),
    ) -> None:
        self.learner = learner
        self.configurations = configurations
        self.columns = columns

    def fit(self, X: ArrayLike, y: ArrayLike) -> RuntimeRegressor:
        """Learn features `X` (n, k) and seconds `y`, (n), or (n, C) of C configurations.

        Of several configurations a time may be NaN where it is unknown, and infinite where it was
        left out because it is slow.

        Raises
        ------
        ValueError
            If a time is not positive, or nothing can be learned.
        """
        self.n_dim_ = np.asarray(y).ndim
        if self.n_dim_ < 2:
            features, times_s = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
            times_s = np.asarray(times_s, np.float64)
        else:
            features = validate_data(self, X, dtype=np.float64)
            times_s = check_array(y, dtype=np.float64, ensure_all_finite=False, input_name="y")
            if len(times_s) != len(features):
                raise ValueError(f"{len(features)} instances have {len(times_s)} rows of times")
        told = (tuple(self.configurations), tuple(self.columns))
        columns_s = times_s.reshape(len(features), -1)
        found, reasons = learner_entry(self.learner).fit_all(features, columns_s, *told)
        if found is None or reasons:
            raise ValueError("; ".join(reasons.values()))
        self.predictor_ = found
        return self

    def predict(self, X: ArrayLike) -> Numbers:
        """Return seconds for features `X` (n, k), of the shape that those learned had."""
        check_is_fitted(self)
        features: Numbers = validate_data(self, X, dtype=np.float64, reset=False)
        predicted = self.predictor_.predict(features)
        return predicted[:, 0] if self.n_dim_ < 2 else predicted

    def __sklearn_tags__(self) -> Tags:
        """Declare that targets are positive, and may be several."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.target_tags.multi_output = True
        return tags
