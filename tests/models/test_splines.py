"""The spline predictors against pygam and scipy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygam.utils import b_spline_basis
from scipy.interpolate import CubicSpline

from colltune.models.learners import gam
from colltune.models.learners.gam import Splines
from colltune.models.learners.mgcv import NaturalSplines, natural_spline


@settings(max_examples=50)
@given(
    size=st.integers(4, 20),
    low=st.floats(-30, 30),
    width=st.floats(0.01, 60),
    at=st.lists(st.floats(-3, 4), min_size=1, max_size=20),
)
def test_basis_is_pygams(size: int, low: float, width: float, at: list[float]) -> None:
    """The basis is pygam's to 1e-8, at both ends, inside, and beyond, for any size and knots."""
    high = low + width
    x = np.array([low, high, *(low + width * np.array(at))])
    expected = b_spline_basis(
        x, np.array([low, high]), n_splines=size, sparse=False, periodic=False
    )
    each = Splines(
        np.zeros(size),
        np.tile([low, high], (size, 1, 1)),
        np.full((size, 1), size),
        np.eye(size)[:, None],
    )
    np.testing.assert_allclose(np.log(each.predict(x[:, None])), expected, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_model_predicts_as_pygam(seed: int) -> None:
    """The exported model predicts what pygam's own does, inside the data and far outside."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(0, 20, (150, 3))
    features[:, 2] = rng.integers(0, 3, 150)
    times = 1e-6 * np.exp(0.3 * features[:, 0] + np.sin(features[:, 1])) * rng.gamma(50, 0.02, 150)
    queries = rng.uniform(-10, 30, (80, 3))
    unit = np.exp(np.log(times).mean())
    reference = gam.additive(features, times / unit, np.array([10, 10, 4]))
    np.testing.assert_allclose(
        gam.fit(features, times).predict(queries)[:, 0],
        reference.predict(queries) * unit,
        rtol=1e-8,
    )


def test_feature_that_never_varies_has_no_effect() -> None:
    """A column with one value is ignored, whatever is asked later."""
    features = np.column_stack([np.arange(12.0), np.full(12, 3.0)])
    model = gam.fit(features, np.exp(np.arange(12.0) / 4))
    asked = np.array([[5.0, 3.0], [5.0, 1000.0]])
    first, second = model.predict(asked)
    assert first == second


def test_only_constant_features_give_the_mean() -> None:
    """Without anything that varies the Gamma model's estimate is the arithmetic mean."""
    model = gam.fit(np.ones((3, 2)), np.array([1.0, 2.0, 6.0]))
    np.testing.assert_allclose(model.predict(np.ones((1, 2))), [[3.0]])


def test_nothing_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pygam's complaints about convergence do not reach standard output."""
    monkeypatch.setattr(gam, "_MOST_ITERATIONS", 1)
    features = np.column_stack([np.arange(12.0), np.arange(12.0) % 3])
    with pytest.raises(ValueError, match="pygam cannot fit 12 times"):
        gam.fit(features, np.exp(np.arange(12.0)))
    assert capsys.readouterr().out == ""


RNG = np.random.default_rng(4)


@pytest.mark.parametrize("n", [2, 3, 4, 17])
def test_agrees_with_scipy_and_goes_on_straight(n: int) -> None:
    """Between the knots the curve is scipy's natural spline, beyond them its tangent."""
    knots, values = np.sort(RNG.uniform(-3, 9, n)), RNG.normal(size=n)
    reference = CubicSpline(knots, values, bc_type="natural")
    curve = partial(natural_spline, knots=knots, values=values, bends=reference(knots, 2))
    inside = np.linspace(knots[0], knots[-1], 101)
    np.testing.assert_allclose(curve(inside), reference(inside), rtol=1e-10, atol=1e-12)
    for edge, step in ((knots[0], -2.5), (knots[-1], 2.5)):
        expected = reference(edge) + step * reference(edge, 1)
        np.testing.assert_allclose(curve(np.array([edge + step])), [expected], rtol=1e-9)


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
