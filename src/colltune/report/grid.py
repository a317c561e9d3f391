"""At which shapes and message sizes a report looks at decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Instance, Shape
from colltune.models.coverage import Coverage

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
MOST_SHAPES = 64
_BETWEEN_UP_TO = 16
_BEYOND_SIZES = 4
_LARGEST = 1 << 62


@dataclass(frozen=True, eq=False)
class Grid:
    """S shapes, by ppn and then nodes, and M message sizes, ascending.

    ``known`` (S) tells which shapes were measured, ``known_size`` (M) which sizes in bytes were;
    ``left_out`` counts the measured shapes that found no place.
    """

    nodes: Integers
    ppn: Integers
    known: Flags
    msize_bytes: Integers
    known_size: Flags
    left_out: int

    @classmethod
    def of(cls, coverage: Coverage, shapes: Sequence[Shape] = ()) -> Grid:
        """Lay a grid over what was measured, and a little beyond.

        Shapes: those of `shapes`; if none are named the measured ones (at most 64, evenly thinned),
        per ppn one of twice the nodes, and, if there are few, one between any two that lie a factor
        of 2 apart. Sizes: two per octave and the measured ones, from half the smallest to four
        times the largest.
        """
        measured = sorted({(int(p), int(n)) for n, p in coverage.shapes})
        asked = {(shape.ppn, shape.nodes) for shape in shapes}
        kept = measured if asked else _thinned(measured)
        pairs = sorted(asked or {*kept, *_unseen(kept)})
        sizes = _sizes(coverage.sizes.tolist())
        return cls(
            np.array([n for _, n in pairs], np.int64),
            np.array([p for p, _ in pairs], np.int64),
            np.array([pair in set(measured) for pair in pairs], np.bool_),
            np.array(sizes, np.int64),
            np.isin(sizes, coverage.sizes),
            len(measured) - len(kept),
        )

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes in order."""
        pairs = zip(self.nodes.tolist(), self.ppn.tolist(), strict=True)
        return tuple(Shape(n, p) for n, p in pairs)

    def vectors(self) -> tuple[Integers, Integers, Integers]:
        """Return nodes, ppn and sizes of all S x M instances, shape by shape."""
        n_sizes, n_shapes = len(self.msize_bytes), len(self.nodes)
        nodes, ppn = (np.repeat(v, n_sizes) for v in (self.nodes, self.ppn))
        return nodes, ppn, np.tile(self.msize_bytes, n_shapes)

    def instance(self, collective: Collective, shape: int, size: int) -> Instance:
        """Return the instance of one field."""
        return Instance(
            collective,
            Shape(int(self.nodes[shape]), int(self.ppn[shape])),
            int(self.msize_bytes[size]),
        )


def _thinned(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if len(pairs) <= MOST_SHAPES:
        return pairs
    at = np.unique(np.linspace(0, len(pairs) - 1, MOST_SHAPES).round().astype(int))
    return [pairs[i] for i in at.tolist()]


def _unseen(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return shapes beyond the measured ones, and between them if these are few."""
    found = []
    for ppn in dict.fromkeys(p for p, _ in pairs):
        nodes = [n for p, n in pairs if p == ppn]
        if nodes[-1] * ppn < _LARGEST // 8:
            found.append((ppn, 2 * nodes[-1]))
        if len(pairs) <= _BETWEEN_UP_TO:
            for low, high in pairwise(nodes):
                if high >= 2 * low:
                    found.append((ppn, round((low * high) ** 0.5)))
    return [pair for pair in found if pair not in pairs]


def _sizes(measured: list[int]) -> list[int]:
    low, high = measured[0] // 2, min(measured[-1] * _BEYOND_SIZES, _LARGEST)
    octaves = [1 << k for k in range(high.bit_length())]
    steps = {size for octave in octaves for size in (octave, octave * 3 // 2)}
    return sorted({size for size in steps if low <= size <= high} | set(measured))
