"""Forests of deep regression trees for all configurations of a collective at once.

A fully grown tree's leaf holds one training instance, so a leaf stores its number, and a prediction
is an average over the training instances that the trees name. Regrets are whole multiples of a
small step and their sums therefore exact: a prediction does not depend on how it is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors.level import Level
from colltune.models.predictors.lines import Lines, Nodes
from colltune.models.predictors.protocol import Arrays, Numbers

STEP = 2.0**-20
"""Of a stored log regret."""


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
        """Number of configurations."""
        return int(self.regrets.shape[1])

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C)."""
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
