"""Gaussian processes that fit needs; their kernel is in `colltune.models.predictors.level`.

`SharedProcess`: all configurations of a collective, and their level. One process per configuration
over few inputs: a linear mean with a wide prior and a product of Matérn 5/2 functions with one
length per input, noise on top (Rasmussen and Williams, *Gaussian Processes for Machine Learning*,
2006, sec. 2.7, 4.2 and 5.4.1). Lengths and noise are the same for all configurations and maximise
their common marginal likelihood, the variance being eliminated. Costs are bounded: the kernel is
chosen on few points and cells are predicted from some hundreds.

`interpolated`: differences found at some instances, carried over to others (simple kriging). The
mean of a process around zero with a Matérn 5/2 kernel over the logarithms of message size, nodes
and processes per node, and a part common to all instances (sec. 2.2 and 4.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from colltune.features import feature_set
from colltune.models.cells import CellMatrix
from colltune.models.predictors.level import (
    Level,
    distinct,
    known_alike,
    looked_up,
    product,
    radial,
)

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
_LENGTHS = (0.2, 0.5, 1.2, 3.0, 10.0)
_START = 1.2
_NOISES = (0.03, 0.1, 0.3)
_SWEEPS = 2
_POINTS_TO_CHOOSE_ON = 120
_PATTERNS_TO_CHOOSE_ON = 2
_OFFSET_VARIANCE = 100.0
_SLOPE_VARIANCE = 3.0
_RICH = feature_set("rich").columns
_CHOSEN = (
    "log2_msize",
    "log2_nodes",
    "log2_ppn",
    "nprocs_is_power_of_two",
    "nodes_is_power_of_two",
)


def input_columns(n_features: int) -> list[int]:
    """Return which features are inputs: few of ``rich`` or a set that begins with it, else all."""
    if n_features < len(_RICH):
        return list(range(n_features))
    return [_RICH.index(name) for name in _CHOSEN]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Standardised inputs (n, d) made of ``columns`` (d) of a feature matrix.

    ``linear`` (d) tells which of them the mean is linear in: those with more than two values.
    """

    columns: NDArray[np.int64]
    center: Numbers
    scale: Numbers
    values: Numbers
    linear: Flags

    @classmethod
    def of(cls, X: Numbers, columns: Sequence[int]) -> Inputs:
        """Standardise `columns` of the features `X` (n, k); what never varies is left out."""
        chosen = np.array(columns, np.int64)
        chosen = chosen[np.ptp(X[:, chosen], axis=0) > 0]
        center, scale = X[:, chosen].mean(axis=0), X[:, chosen].std(axis=0)
        linear = np.array([len(distinct(X[:, c])[0]) > 2 for c in chosen.tolist()], np.bool_)
        return cls(chosen, center, scale, (X[:, chosen] - center) / scale, linear)


