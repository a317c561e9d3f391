"""Additive natural cubic splines."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from colltune.models.predictors.splines import Curve, NaturalSplines

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("n", [2, 3, 4, 17])
def test_agrees_with_scipy_and_goes_on_straight(n: int) -> None:
    """Between the knots the curve is scipy's natural spline, beyond them its tangent."""
    knots, values = np.sort(RNG.uniform(-3, 9, n)), RNG.normal(size=n)
    reference = CubicSpline(knots, values, bc_type="natural")
    curve = Curve(knots, values, reference(knots, 2))
    inside = np.linspace(knots[0], knots[-1], 101)
    np.testing.assert_allclose(curve.at(inside), reference(inside), rtol=1e-10, atol=1e-12)
    for edge, step in ((knots[0], -2.5), (knots[-1], 2.5)):
        expected = reference(edge) + step * reference(edge, 1)
        np.testing.assert_allclose(curve.at(np.array([edge + step])), [expected], rtol=1e-9)


def test_curves_of_any_length_survive_stacking_and_arrays() -> None:
    """Outputs with different knots, or none, predict after a round trip what each does alone."""
    curves = [
        CubicSpline(k := np.sort(RNG.uniform(0, 9, n)), k**0.5, bc_type="natural") for n in (2, 5)
    ]
    parts = [
        NaturalSplines(np.array([0.5]), np.array([[0, len(c.x)]]), c.x, c(c.x), c(c.x, 2))
        for c in curves
    ]
    empty = np.zeros(0)
    parts.append(NaturalSplines(np.array([-3.0]), np.zeros((1, 2), np.int64), empty, empty, empty))
    stacked = NaturalSplines.from_arrays(NaturalSplines.stacked(parts).arrays())
    points = RNG.uniform(-5, 15, (50, 2))
    expected = np.column_stack([part.predict(points)[:, 0] for part in parts])
    np.testing.assert_array_equal(stacked.predict(points), expected)
    np.testing.assert_allclose(expected[:, 2], np.exp(-3.0))


def test_far_extrapolation_stays_finite() -> None:
    """However far away, times are positive numbers."""
    steep = NaturalSplines(
        np.zeros(1), np.array([[2]]), np.array([0.0, 1.0]), np.array([0.0, 50.0]), np.zeros(2)
    )
    predicted = steep.predict(np.array([[1e9], [-1e9]]))
    assert np.isfinite(predicted).all()
    assert (predicted > 0).all()
