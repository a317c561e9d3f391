"""Decisions on unseen shapes after confirming them by measuring: share, harm and cost; per row."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

from colltune.dataset import read
from colltune.evaluation.recipes import OfFolds, Recipe
from colltune.evaluation.run import Confirmed, Halves, decided, halves
from colltune.evaluation.scores import Decided, EvaluatedInstances
from figures.figure import Figure
from figures.quality_rows import JOBS, LEARNER, Case, Figures, Row, pooled, rows, summary

NOISE = float(os.environ.get("COLLTUNE_CONFIRM_NOISE", "0.034"))
BUDGET = float(os.environ.get("COLLTUNE_CONFIRM_BUDGET", "0.08"))
_CONFIRMED, _WITHIN = "confirmed", "confirmed within budget"


def run() -> Figure:
    """Return the mean share over the rows after confirming; the baseline is that before.

    Decisions are confirmed by one half of the record and judged by the other. Between launches a
    configuration's time differs by the standard deviation COLLTUNE_CONFIRM_NOISE (default 0.034,
    that of real machines; 0: as recorded). They are confirmed a second time within the share
    COLLTUNE_CONFIRM_BUDGET (default 0.08) of the seconds of measuring everything. Other variables
    are those of selection_quality; folders of COLLTUNE_EXTRA may hold datasets with repetitions.
    """
    before, after, within = {}, {}, {}
    for row in rows(repeated=True):
        found = pooled(row, _decided)
        before[row.name], after[row.name] = found[LEARNER], found[_CONFIRMED]
        within[row.name] = found[_WITHIN]
        _report(row, found)
    share, baseline = (fmean(f.share for f in of.values()) for of in (after, before))
    facts = {
        "noise": NOISE,
        "budget": BUDGET,
        "before": summary(before),
        "confirmed": summary(after),
        "within_budget": summary(within),
    }
    return Figure("confirmed_quality", share, "share of log gain", share, baseline, facts)


def _decided(case: Case) -> tuple[EvaluatedInstances, dict[str, Decided]]:
    halved, context = _halves(case.path), case.dataset.context
    folds = case.folds(halved.judging)
    fitted = OfFolds.fit(LEARNER, context, folds, LEARNER, jobs=JOBS)
    confirmed = Confirmed(fitted, halved.deciding, NOISE, label=_CONFIRMED)
    recipes: list[Recipe] = [fitted, confirmed, replace(confirmed, budget=BUDGET, label=_WITHIN)]
    tested, choices, _ = decided(context, folds, recipes, JOBS)
    return tested, choices


@cache
def _halves(path: Path) -> Halves:
    return halves(read([path]))


def _report(row: Row, found: Mapping[str, Figures]) -> None:
    ours = found[_CONFIRMED]
    met = ours.share >= row.confirmed_share and ours.harm <= row.confirmed_harm
    wanted = f"share >= {row.confirmed_share}, harm <= {row.confirmed_harm:.1%}"
    print(f"{row.name} ({ours.jobs} jobs): before: {found[LEARNER]}", file=sys.stderr)
    print(f"  {_CONFIRMED}: {ours} [{wanted}: {'met' if met else 'missed'}]", file=sys.stderr)
    print(f"  {_WITHIN} {BUDGET:.0%}: {found[_WITHIN]}", file=sys.stderr, flush=True)
