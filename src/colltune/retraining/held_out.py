"""What is held out when a candidate is judged: parts of the data, each decided once.

There are few parts (four unless said otherwise), since each is a refit: leaving each of twenty node
counts out by itself would take ten times as long. Neighbouring counts fall into different parts, so
that every part is decided from counts on either side, as a job's own node count is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from colltune.evaluation.splits import Mask, MaskSplit
from colltune.models.cells import CellMatrix

Integers = NDArray[np.int64]
_LEAST = 3


def _shapes(cells: CellMatrix) -> Integers:
    return cells.nodes * (int(cells.ppn.max()) + 1) + cells.ppn


HELD_OUT: dict[str, Callable[[CellMatrix], Integers]] = {
    "nodes": lambda cells: cells.nodes,
    "ppn": lambda cells: cells.ppn,
    "shapes": _shapes,
    "msizes": lambda cells: cells.msize_bytes,
}
_INSTEAD = ("shapes", "msizes")


@dataclass(frozen=True)
class Parts(MaskSplit):
    """Leave every part of the node counts (or what ``by`` names) out once.

    Where a collective has fewer than three of them, whole shapes are left out; with fewer than
    three shapes, message sizes.
    """

    name: ClassVar[str] = "parts"
    needs: ClassVar[str] = "a collective measured at 3 node counts, shapes or message sizes"
    by: str = "nodes"
    parts: int = 4

    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return a fold per part."""
        for by in (self.by, *_INSTEAD):
            keys = HELD_OUT[by](cells)
            distinct = np.unique(keys)
            if len(distinct) >= _LEAST:
                n_parts = min(self.parts, len(distinct))
                part_of = np.searchsorted(distinct, keys) % n_parts
                return [
                    Mask(f"{by}, part {part + 1} of {n_parts}", part_of != part, part_of == part)
                    for part in range(n_parts)
                ]
        return []
