"""Generalised additive model, Gamma family, logarithmic link (Hunold et al. 2020, sec. IV-B)."""

from __future__ import annotations

import warnings
from contextlib import redirect_stdout
from functools import reduce
from io import StringIO
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pygam import GammaGAM, s
from pygam.utils import OptimizationError

from colltune.models.predictors.splines import ORDER, Splines
from colltune.models.regressor import RuntimeRegressor, validated

Numbers = NDArray[np.float64]
_STIFFER = (1.0, 10.0, 100.0, 1000.0)
_MOST_SPLINES = 10
"""Per feature; no more than it has distinct values, and at least 4."""
_PENALTY = 0.6
"""Weight of the penalty on wiggliness, pygam's ``lam``."""
_MOST_ITERATIONS = 100


class GammaAdditiveModel(RuntimeRegressor):
    """One penalised cubic spline per feature, added up on the logarithm of the runtime.

    Times are divided by their geometric mean before pygam sees them: with a logarithmic link that
    moves only the intercept, and the iteration starts near its end. A feature that never varies in
    the data has no effect.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k) and positive times `y` (n)."""
        features, times = validated(self, X, y)
        unit = float(np.exp(np.log(times).mean()))
        sizes = _sizes(features)
        self.gam_ = _fitted(features, times / unit, sizes) if sizes.any() else None
        self.predictor_ = _exported(self.gam_, sizes, unit, float(times.mean()))
        return self


def _sizes(X: Numbers) -> NDArray[np.int64]:
    distinct = np.array([len(np.unique(column)) for column in X.T])
    sizes = np.clip(np.minimum(distinct, _MOST_SPLINES), ORDER + 1, None)
    return np.where(distinct > 1, sizes, 0)


def _fitted(X: Numbers, y: Numbers, sizes: NDArray[np.int64]) -> Any:
    """Fit, with a stiffer penalty each time that pygam's iteration does not end or breaks."""
    problem = ""
    for stiffer in _STIFFER:
        terms = [
            s(int(f), n_splines=int(sizes[f]), spline_order=ORDER, lam=_PENALTY * stiffer)
            for f in np.flatnonzero(sizes)
        ]
        gam = GammaGAM(reduce(add, terms), max_iter=_MOST_ITERATIONS)
        try:
            # pygam prints to standard output when it does not converge.
            with warnings.catch_warnings(), redirect_stdout(StringIO()):
                warnings.simplefilter("ignore")
                gam.fit(X, y)
        except (np.linalg.LinAlgError, OptimizationError, ValueError) as error:
            problem = str(error)
            continue
        if gam.logs_["diffs"][-1] < gam.tol:
            return gam
        problem = f"no convergence in {_MOST_ITERATIONS} iterations"
    raise ValueError(f"pygam cannot fit these {len(y)} times: {problem}; try another learner")


def _exported(gam: Any, sizes: NDArray[Any], unit: float, mean: float) -> Splines:
    """Read knots and coefficients off pygam's terms; without terms, the mean."""
    knots = np.zeros((1, len(sizes), 2))
    coefficients = np.zeros((1, len(sizes), max(int(sizes.max(initial=0)), 1)))
    if gam is None:
        return Splines(np.array([np.log(mean)]), knots, sizes[None], coefficients)
    intercept = 0.0
    for index, term in enumerate(gam.terms):
        weights = gam.coef_[gam.terms.get_coef_indices(index)]
        if term.isintercept:
            intercept = float(weights[0])
        else:
            knots[0, term.feature] = term.edge_knots_
            coefficients[0, term.feature, : len(weights)] = weights
    return Splines(np.array([intercept + np.log(unit)]), knots, sizes[None], coefficients)
