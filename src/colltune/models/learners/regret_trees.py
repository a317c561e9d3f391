"""Extremely randomised trees that learn what each configuration loses against the best.

Decisions need differences of configurations, not their times: the trees are fitted to all
configurations of a collective at once, to the log of their time over the best one's, clipped, since
it does not matter how much too slow a slow configuration is. The trees are those of Geurts, Ernst
and Wehenkel (Machine Learning 63, 2006).

A fully grown tree's leaf holds one training instance, so a leaf stores its number, and a prediction
is an average over the training instances that the trees name. Regrets are whole multiples of a
small step and their sums therefore exact: a prediction does not depend on how it is computed.

Of an instance's features all but a few are fixed by its shape; the others are the logarithm of the
message size plus something that the shape fixes. So for a shape, a *line*, every tree is a step
function, and so is their sum. Tables ask for thousands of sizes of few shapes, each of which is
worked out once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from colltune.features import feature_set
from colltune.models.bundle_schema import (
    NODES,
    Arrays,
    Lengths,
    Stored,
    above_zero,
    below,
    check_nodes,
    count_distinct,
    insist,
)
from colltune.models.gaussian_process import Level, LevelLines, SharedProcess, StandardisedInputs
from colltune.models.learners import Numbers, distinct

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Tree = Any
"""A grown tree of scikit-learn, ``sklearn.tree._tree.Tree``."""
Rounded = Callable[[Integers, Numbers], NDArray[np.float32]]
STEP = 2.0**-20
"""Of a stored log regret."""
_CHILDREN = ("left", "right")
_OFFSET_STEP = 2.0**-24
_MOST_EVENT_ELEMENTS = 4_000_000
_MOST_REMEMBERED = 20_000_000
_MOST_STEPS = 1 << 26
_RICH = feature_set("rich").columns
_INPUTS = (
    "log2_msize",
    "log2_nodes",
    "log2_ppn",
    "nprocs_is_power_of_two",
    "nodes_is_power_of_two",
)
_ENOUGH_OF_A_KIND = 3
_MOST_EXCESS = 10.0
_LEAST_TREES = 20
_FEW_OUTPUTS = 8
_FEW_TARGETS = 20_000
_SHARE_OF_VARIANCE = 0.98
_MAX_FEATURES = 0.6
_CLIP = 1.0
"""Largest log regret that is learned; configurations left out because they are slow have it."""
_LEAST_NOISE = 0.01
"""Least variance of the noise of log times, in units of the processes' variance."""
_FILL_POINTS, _LEVEL_POINTS = 400, 400
"""Measured instances at most that cells, and the level, are predicted from."""


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
    stored: ClassVar[Mapping[str, Stored]] = NODES | {
        "regrets": Stored("i", ("R", "C")),
        "excess": Stored("i", ("R", "C")),
        "along": Stored("i", ("a",), below("k")),
        "clip": Stored("f", (1,), above_zero),
        "level_columns": Stored("i", ("d",), below("k")),
        "level_center": Stored("f", ("d",)),
        "level_scale": Stored("f", ("d",)),
        "level_lengths": Stored("f", ("d",), above_zero),
        "level_points": Stored("f", ("P", "d")),
        "level_weights": Stored("f", ("P",)),
        "level_slopes": Stored("f", ("d",)),
        "level_offset": Stored("f", (1,)),
    }
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

    @staticmethod
    def check(arrays: Arrays, lengths: Lengths) -> None:
        check_nodes("predictor", arrays, lengths["k"])
        insist(lengths["T"] > 0, "predictor: no trees")
        insist(bool((arrays["level_scale"] != 0).all()), "predictor.level_scale: 0")
        insist(count_distinct(arrays["along"]) == lengths["a"], "predictor.along: a feature twice")
        asked = np.isin(arrays["features"], arrays["along"])
        cuts = count_distinct(arrays["thresholds"][asked]) * max(1, lengths["a"])
        insist(cuts * lengths["C"] <= _MOST_STEPS, "predictor.thresholds: too many")


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


