"""Gradient-boosted trees, Tweedie loss, 200 rounds (Hunold et al., CLUSTER 2020, sec. IV-B)."""

from __future__ import annotations

from typing import Self

import xgboost
from numpy.typing import ArrayLike

from colltune.models.predictors.trees import Trees
from colltune.models.regressor import RuntimeRegressor, validated

_UNIT_S = 1e-6
_ROUNDS = 200


class TweedieTrees(RuntimeRegressor):
    """XGBoost with its default depth, learning rate and regularisation, on one thread.

    Times are given to XGBoost in microseconds. The Tweedie loss is not free of units there: the
    curvature of times in seconds is so small that ``min_child_weight`` would forbid every split.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k) and positive times `y` (n)."""
        features, times = validated(self, X, y)
        data = xgboost.DMatrix(features, label=times / _UNIT_S, nthread=1)
        parameters = {"objective": "reg:tweedie", "nthread": 1, "verbosity": 0}
        # what xgboost.train does, without its callbacks, which take as long again on small data
        self.booster_ = xgboost.Booster(parameters, [data])
        for round_number in range(_ROUNDS):
            self.booster_.update(data, round_number)
        self.predictor_ = Trees.from_json(self.booster_.save_raw("json"), _UNIT_S)
        return self
