"""Log-log interpolation."""

from __future__ import annotations

import numpy as np

from colltune.models.interpolation import LogLogInterpolation

Numbers = np.typing.NDArray[np.float64]
SIZES, NODES, PPN = np.arange(0.0, 21.0, 2.0), np.array([1.0, 2.0, 3.5, 5.0]), np.array([0.0, 2.0])


def _grid() -> Numbers:
    """Return log2 of message size, nodes and ppn of a complete grid, rows in a mixed order."""
    columns = [c.ravel() for c in np.meshgrid(SIZES, NODES, PPN, indexing="ij")]
    return np.random.default_rng(0).permutation(np.column_stack(columns))


def _kinked(points: Numbers) -> Numbers:
    """Return times whose logarithm is linear between the grid's points and bent at them."""
    return np.asarray(np.exp(np.interp(points[:, 0], SIZES, SIZES**1.5) - 0.3 * points[:, 1] - 12))


def _affine(points: Numbers) -> Numbers:
    return np.asarray(np.exp(0.5 * points[:, 0] + 0.3 * points[:, 1] - 0.2 * points[:, 2] - 12))


def test_goes_through_the_measured_points_and_straight_between_them() -> None:
    """On the complete grid the times are the measured ones, and linear in log-log in between."""
    points = _grid()
    learner = LogLogInterpolation().fit(points, _kinked(points))
    between = np.random.default_rng(1).uniform([0, 1, 0], [20, 5, 2], (200, 3))
    np.testing.assert_allclose(learner.predict(points), _kinked(points), rtol=1e-12)
    np.testing.assert_allclose(learner.predict(between), _kinked(between), rtol=1e-12)


def test_missing_cells_are_filled_without_touching_the_measured_ones() -> None:
    """With half of the cells gone, measured ones stay, and a power law is filled to 2 %."""
    points = _grid()
    known = np.random.default_rng(2).uniform(size=len(points)) < 0.5
    learner = LogLogInterpolation().fit(points[known], _affine(points[known]))
    np.testing.assert_allclose(learner.predict(points[known]), _affine(points[known]), rtol=1e-9)
    np.testing.assert_allclose(learner.predict(points[~known]), _affine(points[~known]), rtol=0.02)


def test_a_shape_apart_takes_the_slopes_of_the_others() -> None:
    """One shape on 4 ppn is enough to shift the curve over nodes known on 1 ppn."""
    points = _grid()
    known = (points[:, 2] == 0) | (points[:, 1] == 2)
    learner = LogLogInterpolation().fit(points[known], _affine(points[known]))
    np.testing.assert_allclose(learner.predict(points), _affine(points), rtol=0.02)


def test_extrapolates_straight_for_one_range_and_then_stays() -> None:
    """Beyond the grid the power law goes on for the range's width; further out it is constant."""
    points = _grid()
    learner = LogLogInterpolation().fit(points, _affine(points))
    at, end, far = (np.array([[10.0, n, 1.0]]) for n in (8.0, 9.0, 40.0))
    np.testing.assert_allclose(learner.predict(at), _affine(at), rtol=1e-9)
    np.testing.assert_array_equal(learner.predict(far), learner.predict(end))


def test_extrapolation_does_not_follow_the_noise_of_two_close_counts() -> None:
    """With 35 and 36 nodes 10 % apart by noise, 72 nodes are predicted within 25 %."""
    nodes = np.log2([4.0, 8.0, 16.0, 24.0, 32.0, 35.0, 36.0])
    points = np.column_stack([np.full(7, 10.0), nodes, np.zeros(7)])
    times = 1e-6 * np.exp2(nodes)
    times[-2:] *= [0.95, 1.05]
    learner = LogLogInterpolation().fit(points, times)
    predicted = learner.predict(np.array([[10.0, np.log2(72.0), 0.0]]))
    np.testing.assert_allclose(predicted, 72e-6, rtol=0.25)


def test_scattered_points_beyond_any_grid_are_smoothed() -> None:
    """Thousands of points on no grid at all keep the arrays small and the errors near the noise."""
    rng = np.random.default_rng(3)
    points = rng.uniform([0, 1, 0], [22, 8, 6], (3000, 3))
    learner = LogLogInterpolation().fit(points, _affine(points) * rng.lognormal(0, 0.05, 3000))
    fresh = rng.uniform([1, 1.5, 0.5], [21, 7.5, 5.5], (500, 3))
    assert learner.surface.size < 10_000
    assert np.abs(np.log(learner.predict(fresh) / _affine(fresh))).mean() < 0.05


def test_repeated_points_are_averaged_geometrically() -> None:
    """Two times at one point give their geometric mean."""
    learner = LogLogInterpolation().fit(np.array([[3.0, 1.0, 0.0]] * 2), np.array([1e-6, 4e-6]))
    np.testing.assert_allclose(learner.predict(np.array([[3.0, 1.0, 0.0]])), [2e-6])
