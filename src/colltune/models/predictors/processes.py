"""Gaussian processes' means on log seconds; configurations measured alike share their points.

Each is a linear function of the inputs plus a weighted sum of its kernel at the measured points, as
in `colltune.models.predictors.level`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors.level import correlations, summed
from colltune.models.predictors.protocol import Arrays, Numbers

_CHUNK_ELEMENTS = 500_000
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class Site:
    """The points that some configurations were measured at.

    ``columns`` (d) are the features that are inputs; inputs are ``(feature - center) / scale``.
    ``points`` (P, d) are inputs already, ``lengths`` (d) the kernel's. ``weights`` (P, c),
    ``slopes`` (d, c) and ``offsets`` (c) belong to the output columns ``outputs`` (c).
    """

    columns: NDArray[np.int64]
    center: Numbers
    scale: Numbers
    lengths: Numbers
    points: Numbers
    weights: Numbers
    slopes: Numbers
    offsets: Numbers
    outputs: NDArray[np.int64]

    def log_time(self, X: Numbers) -> Numbers:
        """Return log seconds (n, c) for features (n, k)."""
        inputs = (X[:, self.columns] - self.center) / self.scale
        result = summed(inputs, self.slopes) + self.offsets
        rows = max(1, _CHUNK_ELEMENTS // max(1, len(self.points)))
        for first in range(0, len(X), rows):
            part = slice(first, first + rows)
            near = correlations(inputs[part], self.points, self.lengths)
            # einsum over rows one after another in memory, each of which it adds up alike
            result[part] += np.einsum("ij,jc->ic", near, self.weights)
        return result


_FIELDS = tuple(field.name for field in fields(Site))


@dataclass(frozen=True, eq=False)
class Processes:
    """``exp`` of the processes' means, in seconds."""

    kind: ClassVar[str] = "processes"
    sites: tuple[Site, ...]

    @property
    def n_outputs(self) -> int:
        """Number of configurations."""
        return sum(len(site.outputs) for site in self.sites)

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C)."""
        result = np.empty((len(X), self.n_outputs))
        for site in self.sites:
            result[:, site.outputs] = site.log_time(X)
        return np.exp(np.clip(result, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields of all sites, flat and concatenated, with their lengths."""
        sizes = [[len(s.columns), len(s.points), len(s.outputs)] for s in self.sites]
        joined = {
            name: np.concatenate([getattr(s, name).ravel() for s in self.sites]) for name in _FIELDS
        }
        return {"sizes": np.array(sizes), **joined}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        d, n_points, n_outputs = arrays["sizes"].T
        shapes = {
            **dict.fromkeys(("columns", "center", "scale", "lengths"), (d,)),
            "points": (n_points, d),
            "weights": (n_points, n_outputs),
            "slopes": (d, n_outputs),
            **dict.fromkeys(("offsets", "outputs"), (n_outputs,)),
        }
        parts = []
        for name in _FIELDS:
            ends = np.cumsum(np.prod(shapes[name], axis=0))
            flat = np.split(arrays[name], ends[:-1])
            sizes = np.stack(shapes[name], axis=1).tolist()
            parts.append([f.reshape(shape) for f, shape in zip(flat, sizes, strict=True)])
        return cls(tuple(Site(*values) for values in zip(*parts, strict=True)))

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Put outputs side by side."""
        sites: list[Site] = []
        offset = 0
        for predictor in predictors:
            sites += [replace(s, outputs=s.outputs + offset) for s in predictor.sites]
            offset += predictor.n_outputs
        return cls(tuple(sites))
