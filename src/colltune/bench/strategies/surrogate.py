"""What is known of a collective's runtimes after few measurements: Gaussian processes.

One process per configuration over the logarithms of message size, nodes and processes per node and
two power-of-two flags: a log-linear mean and a Matérn 5/2 kernel, the same for all configurations
(Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, sec. 2.2, 2.7 and 4.2). It
is meant for deciding what to measure next, because it tells what it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colltune.models.predictors.level import known_alike, radial

Numbers = NDArray[np.float64]
_LEAST_VARIANCE = 1e-8
_AMPLITUDE = 0.6
"""Standard deviation of log runtimes around the log-linear mean."""
_LENGTHS = np.array((4.0, 1.0, 1.0, 1.5, 1.5))
"""Octaves of message size, nodes and ppn, and steps of the two flags, over which it persists.

Nodes and ppn have short lengths: algorithms change their behaviour from one count to the next.
"""
_OFFSET_SD, _SLOPE_SD = 5.0, 0.7
"""Standard deviations of the mean's intercept and of its slopes per octave."""


def _covariance(left: Numbers, right: Numbers) -> Numbers:
    """Return the prior covariances of `left` (n, 5) and `right` (m, 5), shape (n, m)."""
    linear = _OFFSET_SD**2 + _SLOPE_SD**2 * (left[:, :3] @ right[:, :3].T)
    return np.asarray(_AMPLITUDE**2 * radial(left / _LENGTHS, right / _LENGTHS) + linear)


def _variance(points: Numbers) -> Numbers:
    """Return the prior variances at `points` (n, 5), shape (n)."""
    linear = _OFFSET_SD**2 + _SLOPE_SD**2 * (points[:, :3] ** 2).sum(axis=1)
    return np.asarray(_AMPLITUDE**2 + linear)


def coordinates(nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike) -> Numbers:
    """Return the processes' inputs for n instances, shape (n, 5)."""
    n, p, m = (np.atleast_1d(np.asarray(v, np.int64)) for v in (nodes, ppn, msize_bytes))
    logs = [np.log2(np.maximum(m, 1)) - 10.0, np.log2(n) - 4.0, np.log2(p) - 2.0]
    flags = [((count & (count - 1)) == 0).astype(np.float64) for count in (n * p, n)]
    return np.column_stack([*logs, *flags])


@dataclass(frozen=True, eq=False)
class Posterior:
    """Log runtimes of C configurations at n instances: ``mean`` and ``sd``, each (n, C)."""

    mean: Numbers
    sd: Numbers

    def regret(self, normals: Numbers) -> Numbers:
        """Return each instance's expected log regret of choosing the least mean, shape (n).

        `normals` (draws, C) are standard normal; each is one guess at all configurations' times.
        """
        chosen = self.mean.argmin(axis=1)
        rows = np.arange(len(chosen))
        total = np.zeros(len(chosen))
        for draw in normals:
            times = self.mean + self.sd * draw
            total += times[rows, chosen] - times.min(axis=1)
        return total / max(1, len(normals))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The processes after measurements at n instances.

    ``points`` (n, 5) are `coordinates` of the instances; ``log_times`` (n, C) natural logarithms of
    runtimes less a rough guess, NaN where not measured; ``variances`` (n) those of the logarithms.
    """

    points: Numbers
    log_times: Numbers
    variances: Numbers

    def posterior(self, points: Numbers) -> Posterior:
        """Return what is known at `points` (m, 5)."""
        prior_sd = np.sqrt(_variance(points))
        mean = np.zeros((len(points), self.log_times.shape[1]))
        sd = np.tile(prior_sd[:, None], (1, mean.shape[1]))
        towards = _covariance(self.points, points)
        for rows, columns in known_alike(np.isfinite(self.log_times)):
            whitener = self._whitener(rows)
            explained = whitener @ towards[rows]
            whitened = whitener @ self.log_times[np.ix_(rows, columns)]
            mean[:, columns] = explained.T @ whitened
            left = prior_sd**2 - (explained**2).sum(axis=0)
            sd[:, columns] = np.sqrt(np.maximum(left, _LEAST_VARIANCE))[:, None]
        return Posterior(mean, sd)

    def covariance(self, left: Numbers, right: Numbers) -> Numbers:
        """Return the covariances (n, m) that remain if all configurations were measured alike."""
        prior = _covariance(left, right)
        towards = [_covariance(self.points, side) for side in (left, right)]
        whitened = [self._whitener_of_all @ side for side in towards]
        return np.asarray(prior - whitened[0].T @ whitened[1])

    def variance(self, points: Numbers) -> Numbers:
        """Return the diagonal of `covariance` of `points` with themselves, shape (n)."""
        whitened = self._whitener_of_all @ _covariance(self.points, points)
        left = _variance(points) - (whitened**2).sum(axis=0)
        return np.asarray(np.maximum(left, _LEAST_VARIANCE))

    @cached_property
    def _whitener_of_all(self) -> Numbers:
        return self._whitener(np.ones(len(self.points), np.bool_))

    def _whitener(self, rows: NDArray[np.bool_]) -> Numbers:
        """Return the inverse of the Cholesky factor of the measured instances' covariances."""
        points = self.points[rows]
        noisy = _covariance(points, points) + np.diag(self.variances[rows])
        return np.asarray(np.linalg.inv(np.linalg.cholesky(noisy)))