def fit(X: Numbers, times_s: Numbers, *, n_trees: int = 100, most_leaves: int = 120_000) -> Forest:
    """Extra-trees on clipped log regrets, with a Gaussian process for the level of the times.

    Every other tree does not see whether counts are powers of two or odd, unless three process
    counts of either kind were measured: on simulated networks that decides; on real ones, with few
    counts measured, it is easily taken for the cause of something else. Cells that were not
    measured are predicted by Gaussian processes.

    Parameters
    ----------
    X
        Features (n, k), best of the set ``rich``.
    times_s
        Seconds (n, C), NaN where a cell was not measured, infinite where it was left out because
        it is slow.
    n_trees
        Trees at most.
    most_leaves
        Trees times instances at most, with which the cost grows: of more instances than
        ``most_leaves / n_trees`` fewer trees are grown, though not less than 20.
    """
    timed = np.isfinite(times_s).any(axis=1)
    X, times_s = X[timed], times_s[timed]
    rng = np.random.default_rng(0)
    slow = np.isposinf(times_s)
    log_times = np.log(np.where(slow, np.nan, times_s))
    inputs = StandardisedInputs.of(X, _input_columns(X.shape[1]))
    process = SharedProcess.chosen(inputs, log_times, _LEAST_NOISE, rng)
    best, regret = _targets(process, log_times, slow, rng)
    level = process.level(best, _LEVEL_POINTS, rng)
    count = int(np.clip(most_leaves // len(X), _LEAST_TREES, max(n_trees, 1)))
    return _grown(X, regret, level, min(count, n_trees))


def _targets(
    process: SharedProcess, log_times: Numbers, slow: Flags, rng: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """Return the log times of each row's best (n) and log regrets (n, C) without gaps."""
    best = np.nanmin(log_times, axis=1, keepdims=True)
    # nobody knows how slow what was left out is; the slowest seen of its kind is a guess
    slowest = np.maximum(np.nanmax(log_times - best, axis=0), _CLIP)
    known = np.where(slow, best + slowest, log_times)
    known = process.filled(known, _FILL_POINTS, rng)
    # a prediction never beats what was measured on the same instance
    regret = np.where(np.isnan(known), slowest, np.maximum(known - best, 0.0))
    # in whole steps, so that rounding errors of times do not make other trees
    steps = np.rint(np.minimum(regret, _CLIP + _MOST_EXCESS) / STEP)
    return best[:, 0], steps * STEP


def _grown(X: Numbers, regret: Numbers, level: Level, count: int) -> Forest:
    """Grow `count` trees and take them out of scikit-learn."""
    clipped = np.minimum(regret, _CLIP)
    X32 = X.astype(np.float32)
    along = _columns_along_size(X.shape[1])
    trees = _trees(X32, clipped, count)
    leaf_of = np.stack([tree.apply(X32) for tree in trees])
    row_of, table = leaves(leaf_of, np.concatenate([clipped, regret - clipped], axis=1))
    return Forest(
        **nodes(trees, list(leaf_of), list(row_of), rounding(X32, along))._asdict(),
        along=np.array(along, np.int64),
        regrets=table[:, : regret.shape[1]],
        excess=table[:, regret.shape[1] :],
        clip=np.array([_CLIP]),
        level=level,
    )


def _trees(X32: NDArray[np.float32], clipped: Numbers, count: int) -> list[Tree]:
    """Grow the trees of scikit-learn's ``ExtraTreesRegressor``, seed by seed.

    One after another, because the ensemble takes longer to prepare a tree than to grow it.
    """
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    seeds = np.random.RandomState(0)
    targets = _main_directions(clipped)
    flagless = X32.copy()
    flagless[:, _flag_columns(X32.shape[1])] = 0.0
    every = 1 if _both_kinds_are_seen(X32) else 2
    trees: list[Tree] = []
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for _ in range(count):
            estimator = ExtraTreeRegressor(
                max_features=_MAX_FEATURES, random_state=seeds.randint(np.iinfo(np.int32).max)
            )
            seen = X32 if len(trees) % every == 0 else flagless
            trees.append(estimator.fit(seen, targets, check_input=False).tree_)
    return trees


def _columns_along_size(n_features: int) -> list[int]:
    """Return which features rise with the message size, its own logarithm first."""
    if n_features != len(_RICH):
        return []
    return [place for place, name in enumerate(_RICH) if name.startswith("log2_msize")]


def _main_directions(clipped: Numbers) -> Numbers:
    """Return targets that trees divide in nearly the same way as (n, C) ones, but faster.

    A split is judged by the variance summed over outputs, which a rotation does not change; of the
    principal components of much data those are kept that have nearly all of it.
    """
    if clipped.shape[1] <= _FEW_OUTPUTS or clipped.size <= _FEW_TARGETS:
        return clipped if clipped.shape[1] > 1 else clipped[:, 0]
    centered = clipped - clipped.mean(axis=0)
    variances, directions = np.linalg.eigh(centered.T @ centered)
    share = np.cumsum(variances[::-1]) / max(float(variances.sum()), 1e-300)
    count = max(_FEW_OUTPUTS, 1 + int(np.searchsorted(share, _SHARE_OF_VARIANCE)))
    return np.ascontiguousarray(centered @ directions[:, ::-1][:, :count])


def _flag_columns(n_features: int) -> list[int]:
    """Return which features tell powers of two and odd counts."""
    if n_features != len(_RICH):
        return []
    return [place for place, name in enumerate(_RICH) if "_is_" in name]


def _both_kinds_are_seen(X32: NDArray[np.float32]) -> bool:
    """Tell whether three process counts that are powers of two, and three that are not, occur."""
    if X32.shape[1] != len(_RICH):
        return True
    count, flag = (_RICH.index(name) for name in ("log2_nprocs", "nprocs_is_power_of_two"))
    kinds = [len(np.unique(X32[X32[:, flag] == kind, count])) for kind in (0.0, 1.0)]
    return min(kinds) >= _ENOUGH_OF_A_KIND


def _input_columns(n_features: int) -> list[int]:
    """Return which features are inputs: few of ``rich`` or a set that begins with it, else all."""
    if n_features < len(_RICH):
        return list(range(n_features))
    return [_RICH.index(name) for name in _INPUTS]


def rounding(X32: NDArray[np.float32], along: Sequence[int]) -> Rounded:
    """Return what rounds thresholds of features along message size, all of them to float32.

    Shapes then have hundreds of steps, not thousands: to odd sixteenths of an octave, or to the
    middle between the instances that a threshold lies between if there is none. Each of the
    instances `X32` stays in its leaf.
    """
    known = {f: np.unique(X32[:, f].astype(np.float64)) for f in along}

    def rounded(features: Integers, thresholds: Numbers) -> NDArray[np.float32]:
        result = thresholds.copy()
        for feature, values in known.items():
            at = np.flatnonzero(features == feature)
            above = np.searchsorted(values, thresholds[at], side="right")
            low, high = values[above - 1], values[above]
            odd = (np.floor(thresholds[at] * 8) + 0.5) / 8
            result[at] = np.where((low <= odd) & (odd < high), odd, (low + high) / 2)
        # the largest float32 up to each threshold: a float32 exceeds both or none
        nearest = result.astype(np.float32)
        return np.where(nearest > result, np.nextafter(nearest, np.float32(-np.inf)), nearest)

    return rounded


def leaves(leaf_of: Integers, regret: Numbers) -> tuple[Integers, NDArray[np.int32]]:
    """Return what the leaves stand for: rows (T, n) of a table (R, K) in `STEP`.

    `leaf_of` (T, n) are the nodes that n instances end in, for T trees; `regret` (n, K) has the
    regrets and anything else to be averaged. The table has the instances, and the means of those
    that share a leaf.
    """
    n_trees, n = leaf_of.shape
    marks = np.random.default_rng(0).integers(0, 1 << 63, (n,), dtype=np.uint64)
    keys = (leaf_of + np.arange(n_trees)[:, None] * (int(leaf_of.max()) + 1)).ravel()
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    counts = np.diff(starts, append=len(keys))
    instances = order % n
    # a set of instances is told by the sum of their marks, which wraps around
    sets = np.add.reduceat(marks[instances], starts)
    names = instances[starts]
    shared = np.flatnonzero(counts > 1)
    _, firsts, numbers = np.unique(sets[shared], return_index=True, return_inverse=True)
    names[shared] = n + numbers
    means = [
        regret[instances[starts[at] : starts[at] + counts[at]]].mean(axis=0, keepdims=True)
        for at in shared[firsts].tolist()
    ]
    row_of = np.empty(len(keys), np.int64)
    row_of[order] = np.repeat(names, counts)
    table = np.rint(np.concatenate([regret, *means]) / STEP).astype(np.int32)
    return row_of.reshape(n_trees, n), table


def nodes(
    trees: Sequence[Tree],
    leaf_of: Sequence[Integers],
    row_of: Sequence[Integers],
    rounded: Rounded,
) -> Nodes:
    """Return the inner nodes of all trees in turn.

    ``leaf_of`` names leaves of each tree, every one at least once, ``row_of`` their rows of the
    table; ``rounded`` rounds the thresholds.
    """
    parts: dict[str, list[NDArray[Any]]] = {n: [] for n in ("features", "thresholds", *_CHILDREN)}
    roots, first = [], 0
    for tree, at_leaves, rows in zip(trees, leaf_of, row_of, strict=True):
        inner = np.flatnonzero(tree.children_left >= 0)
        # where a child goes: to an inner node by its new number, or to a row of the table
        target = np.zeros(len(tree.children_left), np.int64)
        target[inner] = first + np.arange(len(inner))
        target[at_leaves] = -1 - rows
        roots.append(target[0])
        first += len(inner)
        parts["features"].append(tree.feature[inner].astype(np.uint8))
        parts["thresholds"].append(rounded(tree.feature[inner], tree.threshold[inner]))
        parts["left"].append(target[tree.children_left[inner]].astype(np.int32))
        parts["right"].append(target[tree.children_right[inner]].astype(np.int32))
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return Nodes(**joined, roots=np.array(roots, np.int32))
