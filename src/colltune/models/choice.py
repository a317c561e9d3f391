"""Which learner decides, and what that rests on.

``auto`` is the learner that decided best over all data sets and splits tried
(docs/explanation/selection.md), `PREFERRED`. Comparing learners on the data at hand means comparing
them on a handful of node counts, which is mostly chance: a rival takes its place only where there
are at least `ENOUGH_NODES` node counts and `ENOUGH_SHAPES` shapes, and its regret on held-out
instances is lower by more than two standard errors of the difference between folds. What counts
are decisions, not errors of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.models.cells import CellMatrix
from colltune.models.cross_validation import HeldOut, best_learner, folds

Numbers = NDArray[np.float64]
PREFERRED = "regret_trees"
ENOUGH_NODES, ENOUGH_SHAPES = 6, 12
_STANDARD_ERRORS = 2.0
_HARM = 1.05


class Choice(NamedTuple):
    """The learner of one collective, why, and each learner's held-out figures by name."""

    learner: str
    reason: str
    figures: dict[str, dict[str, float | int | None]]


def choose(held_out: Mapping[str, HeldOut], cells: CellMatrix) -> Choice:
    """Choose among learners by their held-out decisions."""
    figures = {name: figures_of(result, cells) for name, result in held_out.items()}
    if len(held_out) == 1:
        return Choice(next(iter(held_out)), "no other learner was considered", figures)
    if PREFERRED not in held_out:
        name = best_learner({n: h.regret(cells) for n, h in held_out.items()})
        return Choice(name, "least regret of held-out decisions", figures)
    if not _enough(cells):
        reason = "too few node counts and shapes to compare learners on"
        return Choice(PREFERRED, reason, figures)
    for name, rival in held_out.items():
        if name != PREFERRED and _is_better(rival, held_out[PREFERRED], cells):
            reason = f"decides better than {PREFERRED} on held-out instances, beyond chance"
            return Choice(name, reason, figures)
    return Choice(PREFERRED, "no rival decides better on held-out instances", figures)


def figures_of(held_out: HeldOut, cells: CellMatrix) -> dict[str, float | int | None]:
    """Return how good held-out decisions are, without a guard.

    ``instances``; ``regret``, the mean of log(t_selected / t_best); ``share`` of the log gain that
    was to be had over the default, and ``harm``, the share of instances more than 5 % slower than
    it, both None without a default.
    """
    rows, selected_s, best_s = held_out.decisions(cells)
    if not len(rows):
        return {"instances": 0, "regret": None, "share": None, "harm": None}
    regret = float(np.log(selected_s / best_s).mean())
    column = cells.default_column
    default_s = np.full(len(rows), np.nan) if column is None else cells.time_s[rows, column]
    known = np.isfinite(default_s)
    possible = float(np.log(default_s[known] / best_s[known]).sum())
    gained = float(np.log(default_s[known] / selected_s[known]).sum())
    return {
        "instances": len(rows),
        "regret": regret,
        "share": gained / possible if possible > 0 else None,
        "harm": float((selected_s > _HARM * default_s)[known].mean()) if known.any() else None,
    }


def _enough(cells: CellMatrix) -> bool:
    shapes = {*zip(cells.nodes.tolist(), cells.ppn.tolist(), strict=True)}
    return len(np.unique(cells.nodes)) >= ENOUGH_NODES and len(shapes) >= ENOUGH_SHAPES


def _is_better(rival: HeldOut, held_out: HeldOut, cells: CellMatrix) -> bool:
    """Tell whether a rival's regret is lower by more than the folds differ."""
    logs = []
    for result in (rival, held_out):
        rows, selected_s, _ = result.decisions(cells)
        log_s = np.full(len(cells), np.nan)
        log_s[rows] = np.log(selected_s)
        logs.append(log_s)
    difference = logs[0] - logs[1]
    fold_of = folds(cells)
    means = [
        float(difference[part].mean())
        for fold in np.unique(fold_of)
        if (part := (fold_of == fold) & np.isfinite(difference)).any()
    ]
    if len(means) < 3:
        return False
    error = float(np.std(means, ddof=1) / np.sqrt(len(means)))
    return float(np.mean(means)) < -_STANDARD_ERRORS * error


def evidence(choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return what a bundle's manifest says of the choices by collective, JSON-able."""
    return {
        "choice": {name: {"learner": c.learner, "reason": c.reason} for name, c in choices.items()},
        "learners": {name: c.figures for name, c in choices.items()},
    }
