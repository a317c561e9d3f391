"""Weights of tested instances by the time that an application spends on them.

A use of a profile (collective, communicator, message-size bin) goes to the tested instances of its
collective and shape whose message size is nearest in octaves to its mean size, and at most two
octaves away; where several folds test the same instance, they share it. Uses without such an
instance are not covered; instances without a use do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colltune.dataset.profile import Profile, Use
from colltune.evaluation.folds import Fold, SplitError
from colltune.models.cells import CellMatrix

Numbers = NDArray[np.float64]
_MOST_OCTAVES = 2.0


@dataclass(frozen=True)
class Weighting:
    """What the weights of an evaluation are by.

    ``profile`` is the digest of the profile, ``covered`` the share of its time in collectives that
    tested instances stand for, ``not_covered`` the collectives with the rest of it, the longest
    first.
    """

    profile: str
    covered: float
    not_covered: tuple[str, ...]

    @property
    def note(self) -> str:
        rest = f"; the rest is in {', '.join(self.not_covered)}" if self.not_covered else ""
        return (
            f"instances count by the application's time; {self.covered:.1%} of its time in"
            f" collectives is covered{rest}"
        )


def weigh(folds: Sequence[Fold], profile: Profile) -> tuple[list[Fold], list[Numbers], Weighting]:
    """Keep what `profile` gives a weight: folds with their weights (n), the mean weight 1."""
    weights = [np.zeros(len(fold.testing)) for fold in folds]
    total_s = max(profile.collectives_s, 1e-300)
    missing: dict[str, float] = {}
    for use in profile.uses:
        found = _nearest(use, folds)
        for number, rows in found:
            weights[number][rows] += use.process_s / sum(len(r) for _, r in found)
        if not found:
            name = use.kind.collective.value
            missing[name] = missing.get(name, 0.0) + use.process_s / total_s
    given = float(sum(w.sum() for w in weights))
    if given <= 0:
        raise SplitError(
            "the application spends no time on any tested instance; measure its shapes and message"
            " sizes: colltune measure --profile"
        )
    count = sum(int((w > 0).sum()) for w in weights)
    kept = [
        (_rows(f, w > 0), w[w > 0] * count / given) for f, w in zip(folds, weights, strict=True)
    ]
    kept = [(fold, w) for fold, w in kept if len(w)]
    rest = tuple(f"{name} ({s:.1%})" for name, s in sorted(missing.items(), key=lambda m: -m[1]))
    weighting = Weighting(profile.digest, given / total_s, rest)
    return [fold for fold, _ in kept], [w for _, w in kept], weighting


def _rows(fold: Fold, mask: NDArray[np.bool_]) -> Fold:
    return replace(fold, testing=fold.testing.rows(mask), variance=fold.variance[mask])


def _nearest(use: Use, folds: Sequence[Fold]) -> list[tuple[int, NDArray[np.int64]]]:
    """Return the rows of each fold that stand for the use, by the fold's number."""
    sizes = [_sizes(use, fold.testing) for fold in folds]
    every = np.concatenate(sizes) if sizes else np.zeros(0)
    apart = np.abs(_octaves(every) - float(_octaves(np.array([use.msize_bytes]))[0]))
    if not np.isfinite(apart).any() or np.nanmin(apart) > _MOST_OCTAVES:
        return []
    size = every[np.nanargmin(apart)]
    found = [(number, np.flatnonzero(there == size)) for number, there in enumerate(sizes)]
    return [(number, rows) for number, rows in found if len(rows)]


def _sizes(use: Use, cells: CellMatrix) -> Numbers:
    """Return the message sizes (n) of a fold's instances, NaN where they are of another kind."""
    shape = use.kind.shape
    if shape is None or cells.collective is not use.kind.collective:
        return np.full(len(cells), np.nan)
    alike = (cells.nodes == shape.nodes) & (cells.ppn == shape.ppn)
    return np.where(alike, cells.msize_bytes.astype(np.float64), np.nan)


def _octaves(sizes: Numbers | NDArray[np.int64]) -> Numbers:
    """Return message sizes on a scale on which 0 bytes are an octave below 1."""
    known = np.asarray(sizes, np.float64)
    return np.where(known == 0, -1.0, np.log2(np.where(known == 0, 1.0, known)))
