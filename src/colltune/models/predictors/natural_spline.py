"""Additive natural cubic splines under a logarithmic link, with knots anywhere.

A natural cubic spline is given by its values at the knots: among the curves through them it bends
least, and beyond the outer ones it is straight (Green and Silverman, *Nonparametric Regression and
Generalized Linear Models*, 1994, sec. 2.2). With two knots it is a straight line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors.protocol import Arrays, Numbers

_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class Curve:
    """One natural cubic spline: ascending ``knots``, ``values`` and second derivatives there."""

    knots: Numbers
    values: Numbers
    bends: Numbers

    def at(self, x: Numbers) -> Numbers:
        """Return the spline at points (n)."""
        knots, values, bends = self.knots, self.values, self.bends
        inside = np.clip(x, knots[0], knots[-1])
        low = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
        gap = knots[low + 1] - knots[low]
        right = (inside - knots[low]) / gap
        left = 1.0 - right
        bent = (left**3 - left) * bends[low] + (right**3 - right) * bends[low + 1]
        result = left * values[low] + right * values[low + 1] + gap**2 / 6.0 * bent
        return np.asarray(result + self._slope(x < knots[0]) * (x - inside))

    def _slope(self, is_below: NDArray[np.bool_]) -> Numbers:
        """Return the slope at the first knot where `is_below`, elsewhere that at the last."""
        gaps = np.diff(self.knots)
        rises = np.diff(self.values)
        first = rises[0] / gaps[0] - gaps[0] * self.bends[1] / 6.0
        last = rises[-1] / gaps[-1] + gaps[-1] * self.bends[-2] / 6.0
        return np.asarray(np.where(is_below, first, last))


@dataclass(frozen=True, eq=False)
class NaturalSplines:
    """``exp(intercept + sum of one curve per feature)``, in seconds.

    ``intercepts`` (C); ``counts`` (C, k) are the knots of each curve, 0 where the feature has no
    effect; ``knots``, ``values`` and ``bends`` hold all curves one after another.
    """

    kind: ClassVar[str] = "natural_spline"
    intercepts: Numbers
    counts: NDArray[np.int64]
    knots: Numbers
    values: Numbers
    bends: Numbers

    @property
    def n_outputs(self) -> int:
        """Number of configurations."""
        return len(self.intercepts)

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C)."""
        exponents = np.tile(self.intercepts, (len(X), 1))
        ends = np.cumsum(self.counts.ravel()).reshape(self.counts.shape)
        for output, feature in np.argwhere(self.counts).tolist():
            end = int(ends[output, feature])
            part = slice(end - int(self.counts[output, feature]), end)
            curve = Curve(self.knots[part], self.values[part], self.bends[part])
            exponents[:, output] += curve.at(X[:, feature])
        return np.exp(np.clip(exponents, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields."""
        return {
            "intercepts": self.intercepts,
            "counts": self.counts,
            "knots": self.knots,
            "values": self.values,
            "bends": self.bends,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        names = ("intercepts", "counts", "knots", "values", "bends")
        return cls(*(arrays[name] for name in names))

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Put outputs side by side."""
        names = ("intercepts", "counts", "knots", "values", "bends")
        return cls(*(np.concatenate([getattr(p, name) for p in predictors]) for name in names))
