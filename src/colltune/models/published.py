"""The three learners of Hunold, Bhatele, Bosilca and Knees (CLUSTER 2020, sec. III-B and IV-B).

KNN with K = 5 on scaled inputs, a generalised additive model of the Gamma family with a logarithmic
link, XGBoost with the Tweedie loss and 200 rounds. `NearestNeighbours`, `GammaAdditiveModel` and
`TweedieTrees` are made for logarithms of message size, nodes and processes per node.

The learners `PUBLISHED` are the paper's: one regression per configuration on these three as they
are (feature set ``basic``). In one respect they are helped: the library's default is a candidate
here, which has no regression in the paper (j > 0).
"""

from __future__ import annotations

import warnings
from contextlib import redirect_stdout
from functools import reduce
from io import StringIO
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from colltune.models import mgcv
from colltune.models.learners import UnfittableError
from colltune.models.predictors.neighbours import Neighbours
from colltune.models.predictors.splines import ORDER, NaturalSplines, Splines
from colltune.models.predictors.trees import Trees
from colltune.models.regressor import (
    JointRegressor,
    RuntimeRegressor,
    slow_guessed,
    validated,
)
from colltune.text import counted

Numbers = NDArray[np.float64]
PUBLISHED = ("published_knn", "published_gam", "published_xgboost")
_K = 5
_STIFFER = (1.0, 10.0, 100.0, 1000.0)
_MOST_SPLINES = 10
"""Per feature; no more than it has distinct values, and at least 4."""
_PENALTY = 0.6
"""Weight of the penalty on wiggliness, pygam's ``lam``."""
_MOST_ITERATIONS = 100
_UNIT_S = 1e-6
_ROUNDS = 200


class NearestNeighbours(RuntimeRegressor):
    """Geometric mean of the nearest measured times.

    Inputs are standardised. As in the paper's R package all points at the distance of the k-th are
    used, which on a grid of message sizes and node counts decides most predictions. The mean is
    geometric, because runtimes of neighbouring message sizes differ by factors. With fewer than
    five points all are used.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the measured points `X` (n, k) and their positive times `y` (n)."""
        self.predictor_ = Neighbours.fit(*validated(self, X, y), _K)
        return self


class PublishedNeighbours(RuntimeRegressor):
    """Arithmetic mean of the five nearest measured times.

    Inputs are standardised. As in R's caret all points at the distance of the fifth are used, where
    scikit-learn would take any five.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the measured points `X` (n, k) and their positive times `y` (n)."""
        self.predictor_ = Neighbours.fit(*validated(self, X, y), _K, arithmetic=True)
        return self


class TweedieTrees(RuntimeRegressor):
    """XGBoost with its default depth, learning rate and regularisation, on one thread.

    Times are given to XGBoost in microseconds. The Tweedie loss is not free of units there: the
    curvature of times in seconds is so small that ``min_child_weight`` would forbid every split.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k) and positive times `y` (n)."""
        import xgboost  # noqa: PLC0415 (an extra)

        features, times = validated(self, X, y)
        data = xgboost.DMatrix(features, label=times / _UNIT_S, nthread=1)
        parameters = {"objective": "reg:tweedie", "nthread": 1, "verbosity": 0}
        # what xgboost.train does, without its callbacks, which take as long again on small data
        self.booster_ = xgboost.Booster(parameters, [data])
        for round_number in range(_ROUNDS):
            self.booster_.update(data, round_number)
        self.predictor_ = Trees.from_json(self.booster_.save_raw("json"), _UNIT_S)
        return self


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
        distinct = np.array([len(np.unique(column)) for column in features.T])
        sizes = np.clip(np.minimum(distinct, _MOST_SPLINES), ORDER + 1, None)
        sizes = np.where(distinct > 1, sizes, 0)
        self.gam_ = _gam(features, times / unit, sizes) if sizes.any() else None
        self.predictor_ = _splines(self.gam_, sizes, unit, float(times.mean()))
        return self


def _gam(X: Numbers, y: Numbers, sizes: NDArray[np.int64]) -> Any:
    """Fit, with a stiffer penalty each time that pygam's iteration does not end or breaks."""
    from pygam import GammaGAM, s  # noqa: PLC0415 (an extra)
    from pygam.utils import OptimizationError  # noqa: PLC0415

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
    raise ValueError(f"pygam cannot fit {counted(len(y), 'time')}: {problem}. Try another learner.")


def _splines(gam: Any, sizes: NDArray[Any], unit: float, mean: float) -> Splines:
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


class PublishedAdditiveModel(JointRegressor):
    """The paper's ``s(msize) + s(nodes) + s(ppn)`` by R's mgcv, else by pygam.

    pygam's knots are uniform, which puts all but one of them where no message has so many bytes. So
    pygam is given ranks among the distinct values, and its knots are at their quantiles. Between
    and beyond them a natural cubic spline goes on, as mgcv's does.
    """

    predictor_: NaturalSplines

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k) and positive times `y`, (n, C) or (n)."""
        features, times = self._validated(X, y)
        if mgcv.available():
            self.predictor_ = mgcv.ReferenceAdditiveModel().fit(features, times).predictor_
            return self
        known = slow_guessed(times)
        found, reasons = [], {}
        for output, column in enumerate(known.T):
            rows = np.isfinite(column)
            try:
                found.append(_by_ranks(features[rows], column[rows]))
            except ValueError as error:
                reasons[output] = str(error)
        if reasons:
            raise UnfittableError(reasons)
        self.predictor_ = NaturalSplines.stacked(found)
        return self


def _by_ranks(X: Numbers, y: Numbers) -> NaturalSplines:
    """Fit `GammaAdditiveModel` to ranks; lay natural splines through its terms' values."""
    distinct = [np.unique(column) for column in X.T]
    ranks = [np.searchsorted(d, column) for d, column in zip(distinct, X.T, strict=True)]
    model = GammaAdditiveModel().fit(np.column_stack(ranks), y)
    origin = np.zeros((1, len(distinct)))
    level = np.log(model.predict(origin))
    counts = np.array([len(d) if len(d) > 1 else 0 for d in distinct])
    knots, values, bends = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    for feature in np.flatnonzero(counts).tolist():
        asked = np.repeat(origin, counts[feature], axis=0)
        asked[:, feature] = np.arange(counts[feature])
        term = np.log(model.predict(asked)) - level
        knots.append(distinct[feature])
        values.append(term)
        bends.append(CubicSpline(distinct[feature], term, bc_type="natural")(distinct[feature], 2))
    joined = (np.concatenate(parts) for parts in (knots, values, bends))
    return NaturalSplines(level, counts[None], *joined)
