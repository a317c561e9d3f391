"""Additive B-splines under a logarithmic link, evaluated as pygam evaluates them.

The basis is the uniform B-spline of Eilers and Marx (Statistical Science 11(2), 1996), piece by
piece as a polynomial; beyond the outer knots it goes on linearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors.level import distinct
from colltune.models.predictors.protocol import Arrays, Numbers

ORDER = 3
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class Splines:
    """``exp(intercept + sum of one spline per feature)``, in seconds.

    ``intercepts`` (C); ``knots`` (C, k, 2) are each spline's outer knots; ``coefficients``
    (C, k, S) are padded with zeros behind the ``sizes`` (C, k) that are in use; size 0 means that
    the feature has no effect.
    """

    kind: ClassVar[str] = "spline"
    intercepts: Numbers
    knots: Numbers
    sizes: NDArray[np.int64]
    coefficients: Numbers

    @property
    def n_outputs(self) -> int:
        """Number of configurations."""
        return len(self.intercepts)

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C)."""
        exponents = np.tile(self.intercepts, (len(X), 1))
        for feature, column in enumerate(X.T):
            values, places = distinct(column)
            for (low, high, size), members in self._alike(feature).items():
                first, weights = _at_work(values, low, high, size)
                coefficients = self.coefficients[members, feature].T
                for k, weight in enumerate(weights):
                    exponents[:, members] += (weight[:, None] * coefficients[first + k])[places]
        return np.exp(np.clip(exponents, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))

    def _alike(self, feature: int) -> dict[tuple[float, float, int], list[int]]:
        """Group the outputs whose splines on `feature` share one basis."""
        groups: dict[tuple[float, float, int], list[int]] = {}
        for output, size in enumerate(self.sizes[:, feature].tolist()):
            if size:
                low, high = self.knots[output, feature].tolist()
                groups.setdefault((low, high, size), []).append(output)
        return groups

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields."""
        return {
            "intercepts": self.intercepts,
            "knots": self.knots,
            "sizes": self.sizes,
            "coefficients": self.coefficients,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        return cls(arrays["intercepts"], arrays["knots"], arrays["sizes"], arrays["coefficients"])

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


def bspline_basis(x: Numbers, low: float, high: float, size: int) -> Numbers:
    """Return the `size` cubic B-splines between the outer knots `low` and `high` at `x`.

    Parameters
    ----------
    x
        Points, shape (n); outside the outer knots each spline goes on along its tangent.
    size
        Number of splines, at least ``ORDER + 1``.

    Returns
    -------
    Matrix of shape (n, size).
    """
    first, weights = _at_work(x, low, high, size)
    basis = np.zeros((len(x), size))
    for place, weight in enumerate(weights):
        basis[np.arange(len(x)), first + place] = weight
    return basis


def _at_work(
    x: Numbers, low: float, high: float, size: int
) -> tuple[NDArray[np.int64], tuple[Numbers, ...]]:
    """Return the first of the four splines that are not 0 at `x` (n), and their values (n)."""
    pieces = size - ORDER
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
