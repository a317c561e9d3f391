"""Where a configuration was measured, and hence where it may be chosen at all.

An algorithm whose large cells are missing timed out there more often than not, and one measured at
a single process count is predicted by a model that knows nothing of its scaling: chosen where it
was not measured, it can be a hundred times slower than the default. Therefore a configuration is a
candidate for an instance only if

1. it was measured at two shapes or more, or exactly at the instance's shape;
2. after the instance is moved into the range of the reference (the default, or all configurations
   together if there is none), it was measured that far itself: at one cell with at least as many
   processes and at least as large a message, at one with at most as many and at most as large,
   and the same with nodes instead of processes;
3. it was measured on a single node if the instance runs on one, and on several if on several:
   shared memory and network are different machines.

Of a learner that sees all configurations at once, that takes missing cells into account and tells
how badly a choice may turn out, only rule 3 and these are asked: it was measured at two shapes or
more, or exactly at the instance's shape, and with messages as small and as large.

The default itself is always a candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from colltune.models.cells import CellMatrix

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
_MEASURES = ("nodes", "nprocs")
_BORROWED_REACH = 2
_BORROWED_DISTANCE = 2.0
_NEVER_UP, _NEVER_DOWN = -1, np.iinfo(np.int64).max


class Coverage(NamedTuple):
    """What C configurations were measured at.

    ``shapes`` (S, 2) are nodes and ppn, ``seen`` (C, S) which configuration was measured there.
    ``sizes`` (M) are the message sizes, ascending. ``up`` (2, C, M) is the most nodes or processes
    that a configuration was measured on with messages of at least that size, -1 if none; ``down``
    (2, C, M) the fewest with messages of at most that size. ``low``, ``high`` (3) are the
    reference's ranges of nodes, processes and message size, ``ppn_range`` (2) of ppn;
    ``default_column`` is -1 without a default. ``own`` (2, 4), lowest and highest nodes, processes,
    message size and ppn, is what was measured on the machine itself where the rest is borrowed from
    other machines (the highest below the lowest if nothing was), None where it is all its own.
    """

    shapes: Integers
    seen: Flags
    sizes: Integers
    up: Integers
    down: Integers
    low: Integers
    high: Integers
    ppn_range: Integers
    default_column: int
    own: Integers | None = None

    @classmethod
    def of(cls, cells: CellMatrix) -> Self:
        """Read the coverage off measured cells."""
        measured = np.isfinite(cells.time_s)
        shapes, shape_of = np.unique(
            np.column_stack([cells.nodes, cells.ppn]), axis=0, return_inverse=True
        )
        seen = np.stack([measured[shape_of == s].any(axis=0) for s in range(len(shapes))], axis=1)
        sizes = np.unique(cells.msize_bytes)
        up, down = _staircases(cells, measured, sizes)
        column = cells.default_column
        rows = measured.any(axis=1) if column is None else measured[:, column]
        axes = np.stack([cells.nodes, cells.nprocs, cells.msize_bytes])[:, rows]
        ppn = cells.ppn[rows]
        return cls(
            shapes,
            seen,
            sizes,
            up,
            down,
            axes.min(axis=1),
            axes.max(axis=1),
            np.array([ppn.min(), ppn.max()]),
            -1 if column is None else column,
        )

    def candidates(
        self, nodes: Integers, ppn: Integers, msize_bytes: Integers, *, cautious: bool = False
    ) -> Flags:
        """Return which configurations may be chosen for n instances, shape (n, C).

        ``cautious`` tells that the learner judges what was not measured by itself.
        """
        exact = (nodes[:, None] == self.shapes[:, 0]) & (ppn[:, None] == self.shapes[:, 1])
        result: Flags = (exact @ self.seen.T) | (self.seen.sum(axis=1) >= 2)
        size = np.clip(msize_bytes, self.low[2], self.high[2])
        larger = np.searchsorted(self.sizes, size, side="left")
        smaller = np.searchsorted(self.sizes, size, side="right") - 1
        if cautious:
            result &= self.up[0].T[larger] > _NEVER_UP
            result &= self.down[0].T[smaller] < _NEVER_DOWN
        for axis, count in enumerate(() if cautious else (nodes, nodes * ppn)):
            inside = np.clip(count, self.low[axis], self.high[axis])[:, None]
            result &= self.up[axis].T[larger] >= inside
            result &= self.down[axis].T[smaller] <= inside
        single = nodes == 1
        result &= np.where(single[:, None], self._seen_where(1), self._seen_where(2))
        if self.default_column >= 0:
            result[:, self.default_column] = True
        return result

    def _seen_where(self, least_nodes: int) -> Flags:
        """Tell which configurations were measured on one node (1) or on several (2)."""
        kind = (self.shapes[:, 0] == 1) if least_nodes == 1 else (self.shapes[:, 0] >= 2)
        return np.asarray(self.seen[:, kind].any(axis=1))

    def extrapolated(self, nodes: Integers, ppn: Integers, msize_bytes: Integers) -> Flags:
        """Tell which instances lie outside the reference's ranges, shape (n)."""
        return self.distance(nodes, ppn, msize_bytes) > 1.0

    def distance(self, nodes: Integers, ppn: Integers, msize_bytes: Integers) -> Numbers:
        """Return how many times beyond what was measured instances lie, shape (n); 1 inside.

        The largest ratio over nodes, processes, message size (0 bytes count as 1) and ppn. Where
        data is borrowed it is that to the machine's own range, or twice that to the range of all
        machines if that is nearer.
        """
        values = np.stack([nodes, nodes * ppn, msize_bytes, ppn], axis=1)
        from_all = _times_beyond(values, self._measured())
        if self.own is None:
            return from_all
        borrowed = _BORROWED_DISTANCE * from_all
        if (self.own[1] < self.own[0]).any():
            return borrowed
        return np.minimum(_times_beyond(values, self.own), borrowed)

    def _measured(self) -> Integers:
        """Return the reference's ranges in the layout of ``own``."""
        ends = ((self.low, self.ppn_range[0]), (self.high, self.ppn_range[1]))
        return np.stack([np.append(end, ppn) for end, ppn in ends])

    def borrowed(self, own: Coverage | None) -> Coverage:
        """Return this coverage as one of several machines, `own` being what this one has of it."""
        nothing = np.array([[np.iinfo(np.int64).max] * 4, [-1] * 4], np.int64)
        return self._replace(own=nothing if own is None else own._measured())

    @property
    def reach(self) -> tuple[Integers, Integers]:
        """The ranges (3), (3) of nodes, processes and message size that a guard measures from.

        Those of the reference; where data is borrowed, half as many to twice as many nodes and
        processes, since what is few on one machine can be many on another.
        """
        if self.own is None:
            return self.low, self.high
        wider = np.array([_BORROWED_REACH, _BORROWED_REACH, 1])
        return self.low // wider, self.high * wider

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields as arrays."""
        return {
            "shapes": self.shapes,
            "seen": self.seen,
            "sizes": self.sizes,
            "up": self.up,
            "down": self.down,
            "low": self.low,
            "high": self.high,
            "ppn_range": self.ppn_range,
            "default_column": np.array([self.default_column]),
        } | ({} if self.own is None else {"own": self.own})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `arrays`."""
        names = ("shapes", "seen", "sizes", "up", "down", "low", "high", "ppn_range")
        fields = {name: arrays[name] for name in names}
        return cls(**fields, default_column=int(arrays["default_column"][0]), own=arrays.get("own"))


