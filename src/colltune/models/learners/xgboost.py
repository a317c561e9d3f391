"""XGBoost with the Tweedie loss and 200 rounds, its trees as arrays read from its JSON.

It is a learner of Hunold, Bhatele, Bosilca and Knees (CLUSTER 2020, sec. III-B).

Every tree is stored as a complete binary tree: node i has the children 2i+1 (feature below its
threshold) and 2i+2, and a leaf that ends early is repeated at the bottom. As in XGBoost, features
and thresholds are compared as float32.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.bundle_schema import (
    ANY,
    LOG,
    Arrays,
    Lengths,
    Stored,
    at_least,
    below,
    insist,
)
from colltune.models.learners import ArrayFields, Numbers

_UNIT_S = 1e-6
_ROUNDS = 200
_CHUNK_ELEMENTS = 250_000
_MOST_REMEMBERED = 1 << 22
_LARGEST_CODE = 1 << 62


class _Cells(NamedTuple):
    """Sums of leaves (N, C) of the cells with the ``codes`` (N), ascending."""

    codes: NDArray[np.int64]
    sums: Numbers


@dataclass(frozen=True, eq=False)
class Trees(ArrayFields):
    """``exp(margin + sum of leaves) * unit_s``, in seconds.

    ``features`` (uint8) and ``thresholds`` (float32) have the shape (T, 2^d - 1), ``leaves``
    (float32) (T, 2^d), for all T trees of all configurations in turn; configuration c owns the
    trees from ``first[c]`` to ``first[c + 1]``. ``margins`` and ``units_s`` have the shape (C).
    ``cuts`` are the distinct thresholds of the first feature, ascending, then of the second, …;
    ``cut_counts`` (k) how many each feature has.
    """

    kind: ClassVar[str] = "trees"
    stored: ClassVar[Mapping[str, Stored]] = {
        "features": Stored("u", ("T", "w"), below("k")),
        # what splits nothing is infinite
        "thresholds": Stored("f", ("T", "w"), ANY),
        "leaves": Stored("f", ("T", "W")),
        "first": Stored("i", ("C+1",), below("T+1")),
        "margins": Stored("f", ("C",), LOG),
        "units_s": Stored("f", ("C",), at_least(0)),
        "cuts": Stored("f", ("c",), ANY),
        "cut_counts": Stored("i", ("k",), below("c+1")),
    }
    features: NDArray[np.uint8]
    thresholds: NDArray[np.float32]
    leaves: NDArray[np.float32]
    first: NDArray[np.int64]
    margins: Numbers
    units_s: Numbers
    cuts: NDArray[np.float32]
    cut_counts: NDArray[np.int64]
    _seen: list[_Cells] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_json(cls, text: str | bytes | bytearray, unit_s: float) -> Trees:
        """Read a booster with a logarithmic link as ``Booster.save_raw("json")`` returns it.

        `unit_s` is the unit of the booster's output, in seconds.
        """
        learner = json.loads(text)["learner"]
        parameters = learner["learner_model_param"]
        trees = learner["gradient_booster"]["model"]["trees"]
        depth = max(1, *(_depth(tree) for tree in trees)) if trees else 1
        features = np.zeros((len(trees), 2**depth - 1), np.uint8)
        thresholds = np.full((len(trees), 2**depth - 1), np.inf, np.float32)
        leaves = np.zeros((len(trees), 2**depth), np.float32)
        for row, tree in enumerate(trees):
            _complete(tree, depth, features[row], thresholds[row], leaves[row])
        return cls(
            features,
            thresholds,
            leaves,
            np.array([0, len(trees)]),
            # since XGBoost 3 an array such as [1.5E0]
            np.array([np.log(float(parameters["base_score"].strip("[]")))]),
            np.array([unit_s]),
            *_distinct_cuts(features, thresholds, int(parameters["num_feature"])),
        )

    @property
    def n_outputs(self) -> int:
        return len(self.margins)

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C).

        Instances that no threshold tells apart lie in one cell and are computed once, ever: all
        predictions together are a table of few cells.
        """
        X32 = X.astype(np.float32)
        codes = self._codes(X32)
        wanted, representatives, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return (
            np.exp(self._sums(wanted, X32[representatives])[inverse] + self.margins) * self.units_s
        )

    def _sums(self, codes: NDArray[np.int64], X32: NDArray[np.float32]) -> Numbers:
        """Return the sums of leaves (n, C) of distinct cells, of which `X32` has one instance."""
        if not self._codes_are_lasting:
            return self._computed(X32)
        known = self._seen[0] if self._seen else _Cells(codes[:0], np.zeros((0, self.n_outputs)))
        at = np.searchsorted(known.codes, codes)
        new = np.append(known.codes, -1)[at] != codes
        if new.any():
            joined = np.append(known.codes, codes[new])
            order = np.argsort(joined)
            sums = np.concatenate([known.sums, self._computed(X32[new])])[order]
            known = _Cells(joined[order], sums)
            self._seen[:] = [known] if sums.size <= _MOST_REMEMBERED else []
            at = np.searchsorted(known.codes, codes)
        return known.sums[at]

    def _computed(self, X32: NDArray[np.float32]) -> Numbers:
        rows = max(1, _CHUNK_ELEMENTS // max(1, len(self.features)))
        sums = [self._leaf_sums(X32[i : i + rows]) for i in range(0, len(X32), rows)]
        return np.concatenate(sums) if sums else np.zeros((0, self.n_outputs))

    @property
    def _codes_are_lasting(self) -> bool:
        """Whether `_codes` numbers cells in the same way for any instances."""
        return bool(math.prod((self.cut_counts + 1).tolist()) < _LARGEST_CODE)

    def _codes(self, X32: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the number of the cell between thresholds in which each instance lies, (n)."""
        codes = np.zeros(len(X32), np.int64)
        ends = np.cumsum(self.cut_counts).tolist()
        for feature, (end, count) in enumerate(zip(ends, self.cut_counts.tolist(), strict=True)):
            cuts = self.cuts[end - count : end]
            codes = codes * (count + 1) + np.searchsorted(cuts, X32[:, feature], side="right")
            if not self._codes_are_lasting:
                _, codes = np.unique(codes, return_inverse=True)
        return codes

    def _leaf_sums(self, X32: NDArray[np.float32]) -> Numbers:
        """Walk all trees at once, one level at a time."""
        n_trees, width = self.features.shape
        features, thresholds = self.features.ravel(), self.thresholds.ravel()
        roots = np.arange(n_trees, dtype=np.int64) * width
        rows = (np.arange(len(X32)) * X32.shape[1])[:, None]
        values = X32.ravel()
        node = np.zeros((len(X32), n_trees), np.int64)
        for _ in range(width.bit_length()):
            at = node + roots
            below = values[rows + features[at]] < thresholds[at]
            node = 2 * node + 2 - below
        leaf = self.leaves.ravel()[node - width + np.arange(n_trees) * (width + 1)]
        padded = np.concatenate(
            [np.zeros((len(X32), 1)), np.cumsum(leaf, axis=1, dtype=np.float64)], axis=1
        )
        return np.diff(padded[:, self.first], axis=1)

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Put outputs side by side, all trees at the depth of the deepest."""
        depth = max(p.features.shape[1].bit_length() for p in predictors)
        deep = [p._deepened(depth) for p in predictors]
        counts = np.concatenate([np.diff(p.first) for p in deep])
        features = np.concatenate([p.features for p in deep])
        thresholds = np.concatenate([p.thresholds for p in deep])
        return cls(
            features,
            thresholds,
            np.concatenate([p.leaves for p in deep]),
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([p.margins for p in deep]),
            np.concatenate([p.units_s for p in deep]),
            *_distinct_cuts(features, thresholds, len(deep[0].cut_counts)),
        )

    def _deepened(self, depth: int) -> Self:
        more = depth - self.features.shape[1].bit_length()
        new = ((0, 0), (0, 2**depth - 1 - self.features.shape[1]))
        return replace(
            self,
            features=np.pad(self.features, new),
            thresholds=np.pad(self.thresholds, new, constant_values=np.inf),
            leaves=np.repeat(self.leaves, 2**more, axis=1),
        )

    @staticmethod
    def check(arrays: Arrays, lengths: Lengths) -> None:
        w, first = lengths["w"], arrays["first"]
        insist(w > 0 and w & (w + 1) == 0 and lengths["W"] == w + 1, "predictor.leaves: no tree's")
        ascends = first[0] == 0 and first[-1] == lengths["T"] and (np.diff(first) >= 0).all()
        insist(bool(ascends), "predictor.first: not ascending")
        insist(int(arrays["cut_counts"].sum()) == lengths["c"], "predictor.cut_counts: other cuts")
        insist(not np.isnan(arrays["cuts"]).any(), "predictor.cuts: not a number")
        insist(not np.isnan(arrays["thresholds"]).any(), "predictor.thresholds: not a number")


def fit(X: Numbers, times_s: Numbers) -> Trees:
    """XGBoost with its default depth, learning rate and regularisation, on one thread.

    Times are given to XGBoost in microseconds. The Tweedie loss is not free of units there: the
    curvature of times in seconds is so small that ``min_child_weight`` would forbid every split.
    """
    return Trees.from_json(boosted(X, times_s).save_raw("json"), _UNIT_S)


def boosted(X: Numbers, times_s: Numbers) -> Any:
    """Return XGBoost's own model of times in microseconds."""
    import xgboost

    data = xgboost.DMatrix(X, label=times_s / _UNIT_S, nthread=1)
    parameters = {"objective": "reg:tweedie", "nthread": 1, "verbosity": 0}
    # what xgboost.train does, without its callbacks, which take as long again on small data
    booster = xgboost.Booster(parameters, [data])
    for round_number in range(_ROUNDS):
        booster.update(data, round_number)
    return booster


def _distinct_cuts(
    features: NDArray[np.uint8], thresholds: NDArray[np.float32], n_features: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    finite = np.isfinite(thresholds)
    cuts = [np.unique(thresholds[finite & (features == f)]) for f in range(n_features)]
    return np.concatenate(cuts), np.array([len(c) for c in cuts])


def _depth(tree: Mapping[str, Any]) -> int:
    left, right = tree["left_children"], tree["right_children"]
    depths, deepest = {0: 0}, 0
    pending = [0]
    while pending:
        node = pending.pop()
        deepest = max(deepest, depths[node])
        for child in (left[node], right[node]):
            if child >= 0:
                depths[child] = depths[node] + 1
                pending.append(child)
    return deepest


def _complete(
    tree: Mapping[str, Any],
    depth: int,
    features: NDArray[np.uint8],
    thresholds: NDArray[np.float32],
    leaves: NDArray[np.float32],
) -> None:
    """Fill one complete tree; `place` is a node's number among the complete tree's nodes."""
    pending = [(0, 0, 0)]
    while pending:
        node, place, level = pending.pop()
        condition = tree["split_conditions"][node]
        if tree["left_children"][node] < 0:
            span = 2 ** (depth - level)
            start = (place + 1 - 2**level) * span
            leaves[start : start + span] = condition
        else:
            features[place], thresholds[place] = tree["split_indices"][node], condition
            pending.append((tree["left_children"][node], 2 * place + 1, level + 1))
            pending.append((tree["right_children"][node], 2 * place + 2, level + 1))
