"""Learns where configurations run; see `colltune.models.predictors.applicability`."""

from __future__ import annotations

import numpy as np
from sklearn.tree import ExtraTreeRegressor

from colltune.features import feature_set
from colltune.models.cells import CellMatrix
from colltune.models.coverage import FEATURES, Coverage
from colltune.models.predictors.applicability import EVERYWHERE, Applicability
from colltune.models.tree_arrays import Rounding, Tree, nodes

_TREES = 50
_MAX_FEATURES = 0.6


def coverage(cells: CellMatrix) -> Coverage:
    """Return what was measured of `cells` and where their configurations run."""
    return Coverage.of(cells, learned(cells))


def learned(cells: CellMatrix) -> Applicability:
    """Return where the configurations of `cells` run, by where they have a time."""
    ran = np.isfinite(cells.time_s)
    columns = np.flatnonzero(~ran.all(axis=0))
    if not len(columns):
        return EVERYWHERE
    features = feature_set(FEATURES).matrix(cells.nodes, cells.ppn, cells.msize_bytes)
    X32 = features.astype(np.float32)
    trees = _grown(X32, ran[:, columns].astype(np.float64))
    leaf_of = [np.flatnonzero(tree.children_left < 0) for tree in trees]
    shares = [tree.value[at, :, 0] for tree, at in zip(trees, leaf_of, strict=True)]
    table, rows = np.unique(
        np.rint(255 * np.concatenate(shares)).astype(np.uint8), axis=0, return_inverse=True
    )
    row_of = np.split(rows.ravel(), np.cumsum([len(at) for at in leaf_of])[:-1])
    return Applicability(nodes(trees, leaf_of, row_of, Rounding(X32, [])), table, columns)


def _grown(X32: np.typing.NDArray[np.float32], ran: np.typing.NDArray[np.float64]) -> list[Tree]:
    return [
        ExtraTreeRegressor(max_features=_MAX_FEATURES, random_state=seed).fit(X32, ran).tree_
        for seed in range(_TREES)
    ]
