"""Cost models as a learner: every configuration's cost, with parameters fitted to measured times.

The parameters of a machine are fitted to all configurations of a collective whose rounds are known
(`colltune.models.costs.families`); each configuration then has its own, which stay near the common
ones where it was measured little. What is not known by name, the library's own decision above all,
is fitted with a generic basis. Untold which configurations it is fitted to, the learner falls to a
generic one that knows nothing of rounds: one cubic of each feature, added up on the logarithm of
time.

Errors are those of the logarithm of time, so that a microsecond counts as much on a short message
as a millisecond on a long one. The logarithm of a sum of costs is linearised at the last estimate,
which makes each step a non-negative least-squares problem (Lawson and Hanson, *Solving Least
Squares Problems*, 1974, ch. 23); points further off than twice the usual error pull like points at
that distance (Huber, *Robust Statistics*, 1981, sec. 7.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from colltune.domain import Configuration
from colltune.evidence.repetitions import MAD_TO_SD
from colltune.models.costs.families import configuration_amounts, family_of
from colltune.models.costs.network import COEFFICIENTS, Coefficient, Instances
from colltune.models.predictors import Predictor
from colltune.models.predictors.costs import Costs, instances_of
from colltune.models.predictors.splines import ORDER, Splines, bspline_basis
from colltune.models.regressor import Numbers, RuntimeRegressor, slow_guessed, validated

_RIDGE = 1e-3
_SHARED_POINTS = 1.0
"""How many average measurements the parameters common to all are worth to each configuration."""
_STEPS = 12
_HUBER = 2.0
_LEAST_SPREAD = 0.02
_FURTHEST = 1.0
_LEAST_RATIO = 1e-6
_POWERS = (-1.0, -0.5)


class CostModel(RuntimeRegressor):
    """Non-negative parameters of published cost formulas, fitted robustly."""

    def inform(self, configurations: Sequence[Configuration], columns: Sequence[str]) -> Self:
        """Tell which configurations the columns of times, and which features those of X, are."""
        self.configurations_ = tuple(configurations)
        self.columns_ = tuple(columns)
        return self

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k) and positive times `y`, (n), or (n, C) if informed.

        Times that are NaN are passed over, those that are infinite guessed (slow).
        """
        configurations = getattr(self, "configurations_", None)
        if configurations is None:
            self.predictor_: Predictor = _loglinear(*validated(self, X, y))
            return self
        features = np.asarray(X, np.float64)
        times = np.asarray(y, np.float64).reshape(len(features), len(configurations))
        for configuration, column in zip(configurations, times.T, strict=True):
            if not np.isfinite(column).any():
                raise ValueError(f"{configuration.id} has no times to fit costs to")
            if (column <= 0).any():
                raise ValueError(f"{configuration.id} has a time that is not positive")
        self.n_features_in_ = features.shape[1]
        vectors = _vectors(
            instances_of(features, self.columns_), slow_guessed(times), configurations
        )
        self.predictor_ = Costs(configurations, self.columns_, vectors)
        return self


def _vectors(at: Instances, times: Numbers, configurations: Sequence[Configuration]) -> Numbers:
    """Return each configuration's parameters, (C, k), drawn to those common to all."""
    measured = [np.isfinite(column) for column in times.T]
    tables = [
        (configuration_amounts(configuration, at)[rows], column[rows])
        for configuration, rows, column in zip(configurations, measured, times.T, strict=True)
    ]
    is_known = [not family_of(configuration).is_generic for configuration in configurations]
    common = np.zeros(len(COEFFICIENTS))
    if any(is_known):
        known = [table for table, its in zip(tables, is_known, strict=True) if its]
        amounts, seen = (np.concatenate(parts) for parts in zip(*known, strict=True))
        common = fit_parameters(amounts, seen)
        # the fixed part belongs to an algorithm, not to the machine
        common[COEFFICIENTS.index(Coefficient.SETUP)] = 0.0
    prior = ParameterPrior(common, _SHARED_POINTS)
    return np.stack(
        [
            fit_parameters(*table, prior if its else _NOTHING)
            for table, its in zip(tables, is_known, strict=True)
        ]
    )


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