def _times_beyond(values: Integers, ranges: Integers) -> Numbers:
    """Return the largest ratio by which values (n, K) lie outside the `ranges` (2, K)."""
    low, high = np.maximum(ranges, 1)
    above, below = np.maximum(values, 1) / high, low / np.maximum(values, 1)
    return np.asarray(np.maximum(np.maximum(above, below), 1.0).max(axis=1))


def _staircases(cells: CellMatrix, measured: Flags, sizes: Integers) -> tuple[Integers, Integers]:
    counts = {"nodes": cells.nodes, "nprocs": cells.nprocs}
    n_configurations = len(cells.configurations)
    up = np.full((len(_MEASURES), n_configurations, len(sizes)), _NEVER_UP, np.int64)
    down = np.full((len(_MEASURES), n_configurations, len(sizes)), _NEVER_DOWN, np.int64)
    for axis, name in enumerate(_MEASURES):
        for column in range(n_configurations):
            rows = measured[:, column]
            at = np.searchsorted(sizes, cells.msize_bytes[rows])
            np.maximum.at(up[axis, column], at, counts[name][rows])
            np.minimum.at(down[axis, column], at, counts[name][rows])
    up = np.maximum.accumulate(up[:, :, ::-1], axis=2)[:, :, ::-1]
    return up, np.minimum.accumulate(down, axis=2)
