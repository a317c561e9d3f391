"""Where configurations run: trees over what ran and what did not, for all learners alike.

An algorithm for powers of two, for two processes or for a mesh is missing from the data elsewhere;
one that crashed or ran out of time has failed there. Both count the same: where it did not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.predictors.lines import Nodes

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
AGREEING = 0.8
"""Share of the trees that must say that a configuration runs; a doubtful one is no candidate."""
_PARTS = 255


class Applicability(NamedTuple):
    """Trees that tell which of C configurations run at an instance.

    ``nodes`` are those of T trees; leaves name rows of ``ran`` (R, V), the share of a leaf's
    training instances at which each of V configurations ran, in 255ths. ``columns`` (V) are the
    configurations that did not run everywhere; the others always may.
    """

    nodes: Nodes
    ran: NDArray[np.uint8]
    columns: Integers

    def runs(self, X: Numbers) -> Flags:
        """Tell which of ``columns`` run at instances with the features `X` (n, k), shape (n, V)."""
        shares = self.ran[self._leaves(X.astype(np.float32))].mean(axis=1) / _PARTS
        return np.asarray(shares >= AGREEING)

    def _leaves(self, X32: NDArray[np.float32]) -> Integers:
        """Return the row of the table that each instance ends in, for each tree, shape (n, T)."""
        at = np.tile(self.nodes.roots.astype(np.int64), (len(X32), 1))
        rows = np.arange(len(X32))[:, None]
        while (inner := at >= 0).any():
            node = np.maximum(at, 0)
            is_left = X32[rows, self.nodes.features[node]] <= self.nodes.thresholds[node]
            child = np.where(is_left, self.nodes.left[node], self.nodes.right[node])
            at = np.where(inner, child, at)
        return -1 - at

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields, those of the nodes too."""
        return {**self.nodes._asdict(), "ran": self.ran, "columns": self.columns}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `arrays`."""
        nodes = Nodes(**{name: arrays[name] for name in Nodes._fields})
        return cls(nodes, arrays["ran"], arrays["columns"])


_NONE = np.zeros(0, np.int32)
EVERYWHERE = Applicability(
    Nodes(_NONE.astype(np.uint8), _NONE.astype(np.float32), _NONE, _NONE, _NONE),
    np.zeros((0, 0), np.uint8),
    np.zeros(0, np.int64),
)
"""That of configurations which ran wherever anything was measured."""
