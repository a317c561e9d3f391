"""K nearest neighbours with K = 5 on scaled inputs (Hunold et al., CLUSTER 2020, sec. IV-B)."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from colltune.models.predictors.neighbours import Neighbours
from colltune.models.regressor import RuntimeRegressor, validated

_K = 5


class NearestNeighbours(RuntimeRegressor):
    """Geometric mean of the nearest measured times.

    Inputs are standardised. As in the paper's R package all points at the distance of the k-th are
    used, which on a grid of message sizes and node counts decides most predictions. The mean is
    geometric, because runtimes of neighbouring message sizes differ by factors. With fewer than
    five points all are used.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the measured points `X` (n, k) and their positive times `y` (n)."""
        features, times = validated(self, X, y)
        self.predictor_ = Neighbours.fit(features, times, _K)
        return self
