"""Held-out predictions: how good a learner's decisions are, and how wrong its predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colltune.models.cells import CellMatrix
from colltune.models.coverage import Coverage

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
MAX_FOLDS = 5
_HARM = 1.05


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
    """Out-of-fold results of one learner for all cells of one collective, each (n, C).

    ``predicted_s`` is NaN where nothing was left to learn from; ``candidate`` is what the rest of
    the data allowed to choose.
    """

    predicted_s: Numbers
    candidate: Flags

    def figures(self, cells: CellMatrix) -> dict[str, float | int | None]:
        """Return how good held-out decisions are, without a guard.

        ``instances``; ``regret``, the mean of log(t_selected / t_best); ``share`` of the log gain
        that was to be had over the default, and ``harm``, the share of instances more than 5 %
        slower than it, both None without a default.
        """
        rows, selected_s, best_s = self.decisions(cells)
        if not len(rows):
            return {"instances": 0, "regret": None, "share": None, "harm": None}
        column = cells.default_column
        default_s = np.full(len(rows), np.nan) if column is None else cells.time_s[rows, column]
        known = np.isfinite(default_s)
        possible = float(np.log(default_s[known] / best_s[known]).sum())
        gained = float(np.log(default_s[known] / selected_s[known]).sum())
        return {
            "instances": len(rows),
            "regret": float(np.log(selected_s / best_s).mean()),
            "share": gained / possible if possible > 0 else None,
            "harm": float((selected_s > _HARM * default_s)[known].mean()) if known.any() else None,
        }

    def decisions(self, cells: CellMatrix) -> tuple[NDArray[np.int64], Numbers, Numbers]:
        """Return the rows that leave something to choose, and their chosen and best times."""
        eligible = self.candidate & np.isfinite(self.predicted_s) & np.isfinite(cells.time_s)
        rows = np.flatnonzero(eligible.any(axis=1))
        if not len(rows):
            return rows, np.zeros(0), np.zeros(0)
        chosen = np.where(eligible, self.predicted_s, np.inf).argmin(axis=1)[rows]
        return rows, cells.time_s[rows, chosen], np.nanmin(cells.time_s[rows], axis=1)


def empty(cells: CellMatrix) -> HeldOut:
    """Return results to be filled in, nothing known yet."""
    return HeldOut(np.full(cells.time_s.shape, np.nan), np.zeros(cells.time_s.shape, np.bool_))


def fill(
    held_out: HeldOut, cells: CellMatrix, rows: Flags, predicted_s: Numbers, *, cautious: bool
) -> None:
    """Enter what a model fitted without `rows` predicts for them.

    `predicted_s` has one column per configuration that the remaining rows know, in order;
    ``cautious`` is as for `Coverage.candidates`.
    """
    rest = cells.rows(~rows)
    columns = [cells.configurations.index(c) for c in rest.configurations]
    candidates = Coverage.of(rest).candidates(
        cells.nodes[rows], cells.ppn[rows], cells.msize_bytes[rows], cautious=cautious
    )
    where = np.ix_(np.flatnonzero(rows), np.array(columns))
    held_out.predicted_s[where] = predicted_s
    held_out.candidate[where] = candidates
