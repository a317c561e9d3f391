"""K nearest neighbours with K = 5 on scaled inputs (Hunold et al., CLUSTER 2020, sec. IV-B)."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from colltune.models.predictors.neighbours import Neighbours
from colltune.models.training_data import validated, validated_features


class NearestNeighbours(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Geometric mean of the nearest measured times.

    Inputs are standardised. As in the paper's R package all points at the distance of the k-th are
    used, which on a grid of message sizes and node counts decides most predictions. The mean is
    geometric, because runtimes of neighbouring message sizes differ by factors.

    Parameters
    ----------
    n_neighbors
        K; with fewer points than that, all are used.
    """

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the measured points `X` (n, k) and their positive times `y` (n)."""
        features, times = validated(self, X, y)
        self.predictor_ = Neighbours.fit(features, times, self.n_neighbors)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return times (n) for features `X` (n, k)."""
        check_is_fitted(self)
        return self.predictor_.predict(validated_features(self, X))[:, 0]

    def export(self) -> Neighbours:
        """Return the numpy predictor that `predict` itself uses."""
        check_is_fitted(self)
        return self.predictor_

    def __sklearn_tags__(self) -> Tags:
        """Declare that targets are positive."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
