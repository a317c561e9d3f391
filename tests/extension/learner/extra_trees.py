"""Extremely randomised trees on logarithms (Geurts et al., Machine Learning 63, 2006)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.tree import ExtraTreeRegressor

from colltune.models.learners.xgboost import Trees

_N_TREES, _MAX_DEPTH, _END = 20, 8, -1


def fit(X: NDArray[np.float64], times_s: NDArray[np.float64]) -> Trees:
    """Geometric mean over trees that split at random places."""
    forest = ExtraTreesRegressor(_N_TREES, max_depth=_MAX_DEPTH, random_state=0)
    forest.fit(X, np.log(times_s))
    return _exported(forest.estimators_, X.shape[1])


def _exported(trees: list[ExtraTreeRegressor], n_features: int) -> Trees:
    """Return the mean of fitted trees as a sum of complete ones with a logarithmic link."""
    depth = max(1, *(tree.get_depth() for tree in trees))
    features = np.zeros((len(trees), 2**depth - 1), np.uint8)
    thresholds = np.full((len(trees), 2**depth - 1), np.inf, np.float32)
    leaves = np.zeros((len(trees), 2**depth), np.float32)
    for row, tree in enumerate(trees):
        _complete(tree, depth, features[row], thresholds[row], leaves[row])
    finite = np.isfinite(thresholds)
    cuts = [np.unique(thresholds[finite & (features == f)]) for f in range(n_features)]
    return Trees(
        features,
        thresholds,
        (leaves / len(trees)).astype(np.float32),
        first=np.array([0, len(trees)]),
        margins=np.zeros(1),
        units_s=np.ones(1),
        cuts=np.concatenate(cuts),
        cut_counts=np.array([len(cut) for cut in cuts]),
    )


def _complete(
    fitted: ExtraTreeRegressor,
    depth: int,
    features: NDArray[np.uint8],
    thresholds: NDArray[np.float32],
    leaves: NDArray[np.float32],
) -> None:
    """Fill in one tree: node i has the children 2i+1 and 2i+2; a leaf is repeated at the bottom."""
    tree = fitted.tree_
    pending = [(0, 0, 0)]
    while pending:
        node, place, level = pending.pop()
        if tree.children_left[node] == _END:
            span = 2 ** (depth - level)
            start = (place + 1 - 2**level) * span
            leaves[start : start + span] = tree.value[node, 0, 0]
            continue
        features[place] = tree.feature[node]
        thresholds[place] = _above(tree.threshold[node])
        pending.append((tree.children_left[node], 2 * place + 1, level + 1))
        pending.append((tree.children_right[node], 2 * place + 2, level + 1))


def _above(threshold: float) -> np.float32:
    """Return from which number on the right child is taken; scikit-learn asks for more than."""
    nearest = np.float32(threshold)
    above: np.float32 = np.nextafter(nearest, np.float32(np.inf))
    return nearest if nearest > threshold else above
