"""Which collectives and shapes of a bundle or a dataset are shown, and how many have room."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.models.cells import CellMatrix

MOST_ROWS = 48
_MOST_PANELS = 24
_MOST_ACROSS = 4


@dataclass(frozen=True)
class Pick:
    """What is looked at; what is empty leaves everything.

    ``shapes`` and ``nodes`` or ``ppn`` exclude each other.
    """

    collectives: tuple[Collective, ...] = ()
    nodes: tuple[int, ...] = ()
    ppn: tuple[int, ...] = ()
    shapes: tuple[Shape, ...] = ()

    def __post_init__(self) -> None:
        if self.shapes and (self.nodes or self.ppn):
            raise DataError("shapes exclude nodes and ppn. Name one or the other.")

    def of_collectives(self, known: Iterable[Collective]) -> tuple[Collective, ...]:
        found = set(known)
        missing = [c for c in self.collectives if c not in found]
        if missing:
            has = ", ".join(sorted(found)) or "no usable measurement of a collective"
            raise DataError(f"there is no {', '.join(missing)} here, only {has}")
        return tuple(sorted(self.collectives or found))

    def of_cells(self, cells: CellMatrix) -> CellMatrix:
        return cells.rows(self.mask(cells.nodes, cells.ppn))

    def mask(self, nodes: NDArray[np.int64], ppn: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which of n instances on such shapes are picked."""
        mask = np.ones(len(nodes), np.bool_)
        if self.nodes:
            mask &= np.isin(nodes, self.nodes)
        if self.ppn:
            mask &= np.isin(ppn, self.ppn)
        if self.shapes:
            asked = {(s.nodes, s.ppn) for s in self.shapes}
            pairs = zip(nodes.tolist(), ppn.tolist(), strict=True)
            mask &= np.array([pair in asked for pair in pairs], np.bool_)
        return mask

    def of_shapes(self, measured: Sequence[Shape]) -> tuple[Shape, ...]:
        """Return the shapes asked for, measured or not; none if all are looked at.

        Node counts are combined with the ppn asked for, else with those of `measured`, and the
        other way round.
        """
        if self.shapes or not (self.nodes or self.ppn):
            return tuple(sorted(set(self.shapes)))
        if self.nodes and self.ppn:
            return tuple(Shape(n, p) for n, p in sorted(set(product(self.nodes, self.ppn))))
        known = {(s.nodes, s.ppn) for s in measured}
        nodes = self.nodes or {n for n, _ in known}
        ppn = self.ppn or {p for _, p in known}
        return tuple(Shape(n, p) for n, p in sorted(set(product(nodes, ppn))))


ALL = Pick()


def picked(matrices: Mapping[Collective, CellMatrix], pick: Pick) -> dict[Collective, CellMatrix]:
    """Return the picked instances of each picked collective that has some."""
    asked = pick.of_collectives(matrices)
    kept = {c: cells for c in asked if len(cells := pick.of_cells(matrices[c]))}
    if not kept:
        raise DataError(f"nothing was measured there; {_described(matrices, asked)}")
    return kept


def beside(
    matrices: Mapping[Collective, CellMatrix], pick: Pick, shown: Iterable[Collective]
) -> dict[Collective, CellMatrix]:
    """Return the picked instances of those of `matrices` that stand beside what is `shown`."""
    wanted = set(shown)
    both = {c: cells for c, cells in matrices.items() if c in wanted}
    return picked(both, replace(pick, collectives=()))


def _described(matrices: Mapping[Collective, CellMatrix], asked: Sequence[Collective]) -> str:
    parts = []
    for collective in asked:
        cells = matrices[collective]
        nodes, ppn = (", ".join(map(str, np.unique(v))) for v in (cells.nodes, cells.ppn))
        parts.append(f"{collective} was measured on {nodes} nodes with ppn {ppn}")
    return "; ".join(parts) or "the data have no measurement with the status ok"


def spread(n: int, most: int) -> list[int]:
    """Return at most `most` of n positions, evenly spread, both ends among them if there are two.

    One alone is the last.
    """
    if n and most == 1:
        return [n - 1]
    if not n or not most:
        return []
    return sorted({round(k) for k in np.linspace(0, n - 1, min(n, most))})


def panels_each(collectives: int) -> int:
    return max(1, _MOST_PANELS // max(1, collectives))


def spread_shapes(shapes: Sequence[Shape], most: int) -> list[Shape]:
    """Return at most `most` of `shapes`, sorted: evenly spread node counts with evenly spread ppn.

    Where such combinations are not all there, others take their place.
    """
    ordered = sorted(shapes)
    if len(ordered) <= most:
        return ordered
    nodes, ppn = (sorted({getattr(s, name) for s in ordered}) for name in ("nodes", "ppn"))
    across = min(len(ppn), _MOST_ACROSS)
    across = across if most >= 2 * across else min(across, math.isqrt(most))
    some_ppn = {ppn[k] for k in spread(len(ppn), across)}
    some_nodes = {nodes[k] for k in spread(len(nodes), max(1, most // across))}
    kept = [s for s in ordered if s.nodes in some_nodes and s.ppn in some_ppn]
    others = [s for s in ordered if s not in kept]
    return sorted([*kept, *(others[k] for k in spread(len(others), most - len(kept)))])


def notes_on(left_out: Mapping[Collective, str], collectives: int) -> tuple[str, ...]:
    """Return what was left out of so many collectives, those of which the same was together."""
    by_text: dict[str, list[str]] = {}
    for collective, text in left_out.items():
        by_text.setdefault(text, []).append(collective.value)
    every = 1 < collectives == len(left_out) and len(by_text) == 1
    return tuple(
        f"{text} of {'each collective' if every else ', '.join(names)}"
        for text, names in by_text.items()
    )
