"""The level of a collective's runtimes: the mean of a Gaussian process on log seconds.

The kernel is a product of Matérn 5/2 functions, one per input, around a mean that is linear in some
of the inputs (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, sec. 2.7 and
4.2). Inputs take few distinct values each, so that the factors are looked up, not computed. All
Gaussian processes of colltune have their kernel from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors import ArrayFields, Numbers

_CHUNK_ELEMENTS = 500_000


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


def distinct(column: Numbers) -> tuple[Numbers, NDArray[np.intp]]:
    """Return the distinct values, ascending, and the place of each element among them.

    As ``np.unique``, which would import ``numpy.ma``.
    """
    ordered = np.sort(column)
    values = ordered[np.append(True, np.diff(ordered) > 0)[: len(ordered)]]
    return values, np.searchsorted(values, column)


def summed(left: Numbers, right: Numbers) -> Numbers:
    """Return ``left @ right`` of (n, k) and (k, c) or (k), added up term after term.

    Linear algebra libraries add in an order that hangs on the processor, the number of rows and how
    they lie in memory; here a row comes out the same whatever others it is computed with.
    """
    result: Numbers = np.zeros((len(left), *right.shape[1:]))
    for column, weights in zip(left.T, right, strict=True):
        result += np.multiply.outer(column, weights)
    return result


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
