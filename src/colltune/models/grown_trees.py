"""Grown trees of scikit-learn as numpy arrays: of a forest, and of where configurations run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import ExtraTreeRegressor

from colltune.features import feature_set
from colltune.models.cells import CellMatrix
from colltune.models.coverage import EVERYWHERE, FEATURES, Applicability, Coverage
from colltune.models.predictors.forest import STEP, Nodes

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
