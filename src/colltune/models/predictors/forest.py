"""Forests of deep regression trees for all configurations of a collective at once.

A fully grown tree's leaf holds one training instance, so a leaf stores its number, and a prediction
is an average over the training instances that the trees name. Regrets are whole multiples of a
small step and their sums therefore exact: a prediction does not depend on how it is computed.

Of an instance's features all but a few are fixed by its shape; the others are the logarithm of the
message size plus something that the shape fixes. So for a shape, a *line*, every tree is a step
function, and so is their sum. Tables ask for thousands of sizes of few shapes, each of which is
worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors import Arrays, Numbers
from colltune.models.predictors.level import Level, LevelLines, distinct

Integers = NDArray[np.int64]
STEP = 2.0**-20
"""Of a stored log regret."""
_OFFSET_STEP = 2.0**-24
_MOST_EVENT_ELEMENTS = 4_000_000
_MOST_REMEMBERED = 20_000_000


class Nodes(NamedTuple):
    """A forest's inner nodes; see `Forest`."""

    features: NDArray[np.uint8]
    thresholds: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    roots: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Forest:
    """``exp(level + mean regret)``, in seconds.

    Node i of T trees compares ``features`` (uint8) i as float32: values up to ``thresholds``
    (float32) i go to ``left`` i, others to ``right`` i; a negative child -1 - r is a leaf that
    names row r of the table, as does a root. ``roots`` (T). ``regrets`` (R, C) are log regrets in
    `STEP`, up to a clip; ``excess`` (R, C) is what was clipped off. The excess counts from half of
    ``clip`` on, so that slow configurations are predicted as slow as they are, and the order of
    good ones is that of the clipped regrets. ``along`` are the features that rise with the message
    size: the first is its logarithm, the others add to it what the shape fixes.
    """

    kind: ClassVar[str] = "forest"
    features: NDArray[np.uint8]
    thresholds: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    roots: NDArray[np.int32]
    regrets: NDArray[np.int32]
    excess: NDArray[np.int32]
    along: NDArray[np.int64]
    clip: Numbers
    level: Level
    _asked: list[Any] = field(default_factory=list, init=False, repr=False)

    @property
    def n_outputs(self) -> int:
        return int(self.regrets.shape[1])

    def predict(self, X: Numbers) -> Numbers:
        means, level = self._averaged(X)
        regret, excess = means[:, : self.n_outputs], means[:, self.n_outputs : 2 * self.n_outputs]
        counted = np.clip(2.0 * regret / self.clip[0] - 1.0, 0.0, 1.0)
        return np.asarray(np.exp(level[:, None] + regret + counted * excess))

    def regret(self, X: Numbers) -> Numbers:
        """Return the mean clipped log regrets, shape (n, C)."""
        return self._averaged(X)[0][:, : self.n_outputs]

    def shortfall(self, X: Numbers, default_column: int) -> Numbers:
        """Return how far behind the default each configuration may fall, shape (n, C).

        The root of the mean square of the log ratio by which it is slower than the default on the
        instances that the trees name, 0 where it is faster.
        """
        if self._asked[:1] != [default_column]:
            self._asked[:] = [default_column, self._lines(default_column)]
        return np.asarray(np.sqrt(self._averaged(X)[0][:, 2 * self.n_outputs :]))

    def _averaged(self, X: Numbers) -> tuple[Numbers, Numbers]:
        """Return regrets, excesses and, once asked for, squared shortfalls, and the log level."""
        if not self._asked:
            self._asked[:] = [None, self._lines(None)]
        means, level = self._asked[1].means(np.asarray(X, np.float64))
        return STEP * means.astype(np.float64), level

    def _lines(self, default_column: int | None) -> Lines:
        regrets = self.regrets.astype(np.int64)
        table = [regrets, self.excess.astype(np.int64)]
        if default_column is not None:
            behind = np.maximum(regrets - regrets[:, [default_column]], 0)
            table.append(np.rint(behind.astype(np.float64) ** 2 * STEP).astype(np.int64))
        nodes = Nodes(self.features, self.thresholds, self.left, self.right, self.roots)
        return Lines(nodes, np.concatenate(table, axis=1), self.along.tolist(), self.level)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields, those of the level with a prefix."""
        own = {name: a for name, a in self.__dict__.items() if isinstance(a, np.ndarray)}
        return own | {f"level_{name}": value for name, value in self.level.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        own = {name: a for name, a in arrays.items() if not name.startswith("level_")}
        level = {n[len("level_") :]: a for n, a in arrays.items() if n.startswith("level_")}
        return cls(**own, level=Level.from_arrays(level))

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Return the one predictor given: a forest has all outputs from the start."""
        if len(predictors) != 1:
            raise ValueError("forests are fitted to all configurations at once, not put together")
        return predictors[0]