@dataclass(frozen=True, eq=False)
class SharedProcess:
    """A kernel in units of the processes' variance: ``lengths`` (d) and a ``noise`` variance."""

    inputs: Inputs
    lengths: Numbers
    noise: float

    @classmethod
    def chosen(
        cls, inputs: Inputs, log_times: Numbers, least_noise: float, rng: np.random.Generator
    ) -> SharedProcess:
        """Return the kernel most likely given log seconds (n, C), NaN where unknown.

        Every length is tried on a grid in turn, the noise after them, twice.
        """
        samples = [_Sample.of(inputs, *s) for s in _common_patterns(log_times, rng)]
        noises = (least_noise, *(n for n in _NOISES if n > least_noise))
        choices = [*([_LENGTHS] * len(inputs.columns)), noises]
        taken = [*([_LENGTHS.index(_START)] * len(inputs.columns)), 0]
        best = _likelihood(samples, taken[:-1], noises[0])
        for axis in [*range(len(choices))] * _SWEEPS:
            for option in range(len(choices[axis])):
                tried = [*taken[:axis], option, *taken[axis + 1 :]]
                if tried != taken:
                    found = _likelihood(samples, tried[:-1], noises[tried[-1]])
                    if found > best:
                        taken, best = tried, found
        return cls(inputs, np.array([_LENGTHS[k] for k in taken[:-1]]), noises[taken[-1]])

    def filled(self, log_times: Numbers, most_points: int, rng: np.random.Generator) -> Numbers:
        """Return `log_times` (n, C) with every NaN predicted from the column's known cells."""
        result = log_times.copy()
        for known, columns in known_alike(np.isfinite(log_times)):
            if known.all():
                continue
            rows = _sampled(np.flatnonzero(known), most_points, rng)
            center = log_times[np.ix_(rows, columns)].mean(axis=0)
            residuals = log_times[np.ix_(rows, columns)] - center
            weights = cho_solve(self._factor(rows), residuals)
            holes = np.flatnonzero(~known)
            result[np.ix_(holes, columns)] = self._covariance(holes, rows) @ weights + center
        return result

    def level(self, log_times: Numbers, most_points: int, rng: np.random.Generator) -> Level:
        """Return the process after log seconds (n) as a predictor."""
        rows = _sampled(np.arange(len(log_times)), most_points, rng)
        center = log_times[rows].mean()
        points = self.inputs.values[rows]
        weights = cho_solve(self._factor(rows), log_times[rows] - center)
        slopes = np.where(self.inputs.linear, _SLOPE_VARIANCE * points.T @ weights, 0.0)
        offset = center + _OFFSET_VARIANCE * weights.sum()
        columns, scaling = self.inputs.columns, (self.inputs.center, self.inputs.scale)
        return Level(columns, *scaling, self.lengths, points, weights, slopes, np.array([offset]))

    def _covariance(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Numbers:
        """Return the prior covariances of two sets of rows."""
        a, b = self.inputs.values[left], self.inputs.values[right]
        result = product(a, b, self.lengths)
        linear = self.inputs.linear
        return np.asarray(
            result + _OFFSET_VARIANCE + _SLOPE_VARIANCE * (a[:, linear] @ b[:, linear].T)
        )

    def _factor(self, rows: NDArray[np.int64]) -> tuple[Numbers, bool]:
        covariance = self._covariance(rows, rows)
        covariance[np.diag_indices(len(rows))] += self.noise
        factor: tuple[Numbers, bool] = cho_factor(covariance, lower=True, overwrite_a=True)
        return factor


class _Sample(NamedTuple):
    """Some instances of which the same configurations are known.

    ``residuals`` (n, c) are their centred log seconds; ``correlations`` (d, L, n, n) those of each
    input for each of `_LENGTHS`, ``linear`` (n, n) the covariances of the linear mean.
    """

    residuals: Numbers
    correlations: Numbers
    linear: Numbers

    @classmethod
    def of(cls, inputs: Inputs, rows: NDArray[np.int64], residuals: Numbers) -> _Sample:
        values = inputs.values[rows]
        correlations = [[looked_up(v, v, length) for length in _LENGTHS] for v in values.T]
        sloped = values[:, inputs.linear]
        linear = _OFFSET_VARIANCE + _SLOPE_VARIANCE * sloped @ sloped.T
        shape = (len(values.T), len(_LENGTHS), len(rows), len(rows))
        return cls(residuals, np.reshape(correlations, shape), np.asarray(linear))


def _likelihood(samples: Sequence[_Sample], lengths: Sequence[int], noise: float) -> float:
    """Return the log marginal likelihood, but for a constant, of lengths by their numbers."""
    squares, log_determinants, count = 0.0, 0.0, 0
    for residuals, correlations, linear in samples:
        covariance = linear + correlations[np.arange(len(lengths)), lengths].prod(axis=0)
        covariance[np.diag_indices(len(covariance))] += noise
        factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
        squares += float((residuals * cho_solve(factor, residuals, check_finite=False)).sum())
        log_determinants += residuals.shape[1] * 2 * float(np.log(np.diag(factor[0])).sum())
        count += residuals.size
    return float(-0.5 * (count * np.log(max(squares / count, 1e-12)) + log_determinants))


def _common_patterns(
    log_times: Numbers, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], Numbers]]:
    """Yield a sample of rows and their centred log seconds, for the commonest patterns."""
    for known, columns in islice(known_alike(np.isfinite(log_times)), _PATTERNS_TO_CHOOSE_ON):
        rows = _sampled(np.flatnonzero(known), _POINTS_TO_CHOOSE_ON, rng)
        values = log_times[np.ix_(rows, columns)]
        yield rows, values - values.mean(axis=0)


def _sampled(rows: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


LENGTHS = (3.0, 1.5, 1.5)
"""Octaves of message size, nodes and processes per node over which a difference persists."""
NOISE = 0.3
"""Variance of what a single cell says, in units of the process's variance."""
_MOST_POINTS = 600


def interpolated(found: CellMatrix, differences: Numbers, at: CellMatrix, common: float) -> Numbers:
    """Return what `differences` at the n instances found suggest at m others, shape (m, K).

    Differences (n, K) are NaN where unknown; of more than 600 instances evenly chosen ones are
    used. `common` is the variance of what all instances share, in units of that of the rest.
    Columns of which nothing is known are zero.
    """
    rows = np.unique(np.linspace(0, len(found) - 1, min(len(found), _MOST_POINTS)).astype(np.int64))
    points, values = _places(found)[rows], differences[rows]
    among = radial(points, points) + common + NOISE * np.eye(len(points))
    towards = radial(_places(at), points) + common
    result = np.zeros((len(at), values.shape[1]))
    for seen, columns in known_alike(np.isfinite(values)):
        factor = cho_factor(among[np.ix_(seen, seen)], lower=True)
        result[:, columns] = towards[:, seen] @ cho_solve(factor, values[np.ix_(seen, columns)])
    return result


def _places(cells: CellMatrix) -> Numbers:
    """Return the instances' places in units of `LENGTHS`, (n, 3)."""
    logs = feature_set("log").matrix(cells.nodes, cells.ppn, cells.msize_bytes)
    return np.asarray(logs / np.array(LENGTHS))
