"""Extremely randomised trees that learn what each configuration loses against the best.

Decisions need differences of configurations, not their times: the trees are fitted to all
configurations of a collective at once, to the log of their time over the best one's, clipped, since
it does not matter how much too slow a slow configuration is. The trees are those of Geurts, Ernst
and Wehenkel (Machine Learning 63, 2006).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn import config_context
from sklearn.tree import ExtraTreeRegressor

from colltune.features import feature_set
from colltune.models.cells import CellMatrix
from colltune.models.coverage import EVERYWHERE, FEATURES, Applicability, Coverage
from colltune.models.predictors.forest import STEP, Forest, Nodes
from colltune.models.predictors.level import Level, distinct, known_alike, looked_up, product
from colltune.models.regressor import JointRegressor

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
_CHILDREN = ("left", "right")
_APPLICABILITY_TREES = 50
_APPLICABILITY_MAX_FEATURES = 0.6


Tree = Any
"""A grown tree of scikit-learn, ``sklearn.tree._tree.Tree``."""
Rounded = Callable[[Integers, Numbers], NDArray[np.float32]]


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


def coverage(cells: CellMatrix) -> Coverage:
    """Return what was measured of `cells` and where their configurations run."""
    return Coverage.of(cells, _applicability(cells))


def _applicability(cells: CellMatrix) -> Applicability:
    """Return where the configurations of `cells` run, by where they have a time."""
    ran = np.isfinite(cells.time_s)
    columns = np.flatnonzero(~ran.all(axis=0))
    if not len(columns):
        return EVERYWHERE
    features = feature_set(FEATURES).matrix(cells.nodes, cells.ppn, cells.msize_bytes)
    X32 = features.astype(np.float32)
    shares_run = ran[:, columns].astype(np.float64)
    trees = [
        ExtraTreeRegressor(max_features=_APPLICABILITY_MAX_FEATURES, random_state=seed)
        .fit(X32, shares_run)
        .tree_
        for seed in range(_APPLICABILITY_TREES)
    ]
    leaf_of = [np.flatnonzero(tree.children_left < 0) for tree in trees]
    shares = [tree.value[at, :, 0] for tree, at in zip(trees, leaf_of, strict=True)]
    table, rows = np.unique(
        np.rint(255 * np.concatenate(shares)).astype(np.uint8), axis=0, return_inverse=True
    )
    row_of = np.split(rows.ravel(), np.cumsum([len(at) for at in leaf_of])[:-1])
    return Applicability(nodes(trees, leaf_of, row_of, rounding(X32, [])), table, columns)


Flags = NDArray[np.bool_]
_RICH = feature_set("rich").columns
_INPUTS = (
    "log2_msize",
    "log2_nodes",
    "log2_ppn",
    "nprocs_is_power_of_two",
    "nodes_is_power_of_two",
)
_LENGTHS, _START = (0.2, 0.5, 1.2, 3.0, 10.0), 1.2
_NOISES, _SWEEPS = (0.03, 0.1, 0.3), 2
_POINTS_TO_CHOOSE_ON, _PATTERNS_TO_CHOOSE_ON = 120, 2
_OFFSET_VARIANCE, _SLOPE_VARIANCE = 100.0, 3.0
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


class RegretTrees(JointRegressor):
    """Extra-trees on clipped log regrets, with a Gaussian process for the level of the times.

    Every other tree does not see whether counts are powers of two or odd, unless three process
    counts of either kind were measured: on simulated networks that decides; on real ones, with few
    counts measured, it is easily taken for the cause of something else. Cells that were not
    measured are predicted by Gaussian processes.

    Parameters
    ----------
    n_trees
        Trees at most.
    most_leaves
        Trees times instances at most, with which the cost grows: of more instances than
        ``most_leaves / n_trees`` fewer trees are grown, though not less than 20.
    """

    predictor_: Forest

    def __init__(self, n_trees: int = 100, most_leaves: int = 120_000) -> None:
        self.n_trees = n_trees
        self.most_leaves = most_leaves

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to features `X` (n, k), best of the set ``rich``, and times `y`, (n, C) or (n).

        Times of the shape (n, C) are NaN where a cell was not measured, infinite where it was left
        out because it is slow.
        """
        features, time_s = self._validated(X, y)
        timed = np.isfinite(time_s).any(axis=1)
        features, time_s = features[timed], time_s[timed]
        rng = np.random.default_rng(0)
        slow = np.isposinf(time_s)
        log_times = np.log(np.where(slow, np.nan, time_s))
        inputs = StandardisedInputs.of(features, _input_columns(features.shape[1]))
        process = SharedProcess.chosen(inputs, log_times, _LEAST_NOISE, rng)
        best, regret = self._targets(process, log_times, slow, rng)
        level = process.level(best, _LEVEL_POINTS, rng)
        self.predictor_ = self._grown(features, regret, level)
        return self

    def _targets(
        self, process: SharedProcess, log_times: Numbers, slow: Flags, rng: np.random.Generator
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

    def _grown(self, X: Numbers, regret: Numbers, level: Level) -> Forest:
        """Grow the trees and take them out of scikit-learn."""
        clipped = np.minimum(regret, _CLIP)
        X32 = X.astype(np.float32)
        along = _columns_along_size(X.shape[1])
        trees = self._trees(X32, clipped)
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

    def _trees(self, X32: NDArray[np.float32], clipped: Numbers) -> list[Tree]:
        """Grow the trees of scikit-learn's ``ExtraTreesRegressor``, seed by seed.

        One after another, because the ensemble takes longer to prepare a tree than to grow it.
        """
        count = int(np.clip(self.most_leaves // len(X32), _LEAST_TREES, max(self.n_trees, 1)))
        seeds = np.random.RandomState(0)
        targets = _main_directions(clipped)
        flagless = X32.copy()
        flagless[:, _flag_columns(X32.shape[1])] = 0.0
        every = 1 if _both_kinds_are_seen(X32) else 2
        trees: list[Tree] = []
        with config_context(assume_finite=True, skip_parameter_validation=True):
            for _ in range(min(count, self.n_trees)):
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


@dataclass(frozen=True, eq=False)
class StandardisedInputs:
    """Standardised inputs (n, d) made of ``columns`` (d) of a feature matrix.

    ``linear`` (d) tells which of them the mean is linear in: those with more than two values.
    """

    columns: NDArray[np.int64]
    center: Numbers
    scale: Numbers
    values: Numbers
    linear: Flags

    @classmethod
    def of(cls, X: Numbers, columns: Sequence[int]) -> StandardisedInputs:
        """Standardise `columns` of the features `X` (n, k); what never varies is left out."""
        chosen = np.array(columns, np.int64)
        chosen = chosen[np.ptp(X[:, chosen], axis=0) > 0]
        center, scale = X[:, chosen].mean(axis=0), X[:, chosen].std(axis=0)
        linear = np.array([len(distinct(X[:, c])[0]) > 2 for c in chosen.tolist()], np.bool_)
        return cls(chosen, center, scale, (X[:, chosen] - center) / scale, linear)


@dataclass(frozen=True, eq=False)
class SharedProcess:
    """Gaussian processes, one per configuration, with a kernel and noise that are common to all.

    A linear mean with a wide prior and a product of Matérn 5/2 functions of ``lengths`` (d), and a
    ``noise`` variance, all in units of the processes' variance (Rasmussen and Williams, *Gaussian
    Processes for Machine Learning*, 2006, sec. 2.7, 4.2 and 5.4.1). Lengths and noise maximise the
    common marginal likelihood, the variance being eliminated. Costs are bounded: the kernel is
    chosen on few points and cells are predicted from some hundreds.
    """

    inputs: StandardisedInputs
    lengths: Numbers
    noise: float

    @classmethod
    def chosen(
        cls,
        inputs: StandardisedInputs,
        log_times: Numbers,
        least_noise: float,
        rng: np.random.Generator,
    ) -> SharedProcess:
        """Return the kernel most likely given log seconds (n, C), NaN where unknown.

        Every length is tried on a grid in turn, the noise after them, twice.
        """
        samples = [_Sample.of(inputs, *s) for s in _common_patterns(log_times, rng)]
        noises = (least_noise, *(n for n in _NOISES if n > least_noise))
        choices = [*([_LENGTHS] * len(inputs.columns)), noises]
        taken = [*([_LENGTHS.index(_START)] * len(inputs.columns)), 0]
        best = _likelihood(samples, taken[:-1], noises[0])
        for axis in [*range(len(choices))] * _SWEEPS:
            for option in range(len(choices[axis])):
                tried = [*taken[:axis], option, *taken[axis + 1 :]]
                if tried != taken:
                    found = _likelihood(samples, tried[:-1], noises[tried[-1]])
                    if found > best:
                        taken, best = tried, found
        return cls(inputs, np.array([_LENGTHS[k] for k in taken[:-1]]), noises[taken[-1]])

    def filled(self, log_times: Numbers, most_points: int, rng: np.random.Generator) -> Numbers:
        """Return `log_times` (n, C) with every NaN predicted from the column's known cells."""
        result = log_times.copy()
        for known, columns in known_alike(np.isfinite(log_times)):
            if known.all():
                continue
            rows = _sampled(np.flatnonzero(known), most_points, rng)
            center = log_times[np.ix_(rows, columns)].mean(axis=0)
            residuals = log_times[np.ix_(rows, columns)] - center
            weights = cho_solve(self._factor(rows), residuals)
            holes = np.flatnonzero(~known)
            result[np.ix_(holes, columns)] = self._covariance(holes, rows) @ weights + center
        return result

    def level(self, log_times: Numbers, most_points: int, rng: np.random.Generator) -> Level:
        """Return the process after log seconds (n) as a predictor."""
        rows = _sampled(np.arange(len(log_times)), most_points, rng)
        center = log_times[rows].mean()
        points = self.inputs.values[rows]
        weights = cho_solve(self._factor(rows), log_times[rows] - center)
        slopes = np.where(self.inputs.linear, _SLOPE_VARIANCE * points.T @ weights, 0.0)
        offset = center + _OFFSET_VARIANCE * weights.sum()
        columns, scaling = self.inputs.columns, (self.inputs.center, self.inputs.scale)
        return Level(columns, *scaling, self.lengths, points, weights, slopes, np.array([offset]))

    def _covariance(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Numbers:
        """Return the prior covariances of two sets of rows."""
        a, b = self.inputs.values[left], self.inputs.values[right]
        result = product(a, b, self.lengths)
        linear = self.inputs.linear
        return np.asarray(
            result + _OFFSET_VARIANCE + _SLOPE_VARIANCE * (a[:, linear] @ b[:, linear].T)
        )

    def _factor(self, rows: NDArray[np.int64]) -> tuple[Numbers, bool]:
        covariance = self._covariance(rows, rows)
        covariance[np.diag_indices(len(rows))] += self.noise
        factor: tuple[Numbers, bool] = cho_factor(covariance, lower=True, overwrite_a=True)
        return factor


class _Sample(NamedTuple):
    """Some instances of which the same configurations are known.

    ``residuals`` (n, c) are their centred log seconds; ``correlations`` (d, L, n, n) those of each
    input for each of `_LENGTHS`, ``linear`` (n, n) the covariances of the linear mean.
    """

    residuals: Numbers
    correlations: Numbers
    linear: Numbers

    @classmethod
    def of(cls, inputs: StandardisedInputs, rows: NDArray[np.int64], residuals: Numbers) -> _Sample:
        values = inputs.values[rows]
        correlations = [[looked_up(v, v, length) for length in _LENGTHS] for v in values.T]
        sloped = values[:, inputs.linear]
        linear = _OFFSET_VARIANCE + _SLOPE_VARIANCE * sloped @ sloped.T
        shape = (len(values.T), len(_LENGTHS), len(rows), len(rows))
        return cls(residuals, np.reshape(correlations, shape), np.asarray(linear))


def _likelihood(samples: Sequence[_Sample], lengths: Sequence[int], noise: float) -> float:
    """Return the log marginal likelihood, but for a constant, of lengths by their numbers."""
    squares, log_determinants, count = 0.0, 0.0, 0
    for residuals, correlations, linear in samples:
        covariance = linear + correlations[np.arange(len(lengths)), lengths].prod(axis=0)
        covariance[np.diag_indices(len(covariance))] += noise
        factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
        squares += float((residuals * cho_solve(factor, residuals, check_finite=False)).sum())
        log_determinants += residuals.shape[1] * 2 * float(np.log(np.diag(factor[0])).sum())
        count += residuals.size
    return float(-0.5 * (count * np.log(max(squares / count, 1e-12)) + log_determinants))


def _common_patterns(
    log_times: Numbers, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], Numbers]]:
    """Yield a sample of rows and their centred log seconds, for the commonest patterns."""
    for known, columns in islice(known_alike(np.isfinite(log_times)), _PATTERNS_TO_CHOOSE_ON):
        rows = _sampled(np.flatnonzero(known), _POINTS_TO_CHOOSE_ON, rng)
        values = log_times[np.ix_(rows, columns)]
        yield rows, values - values.mean(axis=0)


def _sampled(rows: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