class _Cuts(NamedTuple):
    """Distinct thresholds along message size: ``features`` and ``values`` (J).

    ``of_node`` tells which one a node asks for, -1 if it asks for something else.
    """

    features: Integers
    values: Numbers
    of_node: Integers

    @classmethod
    def of(cls, nodes: Nodes, along: Sequence[int]) -> _Cuts:
        of_node = np.full(len(nodes.features), -1)
        features: list[Integers] = [np.zeros(0, np.int64)]
        values: list[Numbers] = [np.zeros(0)]
        count = 0
        for feature in along:
            at = np.flatnonzero(nodes.features == feature)
            found, places = distinct(nodes.thresholds[at].astype(np.float64))
            of_node[at] = count + places
            count += len(found)
            features.append(np.full(len(found), feature))
            values.append(found)
        return cls(np.concatenate(features), np.concatenate(values), of_node)


class _Steps(NamedTuple):
    """Step functions of L lines: ``bounds`` and ``values`` (K columns) of all lines in turn.

    Line i has the bounds from ``first`` i to ``first`` i + 1, the last of which is infinite; a
    value holds up to and with its bound.
    """

    first: Integers
    bounds: Numbers
    values: NDArray[np.float32]
    level: LevelLines

    def and_also(self, other: _Steps) -> _Steps:
        return _Steps(
            np.append(self.first, other.first[1:] + self.first[-1]),
            np.append(self.bounds, other.bounds),
            np.concatenate([self.values, other.values]),
            self.level.and_also(other.level),
        )

    def at(self, line: Integers, position: Numbers) -> Integers:
        """Return which value holds at a position on a line, (n)."""
        if (line == line[0]).all():
            first, end = self.first[line[0]], self.first[line[0] + 1]
            return np.asarray(first + np.searchsorted(self.bounds[first:end], position))
        low, high = self.first[line], self.first[line + 1] - 1
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) // 2
            beyond = self.bounds[middle] < position
            low, high = np.where(beyond, middle + 1, low), np.where(beyond, high, middle)
        return low


