"""What one bundle decides differently from another: in figures, and on the fields of a map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colltune.domain import Collective, Shape
from colltune.json_text import DescribedRecord
from colltune.models.bundle import Bundle
from colltune.page.facts import BundleFacts
from colltune.plot_data.decisions import Grid

if TYPE_CHECKING:
    from colltune.selector.bundle_diff import DecisionChange

_MOST_ROWS = 12


@dataclass(frozen=True)
class Changed(DescribedRecord):
    """What was decided, what is decided now, and by how much that is predicted to be faster."""

    old: str
    """algorithm and parameters before"""
    new: str
    """the same now"""
    ratio: float | None
    """as the new models predict"""


@dataclass(frozen=True)
class FieldChange(Changed):
    """Neighbouring fields of one shape of a map that the other bundle decides otherwise."""

    first: int
    """index of `MapView.msize_bytes`"""
    last: int
    """likewise"""
    kind: str
    """begun, ended, or other"""


@dataclass(frozen=True)
class ChangeRow(Changed):
    """A range of message sizes of one shape that is decided differently."""

    mpi_name: str
    nodes: int
    ppn: int
    first_bytes: int
    last_bytes: int | None


@dataclass(frozen=True)
class CollectiveChanges(DescribedRecord):
    """How much of a collective's decisions change."""

    name: str
    mpi_name: str
    share: float
    """of the decisions"""
    ratio: float | None
    """geometric mean where they change"""


@dataclass(frozen=True)
class ChangesView(BundleFacts):
    """What changed from one bundle to another."""

    against: str
    shapes: int
    """how many were compared"""
    ranges: int
    """ranges of message sizes that change"""
    collectives: tuple[CollectiveChanges, ...]
    largest: tuple[ChangeRow, ...]
    """those with most effect"""


def changes_view(old: Bundle, new: Bundle, slot: str) -> ChangesView:
    from colltune.selector.bundle_diff import diff, thinned

    found = diff(old, new, thinned(old, new))
    return ChangesView(
        slot=slot,
        bundle=new.id,
        against=old.id,
        shapes=len(found.shapes),
        ranges=len(found.changes),
        collectives=tuple(
            CollectiveChanges(
                name=collective.value,
                mpi_name=collective.mpi_name,
                share=extent.share,
                ratio=extent.mean_ratio,
            )
            for collective, extent in found.extents.items()
        ),
        largest=tuple(
            ChangeRow(
                mpi_name=change.collective.mpi_name,
                nodes=change.shape.nodes,
                ppn=change.shape.ppn,
                first_bytes=change.first_bytes,
                last_bytes=change.last_bytes,
                **_changed(change),
            )
            for change in found.ranked()[:_MOST_ROWS]
        ),
    )


def field_changes(
    old: Bundle, new: Bundle, collective: Collective, grid: Grid
) -> dict[Shape, tuple[FieldChange, ...]]:
    """Return what changes on the fields of a map, by shape."""
    from colltune.selector.bundle_diff import diff

    found = diff(old, new, grid.shapes, [collective]).changes
    sizes = grid.msize_bytes
    return {
        shape: tuple(_fields([c for c in found if c.shape == shape], sizes))
        for shape in grid.shapes
    }


def _fields(changes: list[DecisionChange], sizes: np.ndarray) -> Iterator[FieldChange]:
    for change in changes:
        first = int(np.searchsorted(sizes, change.first_bytes))
        end = len(sizes)
        if change.last_bytes is not None:
            end = int(np.searchsorted(sizes, change.last_bytes, side="right"))
        if first < end:
            kinds = {change.old.is_default: "begun", change.new.is_default: "ended"}
            kind = kinds.get(True, "other")
            yield FieldChange(first=first, last=end - 1, kind=kind, **_changed(change))


def _changed(change: DecisionChange) -> dict[str, Any]:
    return {"old": change.old.short, "new": change.new.short, "ratio": change.by_new.ratio}
