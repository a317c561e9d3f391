"""Additive B-splines under a logarithmic link, evaluated as pygam evaluates them.

The basis is the uniform B-spline of Eilers and Marx (Statistical Science 11(2), 1996) by the
recursion of Hastie et al., *The Elements of Statistical Learning*, appendix to ch. 5; beyond the
outer knots it goes on linearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors.level import distinct, summed
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
                basis = bspline_basis(values, low, high, size)
                weights = self.coefficients[members, feature, :size]
                exponents[:, members] += summed(basis, weights.T)[places]
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
    width = high - low if high > low else 1.0
    at = (x - low) / width
    inner = np.linspace(0.0, 1.0, 1 + size - ORDER)
    step = float(inner[1])
    outside = np.arange(1, ORDER + 1) * step
    knots = np.concatenate([-outside[::-1], inner, 1 + outside])
    knots[-1] += 1e-9
    basis, _ = _recursion(np.clip(at, 0.0, 1.0), knots)
    beyond = np.flatnonzero((at < 0) | (at > 1))
    if len(beyond):
        edge = np.where(at[beyond] < 0, 0.0, 1.0)
        values, lower_order = _recursion(edge, knots)
        rise = lower_order / (knots[ORDER:] - knots[:-ORDER])
        gradient = ORDER * (rise[:, :-1] - rise[:, 1:])
        basis[beyond] = values + gradient * (at[beyond] - edge)[:, None]
    return basis


def _recursion(at: Numbers, knots: Numbers) -> tuple[Numbers, Numbers]:
    """Return the splines of `ORDER` at points in [0, 1], and those of one order less."""
    x = at[:, None]
    basis = ((x >= knots[:-1]) & (x < knots[1:])).astype(np.float64)
    ends = at == 1.0
    if ends.any():
        # The last inner interval includes its right end, the mirror image of the first.
        start = (knots[:-1] <= 0.0) & (knots[1:] > 0.0)
        basis[ends] = start[::-1].astype(np.float64)
    lower = basis
    for order in range(1, ORDER + 1):
        lower = basis
        n = basis.shape[1] - 1
        left = (x - knots[:n]) / (knots[order : n + order] - knots[:n])
        right = (knots[order + 1 : n + order + 1] - x) / (
            knots[order + 1 : n + order + 1] - knots[1 : n + 1]
        )
        basis = left * basis[:, :n] + right * basis[:, 1 : n + 1]
    return basis, lower