class Lines:
    """Averages of a table's rows over a forest, with the level, remembered by line.

    Leaves name rows of ``table`` (R, K), whole numbers. ``along`` are features that are the first
    of them plus something that the others fix; with none of them every instance is a line.
    """

    def __init__(self, nodes: Nodes, table: Integers, along: Sequence[int], level: Level) -> None:
        self._nodes, self._along, self._level = nodes, list(along), level
        self._both = np.concatenate([table, -table])
        self._cuts = _Cuts.of(nodes, self._along)
        self._known: dict[bytes, int] = {}
        self._steps: _Steps | None = None
        self._last: tuple[Numbers, NDArray[np.float32], Numbers] | None = None

    def means(self, X: Numbers) -> tuple[NDArray[np.float32], Numbers]:
        """Return the sums over the trees divided by their number (n, K), and the log level (n)."""
        if not len(X):
            return np.zeros((0, self._both.shape[1]), np.float32), np.zeros(0)
        # times and shortfalls of the same instances are asked for one after the other
        if self._last is None or not np.array_equal(self._last[0], X):
            keys, positions = self._keys(X)
            line, steps = self._lines(keys, X)
            values = steps.values[steps.at(line, positions)]
            self._last = X.copy(), values, steps.level.log_time(line, positions)
        return self._last[1:]

    def _keys(self, X: Numbers) -> tuple[Numbers, Numbers]:
        """Return what makes a line (n, k), and the positions on it (n)."""
        keys = X.astype(np.float32).astype(np.float64)
        if not self._along:
            return keys, np.zeros(len(X))
        positions = X[:, self._along[0]]
        # rounded, because differences of the same shape differ in their last bits
        offsets = np.rint((X[:, self._along] - positions[:, None]) / _OFFSET_STEP)
        keys[:, self._along] = offsets * _OFFSET_STEP
        return keys, positions

    def _lines(self, keys: Numbers, X: Numbers) -> tuple[Integers, _Steps]:
        """Return the line of each instance (n) among those of the steps."""
        starts = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1)))
        names = [keys[row].tobytes() for row in starts.tolist()]
        new = {
            n: row for n, row in zip(names, starts.tolist(), strict=True) if n not in self._known
        }
        if new:
            self._learn(list(new), np.array(list(new.values())), keys, X)
        assert self._steps is not None
        numbers = np.array([self._known[name] for name in names])
        counts = np.diff(starts, append=len(keys))
        steps = self._steps
        if steps.values.size > _MOST_REMEMBERED:
            self._steps = None
            self._known = {}
        return np.repeat(numbers, counts), steps

    def _learn(self, names: Sequence[bytes], rows: Integers, keys: Numbers, X: Numbers) -> None:
        # an instance per line is enough, and as many lines at once as memory allows
        lines = max(1, _MOST_EVENT_ELEMENTS // (40 * len(self._nodes.roots) * self._both.shape[1]))
        for first in range(0, len(rows), lines):
            part = rows[first : first + lines]
            found = self._worked_out(keys[part], X[part])
            self._steps = found if self._steps is None else self._steps.and_also(found)
        for name in names:
            self._known[name] = len(self._known)

    def _worked_out(self, keys: Numbers, X: Numbers) -> _Steps:
        """Return the step functions of distinct lines."""
        n_lines, n_cuts = len(keys), len(self._cuts.values)
        bounds = self._cuts.values - keys[:, self._cuts.features]
        order = np.argsort(bounds, axis=1)
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(n_cuts)[None, :], axis=1)
        line, low, high, row = self._leaves(keys, ranks)
        width = n_cuts + 2
        at = np.concatenate([line * width + low, line * width + high + 1])
        by_bin = np.argsort(at, kind="stable")
        bins = at[by_bin]
        starts = np.flatnonzero(np.diff(bins, prepend=-1))
        changes = self._both[np.concatenate([row, row + len(self._both) // 2])[by_bin]]
        steps = np.zeros((n_lines * width, changes.shape[1]), np.int64)
        steps[bins[starts]] = np.add.reduceat(changes, starts, axis=0)
        sums = np.cumsum(steps.reshape(n_lines, width, -1), axis=1)[:, :-1]
        ends = np.take_along_axis(bounds, order, axis=1)
        ends = np.column_stack([ends, np.full(n_lines, np.inf)])
        # a value up to the same bound as the one before holds nowhere
        kept = np.append(np.ones((n_lines, 1), np.bool_), ends[:, :-1] < ends[:, 1:], axis=1)
        return _Steps(
            np.append(0, np.cumsum(kept.sum(axis=1))),
            ends[kept],
            (sums[kept] / len(self._nodes.roots)).astype(np.float32),
            self._level.lines(X, self._along[0]) if self._along else self._level.lines(keys, None),
        )

    def _leaves(
        self, keys: Numbers, ranks: Integers
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Return line, first and last place between cuts, and row of the table of all leaves.

        All trees are walked at once for all lines, one level at a time; where a tree asks for the
        message size the places are divided.
        """
        n_lines, n_cuts = ranks.shape
        nodes, of_node = self._nodes, self._cuts.of_node
        goes_left = keys.astype(np.float32)[:, nodes.features] <= nodes.thresholds
        lasts = np.where(goes_left, n_cuts, -1)
        at_cuts = np.flatnonzero(of_node >= 0)
        lasts[:, at_cuts] = ranks[:, of_node[at_cuts]]
        node = np.tile(nodes.roots.astype(np.int64), n_lines)
        line = np.repeat(np.arange(n_lines), len(nodes.roots))
        low, high = np.zeros(len(node), np.int64), np.full(len(node), n_cuts)
        found = []
        while True:
            inner = node >= 0
            found.append((line[~inner], low[~inner], high[~inner], -1 - node[~inner]))
            node, line, low, high = node[inner], line[inner], low[inner], high[inner]
            if not len(node):
                break
            last = lasts[line, node]
            ends, begins = np.minimum(high, last), np.maximum(low, last + 1)
            left, right = ends >= low, begins <= high
            node = np.concatenate([nodes.left[node[left]], nodes.right[node[right]]])
            line = np.concatenate([line[left], line[right]])
            low = np.concatenate([low[left], begins[right]])
            high = np.concatenate([ends[left], high[right]])
        parts = (np.concatenate(p) for p in zip(*found, strict=True))
        lines, lows, highs, rows = parts
        return lines, lows, highs, rows
