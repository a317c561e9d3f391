"""One evaluation: a split of a dataset, and what was decided on it.

On disk it is one JSON file for other programs: ``format``, ``format_version``,
``colltune_version`` and ``runs``. A run has its setup (context, dataset_digest, split,
split_options, noise, seed, max_nprocs, judged_by, confirm, programs), guard, objective,
train_nodes, test_nodes, ``tested`` (columns of the tested instances), ``selectors`` (columns of
each one's decisions, null for unknown noise), notes and ``scores``. Version 4 has no weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from colltune import __version__
from colltune.dataset.objective import Objective
from colltune.domain import Context
from colltune.evaluation.scores import (
    Decided,
    Difference,
    EvaluatedInstances,
    Score,
    scores,
)
from colltune.files import whole


@dataclass(frozen=True)
class EvaluationSetup:
    """What an evaluation is of; two with the same setup can be compared instance by instance."""

    context: Context
    """machine and library of the measurements"""
    dataset_digest: str
    """hash of the dataset"""
    split: str
    """what was held out"""
    split_options: Mapping[str, Any]
    """options of the split"""
    noise: float = 0.0
    """noise put on training times, standard deviation of their logarithm"""
    seed: int = 0
    """seed of noise, halves and intervals"""
    max_nprocs: int | None = None
    """most processes of an instance; null: any"""
    judged_by: str = Objective.MEDIAN.value
    """statistic that judged"""
    confirm: bool = False
    """whether half of the record was left to the confirmation of decisions"""
    programs: str | None = None
    """what harms these programs was left out; null: nothing was"""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What selectors decided on the test instances of one split.

    ``train_nodes`` and ``test_nodes`` are those of any fold; ``decided`` is by selector, baselines
    first; ``objective`` is the statistic that was learned; ``notes`` say what is missing.

    ``guard`` is whether learners' decisions were guarded, ``colltune_version`` that which
    evaluated.
    """

    setup: EvaluationSetup
    guard: bool
    objective: str
    train_nodes: tuple[int, ...]
    test_nodes: tuple[int, ...]
    tested: EvaluatedInstances
    decided: Mapping[str, Decided]
    colltune_version: str
    notes: tuple[str, ...] = ()

    @cached_property
    def scores(self) -> dict[str, dict[str, Score]]:
        """The figures by selector and by collective or ``all``."""
        return {name: scores(self.tested, one) for name, one in self.decided.items()}

    @property
    def learners(self) -> tuple[str, ...]:
        """The selectors asked for, without the baselines."""
        return tuple(name for name, one in self.decided.items() if one.learner)


@dataclass(frozen=True)
class EvaluationFigures:
    """What is printed of an evaluation."""

    setup: EvaluationSetup
    """what it is of"""
    guard: bool
    """whether learners' decisions were guarded"""
    objective: str
    train_nodes: tuple[int, ...]
    """node counts that were learned from"""
    test_nodes: tuple[int, ...]
    """node counts that were decided"""
    selectors: Mapping[str, Mapping[str, Score]]
    """by selector and collective; all of them under `all`"""
    differences: Mapping[str, Mapping[str, Difference]]
    """by learner and by what it is compared with, over all collectives"""
    notes: tuple[str, ...]
    """what is missing"""


FORMAT = "colltune-evaluation"
FORMAT_VERSION = 4


def write(evaluations: Sequence[Evaluation], path: Path) -> Path:
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "colltune_version": __version__,
        "runs": [_run(evaluation) for evaluation in evaluations],
    }
    with whole(path) as temporary:
        temporary.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
    return path


def _run(evaluation: Evaluation) -> dict[str, Any]:
    tested = evaluation.tested
    return {
        **asdict(evaluation.setup),
        "guard": evaluation.guard,
        "objective": evaluation.objective,
        "train_nodes": list(evaluation.train_nodes),
        "test_nodes": list(evaluation.test_nodes),
        "tested": {
            name: value.tolist() if isinstance(value, np.ndarray) else list(value)
            for name, value in vars(tested).items()
        },
        "selectors": {name: _columns(one) for name, one in evaluation.decided.items()},
        "notes": list(evaluation.notes),
        "scores": {
            name: {c: asdict(score) for c, score in rows.items()}
            for name, rows in evaluation.scores.items()
        },
    }


def _columns(decided: Decided) -> dict[str, Any]:
    return {
        "learner": decided.learner,
        "configuration": list(decided.configuration),
        "selected_s": decided.selected_s.tolist(),
        "kept": decided.kept.tolist(),
        "unmeasured": decided.unmeasured.tolist(),
        "noise": [x if math.isfinite(x) else None for x in decided.noise.tolist()],
        "fit_s": dict(decided.fit_s),
        "predict_s": dict(decided.predict_s),
        "confirm_s": dict(decided.confirm_s),
        "exhaustive_s": dict(decided.exhaustive_s),
    }
