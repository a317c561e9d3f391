"""Differences found at some instances, carried over to others: simple kriging.

The mean of a Gaussian process around zero with a Matérn 5/2 kernel over the logarithms of message
size, nodes and processes per node, and a part common to all instances (Rasmussen and Williams,
*Gaussian Processes for Machine Learning*, 2006, sec. 2.2 and 4.2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from colltune.features import feature_set
from colltune.models.cells import CellMatrix

Numbers = NDArray[np.float64]
LENGTHS = (3.0, 1.5, 1.5)
"""Octaves of message size, nodes and processes per node over which a difference persists."""
NOISE = 0.3
"""Variance of what a single cell says, in units of the process's variance."""
_MOST_POINTS = 600


def interpolated(found: CellMatrix, differences: Numbers, at: CellMatrix, common: float) -> Numbers:
    """Return what `differences` at some instances suggest at others.

    Parameters
    ----------
    found
        n instances; beyond 600 evenly chosen ones are used.
    differences
        At them, in K columns, NaN where unknown, (n, K).
    at
        m other instances.
    common
        Variance of what all instances share, in units of the variance of the rest.

    Returns
    -------
    Shape (m, K), zero in columns of which nothing is known.
    """
    rows = np.unique(np.linspace(0, len(found) - 1, min(len(found), _MOST_POINTS)).astype(np.int64))
    points, values = _points(found)[rows], differences[rows]
    among = _covariance(points, points, common) + NOISE * np.eye(len(points))
    towards = _covariance(_points(at), points, common)
    result = np.zeros((len(at), values.shape[1]))
    known = np.isfinite(values)
    # columns known at the same instances share the work, and mostly all do
    patterns, pattern_of = np.unique(known, axis=1, return_inverse=True)
    for number, seen in enumerate(patterns.T):
        if seen.any():
            columns = np.flatnonzero(pattern_of.ravel() == number)
            factor = cho_factor(among[np.ix_(seen, seen)], lower=True)
            result[:, columns] = towards[:, seen] @ cho_solve(factor, values[np.ix_(seen, columns)])
    return result


def _points(cells: CellMatrix) -> Numbers:
    """Return the instances' places in units of `LENGTHS`, (n, 3)."""
    logs = feature_set("log").matrix(cells.nodes, cells.ppn, cells.msize_bytes)
    return np.asarray(logs / np.array(LENGTHS))


def _covariance(left: Numbers, right: Numbers, common: float) -> Numbers:
    squares = sum((left[:, [k]] - right[:, k]) ** 2 for k in range(left.shape[1]))
    apart = np.sqrt(5.0 * squares)
    return np.asarray((1.0 + apart + apart**2 / 3.0) * np.exp(-apart) + common)
