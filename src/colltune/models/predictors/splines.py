"""Additive splines under a logarithmic link, one output per configuration.

`Splines` are cubic B-splines evaluated as pygam evaluates them. The basis is the uniform B-spline
of Eilers and Marx (Statistical Science 11(2), 1996), piece by piece as a polynomial; beyond the
outer knots it goes on linearly.

`NaturalSplines` have knots anywhere. A natural cubic spline is given by its values at the knots:
among the curves through them it bends least, and beyond the outer ones it is straight (Green and
Silverman, *Nonparametric Regression and Generalized Linear Models*, 1994, sec. 2.2). With two knots
it is a straight line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors import ArrayFields, Numbers
from colltune.models.predictors.level import distinct

ORDER = 3
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class Splines(ArrayFields):
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
        return len(self.intercepts)

    def predict(self, X: Numbers) -> Numbers:
        exponents = np.tile(self.intercepts, (len(X), 1))
        for feature, column in enumerate(X.T):
            values, places = distinct(column)
            for (low, high, size), members in self._alike(feature).items():
                first, weights = _at_work(values, low, high, size)
                coefficients = self.coefficients[members, feature].T
                for k, weight in enumerate(weights):
                    exponents[:, members] += (weight[:, None] * coefficients[first + k])[places]
        return _exp(exponents)

    def _alike(self, feature: int) -> dict[tuple[float, float, int], list[int]]:
        """Group the outputs whose splines on `feature` share one basis."""
        groups: dict[tuple[float, float, int], list[int]] = {}
        for output, size in enumerate(self.sizes[:, feature].tolist()):
            if size:
                low, high = self.knots[output, feature].tolist()
                groups.setdefault((low, high, size), []).append(output)
        return groups

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
    """Return the cubic B-splines between the outer knots `low` and `high` at `x`, (n, size)."""
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


def natural_spline(x: Numbers, knots: Numbers, values: Numbers, bends: Numbers) -> Numbers:
    """Return at points (n) a spline of ascending knots, values and second derivatives there."""
    inside = np.clip(x, knots[0], knots[-1])
    low = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
    gap = knots[low + 1] - knots[low]
    right = (inside - knots[low]) / gap
    left = 1.0 - right
    bent = (left**3 - left) * bends[low] + (right**3 - right) * bends[low + 1]
    result = left * values[low] + right * values[low + 1] + gap**2 / 6.0 * bent
    gaps, rises = np.diff(knots), np.diff(values)
    first = rises[0] / gaps[0] - gaps[0] * bends[1] / 6.0
    last = rises[-1] / gaps[-1] + gaps[-1] * bends[-2] / 6.0
    return np.asarray(result + np.where(x < knots[0], first, last) * (x - inside))


@dataclass(frozen=True, eq=False)
class NaturalSplines(ArrayFields):
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
        return len(self.intercepts)

    def predict(self, X: Numbers) -> Numbers:
        exponents = np.tile(self.intercepts, (len(X), 1))
        ends = np.cumsum(self.counts.ravel()).reshape(self.counts.shape)
        for output, feature in np.argwhere(self.counts).tolist():
            end = int(ends[output, feature])
            part = slice(end - int(self.counts[output, feature]), end)
            curve = self.knots[part], self.values[part], self.bends[part]
            exponents[:, output] += natural_spline(X[:, feature], *curve)
        return _exp(exponents)

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        parts = [p.arrays() for p in predictors]
        return cls(**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def _exp(exponents: Numbers) -> Numbers:
    return np.exp(np.clip(exponents, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
