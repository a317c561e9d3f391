"""The level of a collective's runtimes: the mean of a Gaussian process on log seconds.

The kernel is a product of Matérn 5/2 functions, one per input, around a mean that is linear in some
of the inputs (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, sec. 2.7 and
4.2). Inputs take few distinct values each, so that the factors are looked up, not computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors.protocol import Arrays, Numbers

_CHUNK_ELEMENTS = 500_000


def matern(left: Numbers, right: Numbers, length: float) -> Numbers:
    """Return the Matérn 5/2 correlations of `left` (n) and `right` (m), shape (n, m)."""
    apart = np.sqrt(5.0) / length * np.abs(left[:, None] - right)
    return np.asarray((1.0 + apart + apart**2 / 3.0) * np.exp(-apart))


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


def correlations(inputs: Numbers, points: Numbers, lengths: Numbers) -> Numbers:
    """Return the products of `matern` over d inputs, of (n, d) with points (P, d), shape (n, P)."""
    result = np.ones((len(inputs), len(points)))
    for column, point, length in zip(inputs.T, points.T, lengths.tolist(), strict=True):
        queries, query_of = distinct(column)
        values, value_of = distinct(point)
        result *= matern(queries, values, length)[:, value_of][query_of]
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
        near = matern(inputs, self.points, self.length)
        rest = np.einsum("ij,ij->i", near, self.weights[line])
        return np.asarray(self.offsets[line] + self.slope * inputs + rest)

    def and_also(self, other: LevelLines) -> LevelLines:
        """Return the lines of both."""
        return self._replace(
            offsets=np.append(self.offsets, other.offsets),
            weights=np.concatenate([self.weights, other.weights]),
        )


@dataclass(frozen=True, eq=False)
class Level:
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
            return correlations(inputs, self.points, self.lengths)
        return correlations(inputs[:, among], self.points[:, among], self.lengths[among])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields."""
        return dict(self.__dict__)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        return cls(**arrays)
