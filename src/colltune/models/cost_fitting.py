"""Network parameters from measured times: non-negative, robust, shared where data is scarce.

Errors are those of the logarithm of time, so that a microsecond counts as much on a short message
as a millisecond on a long one. The logarithm of a sum of costs is linearised at the last estimate,
which makes each step a non-negative least-squares problem (Lawson and Hanson, *Solving Least
Squares Problems*, 1974, ch. 23); points further off than twice the usual error pull like points at
that distance (Huber, *Robust Statistics*, 1981, sec. 7.7).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from colltune.models.cost_model import COEFFICIENTS, Coefficient

Numbers = NDArray[np.float64]

_STEPS = 12
_HUBER = 2.0
_LEAST_SPREAD = 0.02
_FURTHEST = 1.0
_MAD_TO_SIGMA = 1.4826


class Belief(NamedTuple):
    """What is held likely before the data: values of the parameters, worth ``points`` points."""

    vector: Numbers
    points: float


_NOTHING = Belief(np.zeros(len(COEFFICIENTS)), 0.0)


def fit_parameters(amounts: Numbers, times_s: Numbers, belief: Belief | None = None) -> Numbers:
    """Return the non-negative values of `COEFFICIENTS` that explain times best.

    Parameters
    ----------
    amounts
        Rows of `colltune.models.cost_model.term_matrix`, shape (n, k), n at least 1.
    times_s
        Positive seconds, shape (n).
    belief
        Deviations from it cost as much as errors of the predicted time on ``points`` average rows.
    """
    scale = np.abs(amounts / times_s[:, None]).max(axis=0)
    scale[scale == 0] = 1.0
    columns = amounts / scale
    start = Belief(belief.vector * scale, belief.points) if belief else _NOTHING
    vector = start.vector if start.vector.any() else _first_guess(columns, times_s)
    best, least = vector, np.inf
    for _ in range(_STEPS):
        error = _log_error(columns, times_s, vector)
        loss = float(np.minimum(error**2, 2 * np.abs(error) - 1).sum())
        if loss < least - 1e-6:
            best, least = vector, loss
        previous, vector = vector, _improved(columns, times_s, vector, start)
        if np.allclose(vector, previous, rtol=1e-4, atol=0):
            best = vector
            break
    return np.asarray(best / scale)


def _first_guess(columns: Numbers, times_s: Numbers) -> Numbers:
    """Return the least-squares solution of the relative error."""
    vector, _ = nnls(columns / times_s[:, None], np.ones(len(times_s)))
    return np.asarray(vector)


def _log_error(columns: Numbers, times_s: Numbers, vector: Numbers) -> Numbers:
    """Return log(predicted / measured), no further from 0 than a linearisation is good for."""
    ratio = np.clip(columns @ vector / times_s, np.exp(-_FURTHEST), np.exp(_FURTHEST))
    return np.asarray(np.log(ratio))


def _improved(columns: Numbers, times_s: Numbers, vector: Numbers, start: Belief) -> Numbers:
    """Return the solution of the problem linearised at `vector`."""
    error = _log_error(columns, times_s, vector)
    rows = columns / (times_s * np.exp(error))[:, None]
    weight = np.sqrt(_huber_weights(error))
    matrix, right = rows * weight[:, None], (1.0 - error) * weight
    if start.points > 0:
        strength = np.sqrt(start.points * (rows**2).mean(axis=0))
        matrix = np.concatenate([matrix, np.diag(strength)])
        right = np.concatenate([right, strength * start.vector])
    solution, _ = nnls(matrix, right)
    return np.asarray(solution)


def _huber_weights(error: Numbers) -> Numbers:
    spread = _MAD_TO_SIGMA * float(np.median(np.abs(error)))
    limit = _HUBER * max(spread, _LEAST_SPREAD)
    return np.asarray(np.minimum(1.0, limit / np.maximum(np.abs(error), 1e-300)))


def without_setup(vector: Numbers) -> Numbers:
    """Return a copy whose fixed part is 0: it belongs to an algorithm, not to the machine."""
    copy = vector.copy()
    copy[COEFFICIENTS.index(Coefficient.SETUP)] = 0.0
    return copy
