"""Which collectives and shapes of a bundle or a dataset are looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.models.cells import CellMatrix


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
            raise DataError("shapes and nodes or ppn exclude each other; name one or the other")

    def of_collectives(self, known: Iterable[Collective]) -> tuple[Collective, ...]:
        """Return the picked ones of `known`, sorted.

        Raises
        ------
        DataError
            If one that is asked for is not known.
        """
        found = set(known)
        missing = [c for c in self.collectives if c not in found]
        if missing:
            has = ", ".join(sorted(found)) or "no collective that was measured well"
            raise DataError(f"there is no {', '.join(missing)} here, only {has}")
        return tuple(sorted(self.collectives or found))

    def of_cells(self, cells: CellMatrix) -> CellMatrix:
        """Keep the picked instances, maybe none."""
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
    """Return the picked instances of each picked collective that has some.

    Raises
    ------
    DataError
        If a collective is missing, or nothing is left.
    """
    asked = pick.of_collectives(matrices)
    kept = {c: cells for c in asked if len(cells := pick.of_cells(matrices[c]))}
    if not kept:
        raise DataError(f"nothing was measured there; {_described(matrices, asked)}")
    return kept


def beside(
    matrices: Mapping[Collective, CellMatrix], pick: Pick, shown: Iterable[Collective]
) -> dict[Collective, CellMatrix]:
    """Return the picked instances of those of `matrices` that stand beside what is `shown`.

    Raises
    ------
    DataError
        If there are none.
    """
    wanted = set(shown)
    both = {c: cells for c, cells in matrices.items() if c in wanted}
    return picked(both, replace(pick, collectives=()))


def _described(matrices: Mapping[Collective, CellMatrix], asked: Sequence[Collective]) -> str:
    parts = []
    for collective in asked:
        cells = matrices[collective]
        nodes, ppn = (", ".join(map(str, np.unique(v))) for v in (cells.nodes, cells.ppn))
        parts.append(f"{collective} was measured on {nodes} nodes with ppn {ppn}")
    return "; ".join(parts) or "the data have no measurement that is ok"
