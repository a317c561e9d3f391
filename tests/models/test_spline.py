"""The spline predictor against pygam."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygam.utils import b_spline_basis

from colltune.models.gam import GammaAdditiveModel
from colltune.models.predictors.splines import bspline_basis


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
    np.testing.assert_allclose(bspline_basis(x, low, high, size), expected, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_model_predicts_as_pygam(seed: int) -> None:
    """The exported model predicts what pygam's own does, inside the data and far outside."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(0, 20, (150, 3))
    features[:, 2] = rng.integers(0, 3, 150)
    times = 1e-6 * np.exp(0.3 * features[:, 0] + np.sin(features[:, 1])) * rng.gamma(50, 0.02, 150)
    model = GammaAdditiveModel().fit(features, times)
    queries = rng.uniform(-10, 30, (80, 3))
    unit = np.exp(np.log(times).mean())
    assert model.gam_ is not None
    np.testing.assert_allclose(
        model.export().predict(queries)[:, 0], model.gam_.predict(queries) * unit, rtol=1e-8
    )


def test_feature_that_never_varies_has_no_effect() -> None:
    """A column with one value is ignored, whatever is asked later."""
    features = np.column_stack([np.arange(12.0), np.full(12, 3.0)])
    model = GammaAdditiveModel().fit(features, np.exp(np.arange(12.0) / 4))
    asked = np.array([[5.0, 3.0], [5.0, 1000.0]])
    assert model.predict(asked)[0] == model.predict(asked)[1]


def test_only_constant_features_give_the_mean() -> None:
    """Without anything that varies the Gamma model's estimate is the arithmetic mean."""
    model = GammaAdditiveModel().fit(np.ones((3, 2)), np.array([1.0, 2.0, 6.0]))
    np.testing.assert_allclose(model.predict(np.ones((1, 2))), [3.0])


def test_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """pygam's complaints about convergence do not reach standard output."""
    features = np.column_stack([np.arange(12.0), np.arange(12.0) % 3])
    with pytest.raises(ValueError, match="pygam cannot fit these 12 times"):
        GammaAdditiveModel(max_iter=1).fit(features, np.exp(np.arange(12.0)))
    assert capsys.readouterr().out == ""
