"""Logarithms of runtimes on grids of features, multilinear between the knots and constant outside.

Configurations measured on the same grid share its knots, and hence the search among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors.protocol import Arrays, Numbers


@dataclass(frozen=True, eq=False)
class Sheet:
    """One grid: ``knots`` are d ascending vectors, one per feature, none of them empty.

    ``log_times`` has a dimension per feature and one for the output columns ``outputs`` (c).
    """

    knots: tuple[Numbers, ...]
    log_times: Numbers
    outputs: NDArray[np.int64]

    def at(self, X: Numbers) -> Numbers:
        """Return log times (n, c); features behind the d-th are not looked at."""
        result = np.zeros((len(X), len(self.outputs)))
        for corner, weight in corners(X, self.knots):
            result += weight[:, None] * self.log_times[corner]
        return result


def corners(
    X: Numbers, knots: Sequence[Numbers]
) -> Iterator[tuple[tuple[NDArray[np.int64], ...], Numbers]]:
    """Yield the grid points around instances (n, at least d) and their weights in interpolation.

    Each grid point is given by its d numbers, each (n), with the weights (n); grid points without
    any weight are left out.
    """
    places = [_place(column, axis) for column, axis in zip(X.T, knots, strict=False)]
    for upper in product((0, 1), repeat=len(places)):
        weight = np.ones(len(X))
        for side, (_, share) in zip(upper, places, strict=True):
            weight = weight * (share if side else 1.0 - share)
        if weight.any():
            yield tuple(low + side for side, (low, _) in zip(upper, places, strict=True)), weight


def _place(values: Numbers, knots: Numbers) -> tuple[NDArray[np.int64], Numbers]:
    """Return the knot below each value (n), and how far it is to the next, from 0 to 1."""
    if len(knots) == 1:
        return np.zeros(len(values), np.int64), np.zeros(len(values))
    clipped = np.clip(values, knots[0], knots[-1])
    low = np.clip(np.searchsorted(knots, clipped, side="right") - 1, 0, len(knots) - 2)
    return low, (clipped - knots[low]) / (knots[low + 1] - knots[low])


@dataclass(frozen=True, eq=False)
class Grids:
    """``exp`` of multilinear interpolation on the `sheets`' grids, in seconds."""

    kind: ClassVar[str] = "grid"
    sheets: tuple[Sheet, ...]

    @property
    def n_outputs(self) -> int:
        """Number of configurations."""
        return sum(len(sheet.outputs) for sheet in self.sheets)

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C)."""
        result = np.empty((len(X), self.n_outputs))
        for sheet in self.sheets:
            result[:, sheet.outputs] = sheet.at(X)
        return np.exp(result)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return knots and log times of all sheets, concatenated, with their lengths."""
        return {
            "sheet_knots": np.array([[len(k) for k in s.knots] for s in self.sheets]),
            "sheet_outputs": np.array([len(s.outputs) for s in self.sheets]),
            "knots": np.concatenate([k for s in self.sheets for k in s.knots]),
            "log_times": np.concatenate([s.log_times.ravel() for s in self.sheets]),
            "outputs": np.concatenate([s.outputs for s in self.sheets]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        counts, n_outputs = arrays["sheet_knots"], arrays["sheet_outputs"]
        knots = iter(np.split(arrays["knots"], np.cumsum(counts.ravel())[:-1]))
        sizes = counts.prod(axis=1) * n_outputs
        times = np.split(arrays["log_times"], np.cumsum(sizes)[:-1])
        outputs = np.split(arrays["outputs"], np.cumsum(n_outputs)[:-1])
        sheets = (
            Sheet(tuple(next(knots) for _ in shape), t.reshape(*shape, len(o)), o)
            for shape, t, o in zip(counts.tolist(), times, outputs, strict=True)
        )
        return cls(tuple(sheets))

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Put outputs side by side; sheets with equal knots become one."""
        groups: dict[tuple[bytes, ...], list[Sheet]] = {}
        offset = 0
        for predictor in predictors:
            for sheet in predictor.sheets:
                moved = Sheet(sheet.knots, sheet.log_times, sheet.outputs + offset)
                groups.setdefault(tuple(k.tobytes() for k in sheet.knots), []).append(moved)
            offset += predictor.n_outputs
        sheets = (
            Sheet(
                group[0].knots,
                np.concatenate([s.log_times for s in group], axis=-1),
                np.concatenate([s.outputs for s in group]),
            )
            for group in groups.values()
        )
        return cls(tuple(sheets))
