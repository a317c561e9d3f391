"""What one bundle decides differently from another: in figures, and on the fields of a map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import Field

from colltune.domain import Collective, Shape
from colltune.models.bundle import Bundle
from colltune.plot_data.decisions import Grid
from colltune.selector.bundle_diff import DecisionChange, diff, thinned
from colltune.server.schemas import (
    BundleId,
    BundleView,
    CollectiveName,
    ConfigurationName,
    MpiName,
    Nodes,
    Ppn,
    View,
)

_MOST_ROWS = 12


class Changed(View):
    """What was decided, what is decided now, and by how much that is predicted to be faster."""

    old: ConfigurationName
    new: ConfigurationName
    ratio: float | None = Field(description="as the new models predict", examples=[1.2])


class FieldChange(Changed):
    """Neighbouring fields of one shape of a map that the other bundle decides otherwise."""

    first: int = Field(description="index of `MapView.msize_bytes`", examples=[3])
    last: int = Field(description="likewise", examples=[5])
    kind: str = Field(description="begun, ended, or other", examples=["begun"])


class ChangeRow(Changed):
    """A range of message sizes of one shape that is decided differently."""

    mpi_name: MpiName
    nodes: Nodes
    ppn: Ppn
    first_bytes: int = Field(examples=[0])
    last_bytes: int | None = Field(examples=[26386])


class CollectiveChanges(View):
    """How much of a collective's decisions change."""

    name: CollectiveName
    mpi_name: MpiName
    share: float = Field(description="of the decisions", examples=[0.08])
    ratio: float | None = Field(description="geometric mean where they change", examples=[1.17])


class ChangesView(BundleView):
    """What changed from one bundle to another."""

    against: BundleId
    shapes: int = Field(description="how many were compared", examples=[13])
    ranges: int = Field(description="ranges of message sizes that change", examples=[55])
    collectives: tuple[CollectiveChanges, ...]
    largest: tuple[ChangeRow, ...] = Field(description="those with most effect")


def changes_view(old: Bundle, new: Bundle, slot: str) -> ChangesView:
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
