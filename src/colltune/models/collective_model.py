"""Fitted models of one collective, predicting all configurations at once; numpy only.

What may be chosen follows from what was measured (`Coverage`): how far an instance is, and what
runs there. A configuration is a candidate for an instance only if what ran and what failed in the
data says that it runs there (`Applicability`); if it was measured at two shapes or more, or exactly
there, since one shape tells nothing of how it scales; and if it was measured on a single node where
the instance runs on one, on several where it runs on several: shared memory and network are
different machines. The default always is.

Nothing is predicted beyond `Coverage.farthest`: 16 times the counts, twice the messages measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colltune.domain import Collective, Configuration, Shape
from colltune.features import feature_set
from colltune.models.error_model import UNKNOWN_SHORTFALL, ErrorModel
from colltune.models.learners import Predictor
from colltune.models.learners.regret_trees import Forest, Nodes, nodes, rounding

if TYPE_CHECKING:
    from colltune.models.cells import CellMatrix


Integers = NDArray[np.int64]
_BORROWED_REACH = 2
_MOST_TIMES_THE_COUNT = 16
_MOST_TIMES_THE_MESSAGE = 2
_STORED = ("shapes", "sizes", "low", "high", "ppn_range", "alone", "together", "only")
_TREES = "trees_"
AGREEING = 0.8
"""Share of the trees that must say that a configuration runs; a doubtful one is no candidate."""
_PARTS = 255
_N_TREES, _MAX_FEATURES = 50, 0.6
FEATURES = "divisors"
"""The features by which `Coverage.applicability` decides."""


class Applicability(NamedTuple):
    """Trees that tell which of C configurations run at an instance, for all learners alike.

    An algorithm for powers of two, for two processes or for a mesh is missing from the data
    elsewhere; one that crashed or ran out of time has failed there. Both count the same: where it
    did not run.

    ``nodes`` are those of T trees; leaves name rows of ``ran`` (R, V), the share of a leaf's
    training instances at which each of V configurations ran, in 255ths. ``columns`` (V) are the
    configurations that did not run everywhere; the others always may.
    """

    nodes: Nodes
    ran: NDArray[np.uint8]
    columns: Integers

    @classmethod
    def of(cls, cells: CellMatrix) -> Self:
        """Return where the configurations of `cells` run, by where they have a time."""
        ran = np.isfinite(cells.time_s)
        columns = np.flatnonzero(~ran.all(axis=0))
        if not len(columns):
            return cls(*EVERYWHERE)
        from sklearn.tree import ExtraTreeRegressor

        features = feature_set(FEATURES).matrix(cells.nodes, cells.ppn, cells.msize_bytes)
        X32 = features.astype(np.float32)
        shares_run = ran[:, columns].astype(np.float64)
        trees = [
            ExtraTreeRegressor(max_features=_MAX_FEATURES, random_state=seed)
            .fit(X32, shares_run)
            .tree_
            for seed in range(_N_TREES)
        ]
        leaf_of = [np.flatnonzero(tree.children_left < 0) for tree in trees]
        shares = [tree.value[at, :, 0] for tree, at in zip(trees, leaf_of, strict=True)]
        table, rows = np.unique(
            np.rint(255 * np.concatenate(shares)).astype(np.uint8), axis=0, return_inverse=True
        )
        row_of = np.split(rows.ravel(), np.cumsum([len(at) for at in leaf_of])[:-1])
        return cls(nodes(trees, leaf_of, row_of, rounding(X32, [])), table, columns)

    def runs(self, X: Numbers) -> Flags:
        """Tell which of ``columns`` run at instances with the features `X` (n, k), shape (n, V)."""
        X32, nodes = X.astype(np.float32), self.nodes
        at = np.tile(nodes.roots.astype(np.int64), (len(X32), 1))
        rows = np.arange(len(X32))[:, None]
        while (inner := at >= 0).any():
            node = np.maximum(at, 0)
            is_left = X32[rows, nodes.features[node]] <= nodes.thresholds[node]
            at = np.where(inner, np.where(is_left, nodes.left[node], nodes.right[node]), at)
        shares = self.ran[-1 - at].mean(axis=1) / _PARTS
        return np.asarray(shares >= AGREEING)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {**self.nodes._asdict(), "ran": self.ran, "columns": self.columns}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        nodes = Nodes(**{name: arrays[name] for name in Nodes._fields})
        return cls(nodes, arrays["ran"], arrays["columns"])


_NONE = np.zeros(0, np.int32)
EVERYWHERE = Applicability(
    Nodes(_NONE.astype(np.uint8), _NONE.astype(np.float32), _NONE, _NONE, _NONE),
    np.zeros((0, 0), np.uint8),
    np.zeros(0, np.int64),
)
"""That of configurations which ran wherever anything was measured."""


class Coverage(NamedTuple):
    """What C configurations were measured at.

    ``shapes`` (S, 2) are nodes and ppn; ``sizes`` (M) the message sizes, ascending. ``low``,
    ``high`` (3) are the ranges of nodes, processes and message size of the reference (the default,
    or all configurations together if there is none), ``ppn_range`` (2) of ppn. ``alone``,
    ``together`` (C) tell which configurations were measured on one node, and on several;
    ``default_column`` is -1 without a default. ``own`` (2, 4), lowest and highest nodes, processes,
    message size and ppn, is what was measured on the machine itself where the rest is borrowed from
    other machines (the highest below the lowest if nothing was), None where it is all its own.
    """

    shapes: Integers
    sizes: Integers
    low: Integers
    high: Integers
    ppn_range: Integers
    alone: Flags
    together: Flags
    only: Integers
    applicability: Applicability
    default_column: int
    own: Integers | None = None

    @classmethod
    def of(cls, cells: CellMatrix, applicability: Applicability = EVERYWHERE) -> Self:
        """Read the coverage off measured cells, given where their configurations run."""
        measured = np.isfinite(cells.time_s)
        column = cells.default_column
        rows = measured.any(axis=1) if column is None else measured[:, column]
        axes = np.stack([cells.nodes, cells.nprocs, cells.msize_bytes])[:, rows]
        ppn = cells.ppn[rows]
        pairs = np.column_stack([cells.nodes, cells.ppn])
        shapes, shape_of = np.unique(pairs, axis=0, return_inverse=True)
        seen = np.stack([measured[shape_of == s].any(axis=0) for s in range(len(shapes))])
        return cls(
            shapes,
            np.unique(cells.msize_bytes),
            axes.min(axis=1),
            axes.max(axis=1),
            np.array([ppn.min(), ppn.max()]),
            np.asarray(measured[cells.nodes == 1].any(axis=0)),
            np.asarray(measured[cells.nodes > 1].any(axis=0)),
            _only(seen),
            applicability,
            -1 if column is None else column,
        )

    def candidates(self, nodes: Integers, ppn: Integers, msize_bytes: Integers) -> Flags:
        """Return which configurations may be chosen for n instances, shape (n, C)."""
        result = np.ones((len(nodes), len(self.alone)), np.bool_)
        if len(self.applicability.columns):
            features = feature_set(FEATURES).matrix(nodes, ppn, msize_bytes)
            result[:, self.applicability.columns] = self.applicability.runs(features)
        for column in np.flatnonzero(self.only >= 0).tolist():
            only_nodes, only_ppn = self.shapes[self.only[column]]
            result[:, column] &= (nodes == only_nodes) & (ppn == only_ppn)
        result &= np.where((nodes == 1)[:, None], self.alone, self.together)
        if self.default_column >= 0:
            result[:, self.default_column] = True
        return result

    def has_shape(self, nodes: Integers, ppn: Integers) -> Flags:
        """Tell which of n shapes were measured, shape (n)."""
        same = (nodes[:, None] == self.shapes[:, 0]) & (ppn[:, None] == self.shapes[:, 1])
        return np.asarray(same.any(axis=1))

    def is_outside(self, shape: Shape) -> bool:
        """Tell whether a shape lies outside what was measured, whatever the message size."""
        counts = (np.array([count]) for count in (shape.nodes, shape.ppn, int(self.high[2])))
        return bool(self.extrapolated(*counts)[0])

    def is_far(self, nodes: Integers, ppn: Integers, msize_bytes: Integers) -> Flags:
        """Tell which instances are too far from everything measured to be predicted, shape (n)."""
        counts = np.stack([nodes, nodes * ppn, msize_bytes])
        least, most = self.farthest
        return np.asarray(((counts < least[:, None]) | (counts > most[:, None])).any(axis=0))

    @property
    def farthest(self) -> tuple[Integers, Integers]:
        """The least and most nodes, processes and bytes (3), (3) that are not too far.

        Counts are at most 16 times those measured, or a sixteenth, and the measured one alone where
        there is only one, which tells nothing of others; messages at most twice the largest. What
        is few on one machine can be many on another: where data is borrowed, half to twice the
        counts of other machines count as measured.
        """
        low, high = self.low.copy(), self.high.copy()
        if self.own is not None:
            low[:2] //= _BORROWED_REACH
            high[:2] *= _BORROWED_REACH
        times = np.where(low < high, _MOST_TIMES_THE_COUNT, 1)
        low, high = -(-low // times), high * times
        low[2], high[2] = 0, _MOST_TIMES_THE_MESSAGE * self.high[2]
        return low, high

    def extrapolated(self, nodes: Integers, ppn: Integers, msize_bytes: Integers) -> Flags:
        """Tell which instances lie outside what was measured on this machine itself, shape (n)."""
        # no bytes count as one
        values = np.maximum(np.stack([nodes, nodes * ppn, msize_bytes, ppn], axis=1), 1)
        low, high = np.maximum(self._measured if self.own is None else self.own, 1)
        return np.asarray(((values < low) | (values > high)).any(axis=1))

    @property
    def _measured(self) -> Integers:
        """The reference's ranges in the layout of ``own``."""
        return np.column_stack([np.stack([self.low, self.high]), self.ppn_range])

    def borrowed(self, own: Coverage | None) -> Coverage:
        """Return this coverage as one of several machines, `own` being what this one has of it."""
        nothing = np.array([[np.iinfo(np.int64).max] * 4, [-1] * 4], np.int64)
        return self._replace(own=nothing if own is None else own._measured)

    def arrays(self) -> dict[str, NDArray[Any]]:
        result = {name: getattr(self, name) for name in _STORED}
        result["default_column"] = np.array([self.default_column])
        result |= {f"{_TREES}{name}": a for name, a in self.applicability.arrays().items()}
        return result if self.own is None else {**result, "own": self.own}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `arrays`; bundles before version 3 do not know where configurations ran."""
        fields: dict[str, Any] = {name: arrays.get(name) for name in (*_STORED, "own")}
        trees = {n.removeprefix(_TREES): a for n, a in arrays.items() if n.startswith(_TREES)}
        if not trees:
            on_one = arrays["shapes"][:, 0] == 1
            fields["alone"] = arrays["seen"][:, on_one].any(axis=1)
            fields["together"] = arrays["seen"][:, ~on_one].any(axis=1)
            fields["only"] = _only(arrays["seen"].T)
        return cls(
            **fields,
            applicability=Applicability.from_arrays(trees) if trees else EVERYWHERE,
            default_column=int(arrays["default_column"][0]),
        )


def _only(seen: Flags) -> Integers:
    """Return `Coverage.only`, given which of S shapes measured which configurations, (S, C)."""
    return np.where(seen.sum(axis=0) == 1, seen.argmax(axis=0), -1)


Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
_CELLS = 10


class Forecast(NamedTuple):
    """Predictions for n instances and C configurations.

    ``time_s``, ``lower_s``, ``upper_s`` (n, C) are seconds; ``candidate`` (n, C) tells which
    configurations may be chosen there; ``extrapolated`` (n) which instances lie outside the
    measured range, ``far`` (n) which too far outside; ``doubt`` (n, C) by how much log gains over
    the default may be too high, ``noise`` (n) what noise alone can make of one.
    """

    time_s: Numbers
    lower_s: Numbers
    upper_s: Numbers
    candidate: Flags
    extrapolated: Flags
    far: Flags
    doubt: Numbers
    noise: Numbers


@dataclass(frozen=True, eq=False)
class CollectiveModel:
    """The runtime models of one collective's configurations, which share learner and features."""

    collective: Collective
    configurations: tuple[Configuration, ...]
    learner: str
    feature_set: str
    predictor: Predictor
    coverage: Coverage
    error: ErrorModel

    @property
    def default_column(self) -> int | None:
        """Column of the library's own decision, or None if it was not measured."""
        column = self.coverage.default_column
        return None if column < 0 else column

    def forecast(self, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike) -> Forecast:
        """Predict all configurations for n instances (vectors of equal length, or scalars)."""
        vectors = (np.atleast_1d(np.asarray(v, np.int64)) for v in (nodes, ppn, msize_bytes))
        instances = np.broadcast_arrays(*vectors)
        features = feature_set(self.feature_set).matrix(*instances)
        extrapolated = self.coverage.extrapolated(*instances)
        # inside the range there is none for forests, which tell it by instance
        inside = 0.0 if isinstance(self.predictor, Forest) else 1.0
        doubt = np.tile(inside * self.error.shortfall, (len(features), 1))
        if extrapolated.any():
            # before the times, which a forest then has at hand
            doubt = np.where(extrapolated[:, None], self._doubt_outside(features), doubt)
        time_s = _rounded(self.predictor.predict(features))
        # what is not of a measured shape is an average over about ten cells
        cells = np.where(self.coverage.has_shape(*instances[:2]), 1, _CELLS)
        return Forecast(
            time_s,
            time_s * np.exp(self.error.lower),
            time_s * np.exp(self.error.upper),
            self.coverage.candidates(*instances),
            extrapolated,
            self.coverage.is_far(*instances),
            doubt,
            self.error.detectable / np.sqrt(cells),
        )

    def doubt(self, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike) -> Numbers:
        """Return how far gains may fall short outside the measured range, (n, C), as log ratios."""
        return self._doubt_outside(feature_set(self.feature_set).matrix(nodes, ppn, msize_bytes))

    def _doubt_outside(self, features: Numbers) -> Numbers:
        if self.default_column is None or not isinstance(self.predictor, Forest):
            return np.maximum(self.error.shortfall, UNKNOWN_SHORTFALL)[None, :]
        behind = self.predictor.shortfall(features, self.default_column)
        # trees do not tell how machines differ
        return behind if self.coverage.own is None else np.maximum(behind, UNKNOWN_SHORTFALL)


def _rounded(time_s: Numbers) -> Numbers:
    """Return numbers rounded to 40 binary digits, so that what ties does so on any processor."""
    last = 1 << 13
    return ((time_s.view(np.int64) + last // 2) & -last).view(np.float64)