class ParameterPrior(NamedTuple):
    """What is held likely before the data: values of the parameters, worth ``points`` points."""

    vector: Numbers
    points: float


_NOTHING = ParameterPrior(np.zeros(len(COEFFICIENTS)), 0.0)


def fit_parameters(amounts: Numbers, times_s: Numbers, prior: ParameterPrior = _NOTHING) -> Numbers:
    """Return the non-negative values of `COEFFICIENTS` that explain times (n) best.

    `amounts` (n, k) are those of a cost, n at least 1. Deviations from `prior` cost as much as
    errors of the predicted time on its ``points`` average rows.
    """
    starts = [_first_guess(amounts, times_s, power) for power in _POWERS]
    if prior.vector.any():
        starts.append(prior.vector)
    found = [_converged(amounts, times_s, start, prior) for start in starts]
    return min(found, key=lambda vector: _loss(amounts, times_s, vector))


def _first_guess(amounts: Numbers, times_s: Numbers, power: float) -> Numbers:
    """Return the least-squares solution with times weighted by their `power` -1 … 0.

    With -1 errors are relative, and a time that is far too short counts more than all others; the
    further from that, the more long times count. So one of several guesses is near the solution.
    """
    weight = times_s**power
    return _solved(amounts * weight[:, None], times_s * weight)


def _converged(
    amounts: Numbers, times_s: Numbers, vector: Numbers, held: ParameterPrior
) -> Numbers:
    """Return the best of the vectors that linearisation leads to from `vector`."""
    best, least = vector, np.inf
    for _ in range(_STEPS):
        loss = _loss(amounts, times_s, vector)
        if loss < least:
            best, least = vector, loss
        previous, vector = vector, _improved(amounts, times_s, vector, held)
        if np.allclose(vector, previous, rtol=1e-4, atol=0):
            return vector
    return best


def _loss(amounts: Numbers, times_s: Numbers, vector: Numbers) -> float:
    """Return the mean absolute error of the logarithm; a time of nothing is one of a millionth."""
    ratio = np.maximum(amounts @ vector / times_s, _LEAST_RATIO)
    return float(np.abs(np.log(ratio)).mean())


def _improved(amounts: Numbers, times_s: Numbers, vector: Numbers, held: ParameterPrior) -> Numbers:
    """Return the solution of the problem linearised at `vector`.

    As if no time were predicted far too short: where next to nothing is predicted the logarithm is
    too steep to be linearised. Where far too much is, it is flat, so that a measured time that is
    much too short has little weight.
    """
    error = np.log(np.maximum(amounts @ vector / times_s, np.exp(-_FURTHEST)))
    rows = amounts / (times_s * np.exp(error))[:, None]
    limit = _HUBER * max(MAD_TO_SD * float(np.median(np.abs(error))), _LEAST_SPREAD)
    weight = np.sqrt(np.minimum(1.0, limit / np.maximum(np.abs(error), 1e-300)))
    matrix, right = rows * weight[:, None], (1.0 - error) * weight
    if held.points > 0:
        strength = np.sqrt(held.points * (rows**2).mean(axis=0))
        matrix = np.concatenate([matrix, np.diag(strength)])
        right = np.concatenate([right, strength * held.vector])
    return _solved(matrix, right)


def _solved(matrix: Numbers, right: Numbers) -> Numbers:
    """Return the non-negative least-squares solution, columns brought to one length for it."""
    lengths = np.linalg.norm(matrix, axis=0)
    lengths[lengths == 0] = 1.0
    # the triangle has the same solution, and as few rows as there are parameters
    q, triangle = np.linalg.qr(matrix / lengths)
    solution, _ = nnls(triangle, q.T @ right)
    return np.asarray(solution / lengths)
