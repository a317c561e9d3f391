"""The level of a collective's runtimes: the mean of a Gaussian process on log seconds.

The kernel is a product of Matérn 5/2 functions, one per input, around a mean that is linear in some
of the inputs (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, sec. 2.7 and
4.2). Inputs take few distinct values each, so that the factors are looked up, not computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

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
        result: Numbers = inputs @ self.slopes + self.offset[0]
        rows = max(1, _CHUNK_ELEMENTS // max(1, len(self.points)))
        for first in range(0, len(X), rows):
            part = slice(first, first + rows)
            # einsum, because a row must not depend on which others it is computed with
            result[part] += np.einsum("ij,j->i", self._correlations(inputs[part]), self.weights)
        return result

    def _correlations(self, inputs: Numbers) -> Numbers:
        result = np.ones((len(inputs), len(self.points)))
        for column, point, length in zip(inputs.T, self.points.T, self.lengths, strict=True):
            queries, query_of = distinct(column)
            values, value_of = distinct(point)
            result *= matern(queries, values, float(length))[:, value_of][query_of]
        return result

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields."""
        return dict(self.__dict__)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        return cls(**arrays)
