"""Cost models as a learner: every configuration's cost, with parameters fitted to measured times.

The parameters of a machine are fitted to all configurations of a collective whose rounds are known
(`colltune.models.costs.catalogue`); each configuration then has its own, which stay near the common
ones where it was measured little. What is not known by name, the library's own decision above all,
is fitted with a generic basis. Untold which configurations it is fitted to, the learner falls to a
generic one that knows nothing of rounds: one cubic of each feature, added up on the logarithm of
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from colltune.domain import Configuration
from colltune.models.cost_fitting import (
    Belief,
    fit_parameters,
    without_setup,
)
from colltune.models.cost_model import COEFFICIENTS
from colltune.models.costs.catalogue import family_of
from colltune.models.joint_regressor import slow_guessed
from colltune.models.predictors import Predictor
from colltune.models.predictors.costs import Costs, amounts, instances_of
from colltune.models.predictors.spline import ORDER, Splines, bspline_basis
from colltune.models.regressor import Numbers, RuntimeRegressor, validated

_RIDGE = 1e-3


class CostModel(RuntimeRegressor):
    """Non-negative parameters of published cost formulas, fitted robustly.

    Parameters
    ----------
    shared_points
        How many average measurements the parameters common to all configurations are worth to each
        of them.
    """

    def __init__(self, shared_points: float = 1.0) -> None:
        self.shared_points = shared_points

    def inform(self, configurations: Sequence[Configuration], columns: Sequence[str]) -> Self:
        """Tell which configurations the columns of times, and which features those of X, are."""
        self.configurations_ = tuple(configurations)
        self.columns_ = tuple(columns)
        return self

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k) and positive times `y`, (n), or (n, C) if informed.

        Times that are NaN are passed over, those that are infinite guessed (slow).

        Raises
        ------
        ValueError
            If a time is not positive, a configuration has none, or the features lack nodes, ppn or
            message size.
        """
        configurations = getattr(self, "configurations_", None)
        if configurations is None:
            features, times = validated(self, X, y)
            self.predictor_: Predictor = _loglinear(features, times)
        else:
            features, times = timed(X, y, configurations)
            self.n_features_in_ = features.shape[1]
            vectors = self._vectors(features, times, configurations)
            self.predictor_ = Costs(configurations, self.columns_, vectors)
        return self

    def _vectors(
        self, features: Numbers, times: Numbers, configurations: Sequence[Configuration]
    ) -> Numbers:
        instances = instances_of(features, self.columns_)
        rows = [np.isfinite(column) for column in times.T]
        tables = [
            amounts(configuration, instances)[measured]
            for configuration, measured in zip(configurations, rows, strict=True)
        ]
        seen = [column[measured] for column, measured in zip(times.T, rows, strict=True)]
        known = [k for k, c in enumerate(configurations) if not family_of(c).is_generic]
        common = np.zeros(len(COEFFICIENTS))
        if known and self.shared_points > 0:
            common = without_setup(
                fit_parameters(
                    np.concatenate([tables[k] for k in known]),
                    np.concatenate([seen[k] for k in known]),
                )
            )
        return np.stack(
            [
                fit_parameters(table, column, self._belief(common) if k in known else None)
                for k, (table, column) in enumerate(zip(tables, seen, strict=True))
            ]
        )

    def _belief(self, common: Numbers) -> Belief | None:
        return Belief(common, self.shared_points) if self.shared_points > 0 else None


def timed(
    X: ArrayLike, y: ArrayLike, configurations: Sequence[Configuration]
) -> tuple[Numbers, Numbers]:
    """Return features (n, k) and seconds (n, C), NaN where unknown, with guesses of slow cells.

    Raises
    ------
    ValueError
        If a time is not positive or a configuration has none.
    """
    features = np.asarray(X, np.float64)
    times = np.asarray(y, np.float64).reshape(len(features), len(configurations))
    for configuration, column in zip(configurations, times.T, strict=True):
        if not np.isfinite(column).any():
            raise ValueError(f"{configuration.id} has no time to fit a cost to")
        if (column <= 0).any():
            raise ValueError(f"{configuration.id} has a time that is not positive")
    return features, slow_guessed(times)


def _loglinear(features: Numbers, times: Numbers) -> Splines:
    """Return one cubic of each feature, added up on the logarithm of time."""
    size = ORDER + 1
    knots = np.stack([features.min(axis=0), features.max(axis=0)], axis=1)
    bases = [
        bspline_basis(column, low, high, size)
        for column, (low, high) in zip(features.T, knots, strict=True)
    ]
    matrix = np.column_stack(bases)
    logs = np.log(times)
    middle, mean = matrix.mean(axis=0), float(logs.mean())
    centred = matrix - middle
    gram = centred.T @ centred + _RIDGE * np.eye(matrix.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (logs - mean))
    intercept = mean - float(middle @ weights)
    sizes = np.full((1, features.shape[1]), size)
    return Splines(np.array([intercept]), knots[None], sizes, weights.reshape(1, -1, size))
