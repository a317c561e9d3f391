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
_LEAST_RATIO = 1e-6
_POWERS = (-1.0, -0.5)
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
    held = belief or _NOTHING
    starts = [_first_guess(amounts, times_s, power) for power in _POWERS]
    if held.vector.any():
        starts.append(held.vector)
    found = [_converged(amounts, times_s, start, held) for start in starts]
    return min(found, key=lambda vector: _loss(amounts, times_s, vector))


def _first_guess(amounts: Numbers, times_s: Numbers, power: float) -> Numbers:
    """Return the least-squares solution with times weighted by their `power` -1 … 0.

    With -1 errors are relative, and a time that is far too short counts more than all others; the
    further from that, the more long times count. So one of several guesses is near the solution.
    """
    weight = times_s**power
    return _solved(amounts * weight[:, None], times_s * weight)


def _converged(amounts: Numbers, times_s: Numbers, vector: Numbers, held: Belief) -> Numbers:
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


def _log_error(amounts: Numbers, times_s: Numbers, vector: Numbers) -> Numbers:
    """Return log(predicted / measured), as if no time were predicted far too short.

    Where next to nothing is predicted the logarithm is too steep to be linearised; where far too
    much is, it is flat, so that a measured time that is much too short has little weight.
    """
    ratio = np.maximum(amounts @ vector / times_s, np.exp(-_FURTHEST))
    return np.asarray(np.log(ratio))


def _improved(amounts: Numbers, times_s: Numbers, vector: Numbers, held: Belief) -> Numbers:
    """Return the solution of the problem linearised at `vector`."""
    error = _log_error(amounts, times_s, vector)
    rows = amounts / (times_s * np.exp(error))[:, None]
    weight = np.sqrt(_huber_weights(error))
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


def _huber_weights(error: Numbers) -> Numbers:
    spread = _MAD_TO_SIGMA * float(np.median(np.abs(error)))
    limit = _HUBER * max(spread, _LEAST_SPREAD)
    return np.asarray(np.minimum(1.0, limit / np.maximum(np.abs(error), 1e-300)))


def without_setup(vector: Numbers) -> Numbers:
    """Return a copy whose fixed part is 0: it belongs to an algorithm, not to the machine."""
    copy = vector.copy()
    copy[COEFFICIENTS.index(Coefficient.SETUP)] = 0.0
    return copy
