"""What two bundles decide differently, and by how much predicted time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from colltune.decisions import Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import BundleError, LibraryError, say
from colltune.models.bundle import Bundle
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Target, selector_for
from colltune.selector.decision_table import intervals, largest_msize
from colltune.text import computed

Intervals = tuple[Interval, ...]
MOST_SHAPES = 16
"""That `thinned` leaves."""


@dataclass(frozen=True)
class PredictedTimes:
    """What a bundle's models predict; None where they cannot."""

    old_s: float | None
    """runtime of the old choice"""
    new_s: float | None
    """runtime of the new choice"""

    @computed
    def ratio(self) -> float | None:
        """By which factor the new choice is faster; below 1 it is slower."""
        if self.old_s is None or self.new_s is None:
            return None
        return self.old_s / self.new_s


@dataclass(frozen=True)
class DecisionChange:
    """A range of message sizes that is decided differently, with times at its geometric middle."""

    collective: Collective
    shape: Shape
    first_bytes: int
    last_bytes: int | None
    old: Configuration
    """id of the old choice"""
    new: Configuration
    """id of the new choice"""
    at_bytes: int
    """message size that the runtimes are for"""
    by_new: PredictedTimes
    """what the new bundle predicts"""
    by_old: PredictedTimes
    """what the old bundle predicts"""


@dataclass(frozen=True)
class Extent:
    """How much was compared and changed."""

    compared: float
    """octaves of message size, added up over shapes"""
    changed: float
    """those that are decided differently"""
    mean_ratio: float | None
    """geometric mean of the predicted gain of the changes"""

    @computed
    def share(self) -> float:
        """Share of the decisions that change."""
        return self.changed / self.compared if self.compared else 0.0


@dataclass(frozen=True)
class BundleDiff:
    """What changes when a bundle comes into force instead of another."""

    old: str
    """id of the old bundle"""
    new: str
    """id of the new bundle"""
    shapes: tuple[Shape, ...]
    """shapes that were compared"""
    extents: dict[Collective, Extent]
    """by collective: how much changes"""
    changes: tuple[DecisionChange, ...]
    """decisions that change"""

    def ranked(self) -> list[DecisionChange]:
        """Return the changes whose effect is known, those with the largest one first."""
        known = [(abs(math.log(c.by_new.ratio)), c) for c in self.changes if c.by_new.ratio]
        return [change for _, change in sorted(known, key=lambda pair: -pair[0])]


def mean_ratio(changes: Sequence[DecisionChange]) -> float | None:
    """Return by which factor new choices are faster, the geometric mean of what is known."""
    ratios = [change.by_new.ratio for change in changes]
    logs = [math.log(ratio) for ratio in ratios if ratio]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def thinned(old: Bundle, new: Bundle) -> list[Shape]:
    """Return the shapes that either was trained on, evenly thinned where they are many."""
    shapes = sorted({*old.training_shapes, *new.training_shapes})
    step = (len(shapes) - 1) / (MOST_SHAPES - 1)
    return shapes if step <= 1 else [shapes[round(k * step)] for k in range(MOST_SHAPES)]


def diff(
    old: Bundle,
    new: Bundle,
    shapes: Sequence[Shape] | None = None,
    collectives: Sequence[Collective] | None = None,
) -> BundleDiff:
    """Compare the decisions of two bundles for the communicators of whole jobs.

    Decisions are those that would be written for the release that a bundle was measured with, where
    colltune knows it. A collective that a bundle lacks is left to the library by it. By default all
    shapes that either bundle was trained on and all collectives of either are compared.
    """
    libraries = [bundle.context.library for bundle in (old, new)]
    if libraries[0] != libraries[1]:
        what, names = "bundles", ", ".join(libraries)
        raise say("libraries-differ", BundleError, what=what, done="compared", libraries=names)
    if shapes is None:
        shapes = sorted({*old.training_shapes, *new.training_shapes})
    if collectives is None:
        collectives = sorted({*old.collectives, *new.collectives})
    sides = _Side(old), _Side(new)
    extents: dict[Collective, Extent] = {}
    changes: list[DecisionChange] = []
    for collective in collectives:
        rows = [side.decisions(collective, shapes) for side in sides]
        bound = max(side.bound(collective) for side in sides)
        found = [
            difference
            for shape, before, after in zip(shapes, *rows, strict=True)
            for difference in _differences(shape, before, after)
        ]
        middles = [Interval(d.first_bytes, d.last_bytes, d.new).middle(bound) for d in found]
        by_old, by_new = (side.times_s(collective, found, middles) for side in sides)
        own: list[DecisionChange] = []
        for d, middle, *times_s in zip(found, middles, by_new, by_old, strict=True):
            judged = (PredictedTimes(known.get(d.old), known.get(d.new)) for known in times_s)
            own.append(DecisionChange(collective, *d, middle, *judged))
        compared, changed = len(shapes) * math.log2(bound + 1), sum(d.octaves(bound) for d in found)
        extents[collective] = Extent(compared, changed, mean_ratio(own))
        changes += own
    return BundleDiff(old.id, new.id, tuple(shapes), extents, tuple(changes))


class _Side:
    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        context = bundle.context
        try:
            target = Target.named(context.library, context.library_version)
            self.selector = selector_for(bundle, target)
        except LibraryError:
            self.selector = ModelSelector(bundle)

    def decisions(self, collective: Collective, shapes: Sequence[Shape]) -> list[Intervals]:
        if collective not in self.bundle.collectives:
            return [(Interval(0, None, self.selector.default(collective)),)] * len(shapes)
        return [intervals(self.selector, collective, s, describe=False) for s in shapes]

    def bound(self, collective: Collective) -> int:
        """Return the largest message that the bundle says anything of."""
        known = collective in self.bundle.collectives
        return largest_msize(self.selector, collective) + 1 if known else 1

    def times_s(
        self, collective: Collective, found: Sequence[_Difference], at_bytes: Sequence[int]
    ) -> list[dict[Configuration, float]]:
        """Return for each difference what every configuration is predicted to take."""
        if collective not in self.bundle.collectives or not found:
            return [{} for _ in found]
        model = self.bundle.model(collective)
        nodes, ppn = ([getattr(d.shape, name) for d in found] for name in ("nodes", "ppn"))
        rows = model.forecast(nodes, ppn, at_bytes).time_s.tolist()
        return [dict(zip(model.configurations, row, strict=True)) for row in rows]


class _Difference(NamedTuple):
    """A range that two bundles decide differently."""

    shape: Shape
    first_bytes: int
    last_bytes: int | None
    old: Configuration
    new: Configuration

    def octaves(self, bound: int) -> float:
        last = bound if self.last_bytes is None else min(self.last_bytes, bound)
        return max(0.0, math.log2(last + 1) - math.log2(max(self.first_bytes, 1)))


def _differences(shape: Shape, before: Intervals, after: Intervals) -> list[_Difference]:
    """Return the ranges in which two rows of adjacent intervals differ, as long as they can be."""
    starts = sorted({i.first_bytes for i in (*before, *after)})
    ends: list[int | None] = [start - 1 for start in starts[1:]]
    found: list[_Difference] = []
    for first, last in zip(starts, [*ends, None], strict=True):
        old, new = (next(i.configuration for i in row if i.holds(first)) for row in (before, after))
        if found and found[-1][3:] == (old, new) and found[-1].last_bytes == first - 1:
            found[-1] = found[-1]._replace(last_bytes=last)
        elif old != new:
            found.append(_Difference(shape, first, last, old, new))
    return found
