"""Held-out predictions: how good a learner's decisions are, and how wrong its predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colltune.models.cells import CellMatrix
from colltune.models.guard import HARM, Guard
from colltune.models.runtime_model import CollectiveModel

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
MAX_FOLDS = 5


def folds(cells: CellMatrix) -> NDArray[np.int64]:
    """Return each instance's fold, shape (n).

    Whole node counts are held out if there are at least 3, else whole shapes if there are 3, else
    message sizes; neighbours fall into different folds. A single fold (all 0) means that nothing
    can be held out.
    """
    shapes = cells.nodes * (int(cells.ppn.max()) + 1) + cells.ppn
    for key in (cells.nodes, shapes):
        distinct = np.unique(key)
        if len(distinct) >= 3:
            return _dealt(key)
    return _dealt(cells.msize_bytes)


def _dealt(key: NDArray[np.int64]) -> NDArray[np.int64]:
    distinct = np.unique(key)
    dealt: NDArray[np.int64] = np.searchsorted(distinct, key) % min(MAX_FOLDS, len(distinct))
    return dealt


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-fold forecasts of one learner for all cells of one collective, each (n, C).

    ``predicted_s`` is NaN where nothing was left to learn from; ``candidate`` is what the rest of
    the data allowed to choose, ``doubt`` that of its predictions; ``noise`` and ``far`` have the
    shape (n).
    """

    predicted_s: Numbers
    candidate: Flags
    doubt: Numbers
    noise: Numbers
    far: Flags

    @classmethod
    def empty(cls, cells: CellMatrix) -> HeldOut:
        """Return one to be filled in, nothing known yet."""
        n, shape = len(cells), cells.time_s.shape
        unknown = np.zeros(shape, np.bool_), np.zeros(shape), np.zeros(n), np.zeros(n, np.bool_)
        return cls(np.full(shape, np.nan), *unknown)

    def fill(self, cells: CellMatrix, rows: Flags, model: CollectiveModel) -> None:
        """Enter what `model`, fitted without `rows`, says of them."""
        outside = rows & model.coverage.extrapolated(cells.nodes, cells.ppn, cells.msize_bytes)
        # apart, since doubt costs as much again and is asked for outside only
        self._fill(cells, rows & ~outside, model)
        self._fill(cells, outside, model)

    def _fill(self, cells: CellMatrix, rows: Flags, model: CollectiveModel) -> None:
        if not rows.any():
            return
        columns = [cells.configurations.index(c) for c in model.configurations]
        forecast = model.forecast(cells.nodes[rows], cells.ppn[rows], cells.msize_bytes[rows])
        where = np.ix_(np.flatnonzero(rows), np.array(columns))
        self.predicted_s[where] = forecast.time_s
        self.candidate[where] = forecast.candidate
        self.doubt[where] = forecast.doubt
        self.noise[rows], self.far[rows] = forecast.noise, forecast.far

    def figures(self, cells: CellMatrix, guard: Guard) -> dict[str, float | int | None]:
        """Return how good held-out decisions under `guard` are; what did not run is the default.

        ``instances``; ``regret``, the mean of log(t_selected / t_best); ``share`` of the log gain
        that was to be had over the default, and ``harm``, the share of instances that are slower
        than it by more than 5 % and beyond noise. All but the first None without a default.
        """
        column = cells.default_column
        decided = np.isfinite(self.predicted_s).any(axis=1)
        if column is not None:
            decided &= np.isfinite(cells.time_s[:, column])
        rows = np.flatnonzero(decided)
        if column is None or not len(rows):
            return {"instances": len(rows), "regret": None, "share": None, "harm": None}
        default_s, best_s = cells.time_s[rows, column], np.nanmin(cells.time_s[rows], axis=1)
        selected_s = cells.time_s[rows, self._chosen(rows, column, guard)]
        selected_s = np.where(np.isfinite(selected_s), selected_s, default_s)
        possible = float(np.log(default_s / best_s).sum())
        lost = np.log(selected_s / default_s)
        return {
            "instances": len(rows),
            "regret": float(np.log(selected_s / best_s).mean()),
            "share": -float(lost.sum()) / possible if possible > 0 else None,
            "harm": float((lost > max(np.log(HARM), cells.noise.detectable)).mean()),
        }

    def _chosen(self, rows: NDArray[np.int64], column: int, guard: Guard) -> NDArray[np.int64]:
        """Return what is chosen at `rows`, given the default's `column`."""
        predicted_s = self.predicted_s[rows]
        with np.errstate(invalid="ignore"):
            gain = np.log(predicted_s[:, [column]] / predicted_s)
            required = guard.required_log_gain(self.doubt[rows], self.noise[rows])
            follows = self.candidate[rows] & (gain > required) & ~self.far[rows, None]
        follows[:, column] = True
        chosen = np.where(follows, predicted_s, np.inf).argmin(axis=1)
        return np.where(np.isfinite(predicted_s[:, column]), chosen, column)
