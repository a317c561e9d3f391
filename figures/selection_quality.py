"""Decisions on unseen shapes, pooled over machines: share of the log gain, and harm; per row.

With COLLTUNE_FRONTIER, settings of the guard are tried on the same models, one JSON line each.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

import numpy as np

from colltune.evaluation.recipes import OfFolds, Recipe, references
from colltune.evaluation.run import decided
from colltune.evaluation.scores import Decided, EvaluatedInstances
from colltune.models.guard import Guard
from colltune.models.learners import PUBLISHED
from figures.figure import Figure
from figures.quality_rows import JOBS, LEARNER, Case, Figures, Row, pooled, rows, summary

FRONTIER = tuple(os.environ.get("COLLTUNE_FRONTIER", "").split())
_NO_GUARD, _PERFECT = "no guard", "perfect guard"


def run() -> Figure:
    """Return the mean share over the rows; the baseline is the best published learner's.

    Every row is a line on standard error. COLLTUNE_SHARED names the folder that has ``data``,
    COLLTUNE_EXTRA further folders with tidy files, COLLTUNE_LEARNER another learner, COLLTUNE_ROWS
    some of the rows, COLLTUNE_JOBS processes. COLLTUNE_FRONTIER are settings of the guard, as
    ``caution=0 caution=0.5 least_gain=1.03,caution=1``; published learners are left out then.
    """
    ours, published = {}, {}
    for row in rows():
        found = pooled(row, _decided, lambda name: name == LEARNER)
        ours[row.name] = found[LEARNER]
        published[row.name] = {name: found[name] for name in PUBLISHED if name in found}
        published[row.name].pop(LEARNER, None)
        _report(row, found)
    share = fmean(f.share for f in ours.values())
    best = [
        fmean(of_row[name].share for of_row in published.values())
        for name in PUBLISHED
        if all(name in of_row for of_row in published.values())
    ]
    simulated = [f for name, f in ours.items() if name.startswith("simulated")]
    facts = {
        "rows": summary(ours),
        "choices_that_cannot_run": sum(f.unmeasured for f in simulated),
        "of_choices": sum(f.instances for f in simulated),
    }
    return Figure(
        "selection_quality", share, "share of log gain", share, max(best, default=0.0), facts
    )


def _decided(case: Case) -> tuple[EvaluatedInstances, dict[str, Decided]]:
    folds, context = case.folds(), case.dataset.context
    fitted = OfFolds.fit(LEARNER, context, folds, LEARNER, jobs=JOBS)
    recipes: list[Recipe] = [fitted, replace(fitted, name=_NO_GUARD, guard=False)]
    recipes += [replace(fitted, name=text, guard=_guard(text)) for text in FRONTIER]
    if not FRONTIER:
        recipes += references((LEARNER,))[0]
    tested, choices, _ = decided(context, folds, recipes, JOBS)
    choices[_PERFECT] = _perfect(tested, choices[_NO_GUARD])
    return tested, choices


def _perfect(tested: EvaluatedInstances, free: Decided) -> Decided:
    """Return what a guard that knew the outcome would leave of the decisions made without one."""
    kept = free.kept | (free.selected_s >= tested.default_s)
    return replace(
        free,
        selected_s=np.where(kept, tested.default_s, free.selected_s),
        kept=kept,
        noise=np.where(kept, 0.0, free.noise),
        unmeasured=free.unmeasured & ~kept,
    )


def _guard(text: str) -> Guard:
    """Return the guard of settings like ``caution=1,least_gain=1.03``."""
    settings = dict(pair.partition("=")[::2] for pair in text.split(","))
    unknown = [name for name in settings if name not in Guard._fields]
    if unknown:
        sys.exit(f"COLLTUNE_FRONTIER: no {unknown[0]!r}; there are {', '.join(Guard._fields)}")
    return Guard(**{name: float(value) for name, value in settings.items()})


def _report(row: Row, found: Mapping[str, Figures]) -> None:
    """Print a row's figures, and as JSON those of each setting of the guard."""
    ours = found[LEARNER]
    met = ours.share >= row.share and ours.harm <= row.harm
    print(
        f"{row.name} ({ours.jobs} jobs): {ours}"
        f" [share >= {row.share}, harm <= {row.harm:.1%}: {'met' if met else 'missed'}];"
        f" {_NO_GUARD}: {found[_NO_GUARD]}; {_PERFECT}: share {found[_PERFECT].share:.3f}",
        file=sys.stderr,
    )
    for name in (name for name in PUBLISHED if name in found and name != LEARNER):
        print(f"  {name}: {found[name]}", file=sys.stderr)
    for name in (LEARNER, _NO_GUARD, _PERFECT, *FRONTIER) if FRONTIER else ():
        line = {"row": row.name, "guard": name, **summary({name: found[name]})[name]}
        print(json.dumps(line), file=sys.stderr)
    sys.stderr.flush()
