"""Forests of deep regression trees for all configurations of a collective at once.

A fully grown tree's leaf holds one training instance, so a leaf stores its number, and a prediction
is an average over the training instances that the trees name. Regrets are whole multiples of a
small step and their sums therefore exact: a prediction does not depend on how it is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors.level import Level
from colltune.models.predictors.protocol import Arrays, Numbers

STEP = 2.0**-20
"""Of a stored log regret."""
_CHUNK_ELEMENTS = 2_000_000


@dataclass(frozen=True, eq=False)
class Forest:
    """``exp(level + mean regret)``, in seconds.

    Node i of T trees compares ``features`` (uint8) i as float32: values up to ``thresholds``
    (float32) i go to ``left`` i, others to ``right`` i; a negative child -1 - r is a leaf that
    names row r of the table, as does a root. ``roots`` (T). ``regrets`` (R, C) are log regrets in
    `STEP`, up to a clip; ``excess`` (R, C) is what was clipped off. The excess counts from half of
    ``clip`` on, so that slow configurations are predicted as slow as they are, and the order of
    good ones is that of the clipped regrets.
    """

    kind: ClassVar[str] = "forest"
    features: NDArray[np.uint8]
    thresholds: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    roots: NDArray[np.int32]
    regrets: NDArray[np.int32]
    excess: NDArray[np.int32]
    clip: Numbers
    level: Level

    @property
    def n_outputs(self) -> int:
        """Number of configurations."""
        return int(self.regrets.shape[1])

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C)."""
        regret, excess = self._means(X)
        counted = np.clip(2.0 * regret / self.clip[0] - 1.0, 0.0, 1.0)
        log_times = self.level.log_time(X)[:, None] + regret + counted * excess
        return np.asarray(np.exp(log_times))

    def regret(self, X: Numbers) -> Numbers:
        """Return the mean clipped log regrets, shape (n, C)."""
        return self._means(X)[0]

    def shortfall(self, X: Numbers, default_column: int) -> Numbers:
        """Return how far behind the default each configuration may fall, shape (n, C).

        The root of the mean square of the log ratio by which it is slower than the default on the
        instances that the trees name, 0 where it is faster.
        """
        behind = np.maximum(self.regrets - self.regrets[:, [default_column]], 0) * STEP
        X32 = X.astype(np.float32)
        squares = self._weights(X32) @ (behind**2) / len(self.roots)
        return np.asarray(np.sqrt(squares))

    def _means(self, X: Numbers) -> tuple[Numbers, Numbers]:
        X32 = X.astype(np.float32)
        table = np.concatenate([self.regrets, self.excess], axis=1).astype(np.float64)
        rows = max(1, _CHUNK_ELEMENTS // max(len(self.roots), len(table)))
        sums = np.empty((len(X), table.shape[1]))
        for first in range(0, len(X), rows):
            part = slice(first, first + rows)
            sums[part] = self._weights(X32[part]) @ table
        sums *= STEP / len(self.roots)
        return sums[:, : self.n_outputs], sums[:, self.n_outputs :]

    def _weights(self, X32: NDArray[np.float32]) -> Numbers:
        """Return how many trees name each row of the table, (n, R)."""
        n_rows = len(self.regrets)
        leaf = -1 - self._leaves(X32) + n_rows * np.arange(len(X32))[:, None]
        counts = np.bincount(leaf.ravel(), minlength=n_rows * len(X32))
        return counts.reshape(len(X32), n_rows).astype(np.float64)

    def _leaves(self, X32: NDArray[np.float32]) -> NDArray[np.int64]:
        """Walk all trees at once, one level at a time; return leaves (n, T) as negative numbers."""
        values, n_features = X32.ravel(), X32.shape[1]
        node = np.tile(self.roots.astype(np.int64), len(X32))
        rows = np.repeat(np.arange(len(X32)) * n_features, len(self.roots))
        pending = np.flatnonzero(node >= 0)
        while len(pending):
            at = node[pending]
            below = values[rows[pending] + self.features[at]] <= self.thresholds[at]
            at = np.where(below, self.left[at], self.right[at])
            node[pending] = at
            pending = pending[at >= 0]
        return node.reshape(len(X32), len(self.roots))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields, those of the level with a prefix."""
        own = {name: value for name, value in self.__dict__.items() if name != "level"}
        return own | {f"level_{name}": value for name, value in self.level.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        own = {name: a for name, a in arrays.items() if not name.startswith("level_")}
        level = {n[len("level_") :]: a for n, a in arrays.items() if n.startswith("level_")}
        return cls(**own, level=Level.from_arrays(level))

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Return the one predictor given: a forest has all outputs from the start.

        Raises
        ------
        ValueError
            If there are several.
        """
        if len(predictors) != 1:
            raise ValueError("forests are fitted to all configurations at once, not put together")
        return predictors[0]
