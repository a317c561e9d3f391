"""The tree predictor against XGBoost."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost

from colltune.models.learners.xgboost import Trees, boosted, fit

RNG = np.random.default_rng(11)
FEATURES = np.column_stack([RNG.uniform(0, 22, 300), RNG.integers(1, 37, 300)]).astype(float)
TIMES = 1e-6 * FEATURES[:, 1] + 1e-10 * np.exp2(FEATURES[:, 0])


def test_predicts_as_xgboost() -> None:
    """Predictions are XGBoost's, up to its own 200 float32 additions, also at its thresholds."""
    queries = np.vstack([FEATURES, RNG.uniform(-5, 40, (300, 2))])
    expected = boosted(FEATURES, TIMES).predict(xgboost.DMatrix(queries, nthread=1)) * 1e-6
    np.testing.assert_allclose(
        fit(FEATURES, TIMES).predict(queries)[:, 0], expected, rtol=200 * 2**-23
    )


@pytest.mark.parametrize("depth", [1, 2, 9])
def test_any_depth_is_read(depth: int) -> None:
    """Stumps and deep trees are read as well, and trees with leaves at different levels."""
    data = xgboost.DMatrix(FEATURES, label=TIMES * 1e6, nthread=1)
    parameters = {"objective": "reg:tweedie", "max_depth": depth, "nthread": 1}
    booster = xgboost.train(parameters, data, num_boost_round=7)
    trees = Trees.from_json(booster.save_raw("json"), 1.0)
    np.testing.assert_allclose(trees.predict(FEATURES)[:, 0], booster.predict(data), rtol=5e-6)


def test_trees_of_different_depth_are_stacked() -> None:
    """Predictors of different depth, put side by side, keep their predictions."""
    shallow = fit(FEATURES[:3], TIMES[:3])
    deep = fit(FEATURES, TIMES)
    stacked = Trees.stacked([shallow, deep])
    assert shallow.features.shape[1] < deep.features.shape[1]
    np.testing.assert_allclose(stacked.predict(FEATURES)[:, [0]], shallow.predict(FEATURES))
    np.testing.assert_allclose(stacked.predict(FEATURES)[:, [1]], deep.predict(FEATURES))


def test_base_score_of_any_release() -> None:
    """The global bias is read as XGBoost 3 writes it (an array) and as earlier ones did."""
    for spelling in ("2.5E0", "[2.5E0]", "2.5"):
        learner = {
            "gradient_booster": {"model": {"trees": []}},
            "learner_model_param": {"base_score": spelling, "num_feature": "2"},
        }
        trees = Trees.from_json(json.dumps({"learner": learner}), 1e-6)
        np.testing.assert_allclose(trees.predict(np.zeros((2, 2))), [[2.5e-6], [2.5e-6]])
