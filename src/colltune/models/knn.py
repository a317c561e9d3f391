"""K nearest neighbours with K = 5 on scaled inputs (Hunold et al., CLUSTER 2020, sec. IV-B)."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from colltune.models.predictors.neighbours import Neighbours
from colltune.models.regressor import RuntimeRegressor, validated


class NearestNeighbours(RuntimeRegressor):
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
