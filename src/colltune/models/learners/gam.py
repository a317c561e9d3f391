"""A generalised additive model of the Gamma family with a logarithmic link, by pygam.

It is a learner of Hunold, Bhatele, Bosilca and Knees (CLUSTER 2020, sec. III-B). Its cubic
B-splines are evaluated as pygam evaluates them. The basis is the uniform B-spline of Eilers and
Marx (Statistical Science 11(2), 1996), piece by piece as a polynomial; beyond the outer knots it
goes on linearly.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import reduce
from io import StringIO
from operator import add
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.bundle_schema import Arrays, Lengths, Stored, below, insist
from colltune.models.learners import ArrayFields, Numbers, bounded_exp, distinct
from colltune.text import counted

_ORDER = 3
_STIFFER = (1.0, 10.0, 100.0, 1000.0)
_MOST_SPLINES = 10
"""Per feature; no more than it has distinct values, and at least 4."""
_PENALTY = 0.6
"""Weight of the penalty on wiggliness, pygam's ``lam``."""
_MOST_ITERATIONS = 100


@dataclass(frozen=True, eq=False)
class Splines(ArrayFields):
    """``exp(intercept + sum of one spline per feature)``, in seconds.

    ``intercepts`` (C); ``knots`` (C, k, 2) are each spline's outer knots; ``coefficients``
    (C, k, S) are padded with zeros behind the ``sizes`` (C, k) that are in use; size 0 means that
    the feature has no effect.
    """

    kind: ClassVar[str] = "spline"
    stored: ClassVar[Mapping[str, Stored]] = {
        "intercepts": Stored("f", ("C",)),
        "knots": Stored("f", ("C", "k", 2)),
        "sizes": Stored("i", ("C", "k"), below("s+1")),
        "coefficients": Stored("f", ("C", "k", "s")),
    }
    intercepts: Numbers
    knots: Numbers
    sizes: NDArray[np.int64]
    coefficients: Numbers

    @property
    def n_outputs(self) -> int:
        return len(self.intercepts)

    def predict(self, X: Numbers) -> Numbers:
        exponents = np.tile(self.intercepts, (len(X), 1))
        for feature, column in enumerate(X.T):
            values, places = distinct(column)
            for (low, high, size), members in self._alike(feature).items():
                first, weights = _at_work(values, low, high, size)
                coefficients = self.coefficients[members, feature].T
                for k, weight in enumerate(weights):
                    exponents[:, members] += (weight[:, None] * coefficients[first + k])[places]
        return bounded_exp(exponents)

    def _alike(self, feature: int) -> dict[tuple[float, float, int], list[int]]:
        """Group the outputs whose splines on `feature` share one basis."""
        groups: dict[tuple[float, float, int], list[int]] = {}
        for output, size in enumerate(self.sizes[:, feature].tolist()):
            if size:
                low, high = self.knots[output, feature].tolist()
                groups.setdefault((low, high, size), []).append(output)
        return groups

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Put outputs side by side, coefficients padded to the longest spline."""
        longest = max(p.coefficients.shape[2] for p in predictors)
        padded = [
            np.pad(p.coefficients, ((0, 0), (0, 0), (0, longest - p.coefficients.shape[2])))
            for p in predictors
        ]
        return cls(
            np.concatenate([p.intercepts for p in predictors]),
            np.concatenate([p.knots for p in predictors]),
            np.concatenate([p.sizes for p in predictors]),
            np.concatenate(padded),
        )

    @staticmethod
    def check(arrays: Arrays, lengths: Lengths) -> None:
        sizes = arrays["sizes"]
        insist(
            not ((sizes > 0) & (sizes < 4)).any(), "predictor.sizes: fewer than a cubic spline has"
        )


def _at_work(
    x: Numbers, low: float, high: float, size: int
) -> tuple[NDArray[np.int64], tuple[Numbers, ...]]:
    """Return the first of the four splines that are not 0 at `x` (n), and their values (n)."""
    pieces = size - _ORDER
    at = (x - low) / (high - low if high > low else 1.0) * pieces
    inside = np.clip(at, 0.0, pieces)
    first = np.minimum(inside.astype(np.int64), pieces - 1)
    t = inside - first
    left, beyond = 1.0 - t, at - inside
    values = (
        left * left * left / 6.0,
        (t * t * (3.0 * t - 6.0) + 4.0) / 6.0,
        (left * left * (3.0 * left - 6.0) + 4.0) / 6.0,
        t * t * t / 6.0,
    )
    slopes = (
        -left * left / 2.0,
        t * (1.5 * t - 2.0),
        left * (2.0 - 1.5 * left),
        t * t / 2.0,
    )
    return first, tuple(v + s * beyond for v, s in zip(values, slopes, strict=True))


def fit(X: Numbers, times_s: Numbers) -> Splines:
    """One penalised cubic spline per feature, added up on the logarithm of the runtime.

    Times are divided by their geometric mean before pygam sees them: with a logarithmic link that
    moves only the intercept, and the iteration starts near its end. A feature that never varies in
    the data has no effect.
    """
    unit = float(np.exp(np.log(times_s).mean()))
    n_distinct = np.array([len(np.unique(column)) for column in X.T])
    sizes = np.clip(np.minimum(n_distinct, _MOST_SPLINES), _ORDER + 1, None)
    sizes = np.where(n_distinct > 1, sizes, 0)
    gam = additive(X, times_s / unit, sizes) if sizes.any() else None
    return _splines(gam, sizes, unit, float(times_s.mean()))


def additive(X: Numbers, y: Numbers, sizes: NDArray[np.int64]) -> Any:
    """Fit, with a stiffer penalty each time that pygam's iteration does not end or breaks."""
    from pygam import GammaGAM, s
    from pygam.utils import OptimizationError

    problem = ""
    for stiffer in _STIFFER:
        terms = [
            s(int(f), n_splines=int(sizes[f]), spline_order=_ORDER, lam=_PENALTY * stiffer)
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
