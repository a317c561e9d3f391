"""Gaussian processes on log seconds: what fills gaps, and the level of a collective's runtimes.

The kernel is a product of Matérn 5/2 functions, one per input, around a mean that is linear in some
of the inputs (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, sec. 2.7 and
4.2). Inputs take few distinct values each, so that the factors are looked up, not computed. All
Gaussian processes of colltune have their kernel from here. To predict takes numpy alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.models.learners import ArrayFields, Numbers, distinct, summed

Flags = NDArray[np.bool_]
_CHUNK_ELEMENTS = 500_000
_LENGTHS, _START = (0.2, 0.5, 1.2, 3.0, 10.0), 1.2
_NOISES, _SWEEPS = (0.03, 0.1, 0.3), 2
_POINTS_TO_CHOOSE_ON, _PATTERNS_TO_CHOOSE_ON = 120, 2
_OFFSET_VARIANCE, _SLOPE_VARIANCE = 100.0, 3.0


def matern(apart: Numbers) -> Numbers:
    """Return the Matérn 5/2 correlations over distances in lengths, times the root of 5."""
    return np.asarray((1.0 + apart + apart**2 / 3.0) * np.exp(-apart))


def along_one(left: Numbers, right: Numbers, length: float) -> Numbers:
    """Return the correlations of `left` (n) and `right` (m) over one input, shape (n, m)."""
    return matern(np.sqrt(5.0) / length * np.abs(left[:, None] - right))


def radial(left: Numbers, right: Numbers) -> Numbers:
    """Return the correlations of (n, d) and (m, d) over their distance, inputs in lengths."""
    squares = sum((left[:, [k]] - right[:, k]) ** 2 for k in range(left.shape[1]))
    return matern(np.sqrt(5.0 * squares))


def known_alike(known: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """Yield the rows (n) with the columns that are known there, of (n, C), the commonest first.

    Such columns share the work, and mostly all do. Columns without any row are left out.
    """
    patterns, pattern_of, counts = np.unique(known, axis=1, return_inverse=True, return_counts=True)
    for number in np.argsort(-counts, kind="stable").tolist():
        rows = patterns[:, number]
        if rows.any():
            yield rows, np.flatnonzero(pattern_of.ravel() == number)


def looked_up(left: Numbers, right: Numbers, length: float) -> Numbers:
    """Return `along_one`, computed once for each two distinct values."""
    (rows, row_of), (columns, column_of) = distinct(left), distinct(right)
    return np.asarray(along_one(rows, columns, length)[:, column_of][row_of])


def product(left: Numbers, right: Numbers, lengths: Numbers) -> Numbers:
    """Return the products of the correlations over d inputs of (n, d) and (m, d), shape (n, m)."""
    result = np.ones((len(left), len(right)))
    for one, other, length in zip(left.T, right.T, lengths.tolist(), strict=True):
        result *= looked_up(one, other, length)
    return result


class LevelLines(NamedTuple):
    """Levels of L lines along one input ``(position - center) / scale``.

    ``offsets`` (L); ``slope``; ``points`` (S) and ``weights`` (L, S) of the correlations along it.
    """

    offsets: Numbers
    weights: Numbers
    points: Numbers
    center: float
    scale: float
    length: float
    slope: float

    def log_time(self, line: NDArray[np.int64], position: Numbers) -> Numbers:
        """Return log seconds (n) at positions on lines."""
        inputs = (position - self.center) / self.scale
        near = along_one(inputs, self.points, self.length)
        rest = np.einsum("ij,ij->i", near, self.weights[line])
        return np.asarray(self.offsets[line] + self.slope * inputs + rest)

    def and_also(self, other: LevelLines) -> LevelLines:
        """Return the lines of both."""
        return self._replace(
            offsets=np.append(self.offsets, other.offsets),
            weights=np.concatenate([self.weights, other.weights]),
        )


@dataclass(frozen=True, eq=False)
class Level(ArrayFields):
    """``exp(offset + slopes * inputs + correlations with the points @ weights)``, in seconds.

    ``columns`` (d) are the features that are inputs; inputs are ``(feature - center) / scale``.
    ``points`` (P, d) are inputs already, ``lengths`` (d) belong to them, ``weights`` (P).
    """

    columns: NDArray[np.int64]
    center: Numbers
    scale: Numbers
    lengths: Numbers
    points: Numbers
    weights: Numbers
    slopes: Numbers
    offset: Numbers

    def log_time(self, X: Numbers) -> Numbers:
        """Return log seconds (n) for features (n, k)."""
        inputs = (X[:, self.columns] - self.center) / self.scale
        result: Numbers = summed(inputs, self.slopes) + self.offset[0]
        rows = max(1, _CHUNK_ELEMENTS // max(1, len(self.points)))
        for first in range(0, len(X), rows):
            part = slice(first, first + rows)
            # einsum over rows one after another in memory, each of which it adds up alike
            result[part] += np.einsum("ij,j->i", self._correlations(inputs[part]), self.weights)
        return result

    def lines(self, X: Numbers, column: int | None) -> LevelLines:
        """Return the levels along feature `column` through instances with features (L, k)."""
        at = np.flatnonzero(self.columns == (-1 if column is None else column)).tolist()
        if not at:
            return LevelLines(self.log_time(X), np.zeros((len(X), 0)), np.zeros(0), 0, 1, 1, 0)
        axis = at[0]
        inputs = (X[:, self.columns] - self.center) / self.scale
        others = np.arange(len(self.columns)) != axis
        points, place = distinct(self.points[:, axis])
        weights = np.zeros((len(X), len(points)))
        shares = self._correlations(inputs, others) * self.weights
        np.add.at(weights.T, place, shares.T)
        return LevelLines(
            summed(inputs[:, others], self.slopes[others]) + self.offset[0],
            weights,
            points,
            float(self.center[axis]),
            float(self.scale[axis]),
            float(self.lengths[axis]),
            float(self.slopes[axis]),
        )

    def _correlations(self, inputs: Numbers, among: NDArray[np.bool_] | None = None) -> Numbers:
        if among is None:
            return product(inputs, self.points, self.lengths)
        return product(inputs[:, among], self.points[:, among], self.lengths[among])


@dataclass(frozen=True, eq=False)
class StandardisedInputs:
    """Standardised inputs (n, d) made of ``columns`` (d) of a feature matrix.

    ``linear`` (d) tells which of them the mean is linear in: those with more than two values.
    """

    columns: NDArray[np.int64]
    center: Numbers
    scale: Numbers
    values: Numbers
    linear: Flags

    @classmethod
    def of(cls, X: Numbers, columns: Sequence[int]) -> StandardisedInputs:
        """Standardise `columns` of the features `X` (n, k); what never varies is left out."""
        chosen = np.array(columns, np.int64)
        chosen = chosen[np.ptp(X[:, chosen], axis=0) > 0]
        center, scale = X[:, chosen].mean(axis=0), X[:, chosen].std(axis=0)
        linear = np.array([len(distinct(X[:, c])[0]) > 2 for c in chosen.tolist()], np.bool_)
        return cls(chosen, center, scale, (X[:, chosen] - center) / scale, linear)


@dataclass(frozen=True, eq=False)
class SharedProcess:
    """Gaussian processes, one per configuration, with a kernel and noise that are common to all.

    A linear mean with a wide prior and a product of Matérn 5/2 functions of ``lengths`` (d), and a
    ``noise`` variance, all in units of the processes' variance (Rasmussen and Williams, *Gaussian
    Processes for Machine Learning*, 2006, sec. 2.7, 4.2 and 5.4.1). Lengths and noise maximise the
    common marginal likelihood, the variance being eliminated. Costs are bounded: the kernel is
    chosen on few points and cells are predicted from some hundreds.
    """

    inputs: StandardisedInputs
    lengths: Numbers
    noise: float

    @classmethod
    def chosen(
        cls,
        inputs: StandardisedInputs,
        log_times: Numbers,
        least_noise: float,
        rng: np.random.Generator,
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
            weights = self._weights(rows, residuals)
            holes = np.flatnonzero(~known)
            result[np.ix_(holes, columns)] = self._covariance(holes, rows) @ weights + center
        return result

    def level(self, log_times: Numbers, most_points: int, rng: np.random.Generator) -> Level:
        """Return the process after log seconds (n) as a predictor."""
        rows = _sampled(np.arange(len(log_times)), most_points, rng)
        center = log_times[rows].mean()
        points = self.inputs.values[rows]
        weights = self._weights(rows, log_times[rows] - center)
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

    def _weights(self, rows: NDArray[np.int64], residuals: Numbers) -> Numbers:
        from scipy.linalg import cho_factor, cho_solve

        covariance = self._covariance(rows, rows)
        covariance[np.diag_indices(len(rows))] += self.noise
        factor = cho_factor(covariance, lower=True, overwrite_a=True)
        return np.asarray(cho_solve(factor, residuals))


class _Sample(NamedTuple):
    """Some instances of which the same configurations are known.

    ``residuals`` (n, c) are their centred log seconds; ``correlations`` (d, L, n, n) those of each
    input for each of `_LENGTHS`, ``linear`` (n, n) the covariances of the linear mean.
    """

    residuals: Numbers
    correlations: Numbers
    linear: Numbers

    @classmethod
    def of(cls, inputs: StandardisedInputs, rows: NDArray[np.int64], residuals: Numbers) -> _Sample:
        values = inputs.values[rows]
        correlations = [[looked_up(v, v, length) for length in _LENGTHS] for v in values.T]
        sloped = values[:, inputs.linear]
        linear = _OFFSET_VARIANCE + _SLOPE_VARIANCE * sloped @ sloped.T
        shape = (len(values.T), len(_LENGTHS), len(rows), len(rows))
        return cls(residuals, np.reshape(correlations, shape), np.asarray(linear))


def _likelihood(samples: Sequence[_Sample], lengths: Sequence[int], noise: float) -> float:
    """Return the log marginal likelihood, but for a constant, of lengths by their numbers."""
    from scipy.linalg import cho_factor, cho_solve

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
