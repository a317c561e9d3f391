"""Extremely randomised trees that learn what each configuration loses against the best.

Decisions need differences of configurations, not their times: the trees are fitted to all
configurations of a collective at once, to the log of their time over the best one's, clipped, since
it does not matter how much too slow a slow configuration is. The trees are those of Geurts, Ernst
and Wehenkel (Machine Learning 63, 2006).
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.tree import ExtraTreeRegressor

from colltune.features import feature_set
from colltune.models.gaussian_process import Inputs, SharedProcess, input_columns
from colltune.models.grown_trees import Rounding, Tree, leaves, nodes
from colltune.models.predictors.forest import STEP, Forest
from colltune.models.predictors.level import Level
from colltune.models.regressor import JointRegressor

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_RICH = feature_set("rich").columns
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
        inputs = Inputs.of(features, input_columns(features.shape[1]))
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
            **nodes(trees, list(leaf_of), list(row_of), Rounding(X32, along))._asdict(),
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
