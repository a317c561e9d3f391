"""The nearest-neighbour predictor."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from colltune.models.learners.knn import Neighbours

RNG = np.random.default_rng(3)


def test_agrees_with_scikit_learn() -> None:
    """Without ties, predictions are those of scikit-learn's regressor on scaled inputs."""
    points, times = RNG.normal(size=(60, 3)) * [5, 1, 2], RNG.lognormal(-9, 1, 60)
    queries = RNG.normal(size=(200, 3)) * [5, 1, 2]
    scaler = StandardScaler().fit(points)
    reference = KNeighborsRegressor(5).fit(scaler.transform(points), np.log(times))
    distances = reference.kneighbors(scaler.transform(queries), 6)[0] ** 2
    clear = distances[:, 5] > 1.06 * distances[:, 4]
    got = Neighbours.fit(points, times, 5).predict(queries)[:, 0]
    expected = np.exp(reference.predict(scaler.transform(queries)))
    assert clear.sum() > 50
    np.testing.assert_allclose(got[clear], expected[clear], rtol=1e-11)


def test_all_points_that_tie_with_the_last_count() -> None:
    """With K = 1 half-way between two points, both are averaged, geometrically."""
    predictor = Neighbours.fit(np.array([[0.0], [2.0], [9.0]]), np.array([1.0, 4.0, 99.0]), 1)
    np.testing.assert_allclose(predictor.predict(np.array([[1.0], [9.0]]))[:, 0], [2.0, 99.0])


def test_fewer_points_than_k_are_all_used() -> None:
    """With three points and K = 5 the prediction is the geometric mean of all three."""
    predictor = Neighbours.fit(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 4.0]), 5)
    np.testing.assert_allclose(predictor.predict(np.array([[7.0]])), [[2.0]])


def test_configurations_measured_alike_share_one_site() -> None:
    """Stacking keeps one copy of equal points, and one more for points that differ."""
    points, other = np.arange(8.0)[:, None], np.arange(9.0)[:, None]
    singles = [Neighbours.fit(p, RNG.lognormal(size=len(p)), 2) for p in (points, other, points)]
    assert sorted(len(s.outputs) for s in Neighbours.stacked(singles).sites) == [1, 2]


def test_long_batches_are_predicted_in_parts() -> None:
    """A batch beyond the memory limit gives the rows that it gives one by one."""
    points = RNG.normal(size=(1500, 2))
    predictor = Neighbours.fit(points, RNG.lognormal(size=1500), 5)
    queries = RNG.normal(size=(3000, 2))
    batch = predictor.predict(queries)
    np.testing.assert_allclose(batch[::500], predictor.predict(queries[::500]), rtol=1e-12)
