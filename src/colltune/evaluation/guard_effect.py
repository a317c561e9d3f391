"""What the guard costs and what it saves: the same models decide with it and without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.evaluation.evaluation import Score, scores
from colltune.evaluation.folds import Source
from colltune.evaluation.recipes import OfFolds, Recipe
from colltune.evaluation.run import decided
from colltune.evaluation.splits import Split


class GuardEffect(NamedTuple):
    """The figures of one learner's decisions with the guard and without it.

    Both are by collective and ``all``, as `Evaluation.scores` has them.
    """

    learner: str
    guarded: Mapping[str, Score]
    unguarded: Mapping[str, Score]


def guard_effects(
    dataset: PerformanceDataset,
    split: Split,
    *,
    learners: Sequence[str] = ("auto",),
    noise: float = 0.0,
    seed: int = 0,
    objective: Objective = DEFAULT_OBJECTIVE,
    jobs: int | None = None,
) -> list[GuardEffect]:
    """Fit `learners` to each fold of `split` once, and let them decide with and without guard.

    Parameters
    ----------
    dataset, split, learners, noise, seed, objective, jobs
        As for `colltune.evaluation.evaluate_split`.
    """
    source = Source(dataset, train_noise=noise, seed=seed, objective=objective, judged_by=objective)
    folds = split.folds(source)
    recipes: list[Recipe] = []
    for learner in learners:
        fitted = OfFolds.fit(learner, dataset.context, folds, learner, jobs=jobs)
        recipes += [
            replace(fitted, name=_name(learner, guard), guard=guard) for guard in (True, False)
        ]
    tested, choices, _ = decided(dataset.context, folds, recipes, jobs=1)
    return [
        GuardEffect(
            learner,
            *(scores(tested, choices[_name(learner, guard)], seed) for guard in (True, False)),
        )
        for learner in learners
    ]


def _name(learner: str, guard: bool) -> str:
    return f"{learner}, {'guarded' if guard else 'unguarded'}"
