"""The learners: scikit-learn estimators that leave a numpy predictor behind.

A learner is fitted to features (n, k) and times in seconds (n), all positive, of one configuration.
A joint learner is fitted to all C configurations of a collective at once: its times have the shape
(n, C), NaN where a cell was not measured, infinity where it was left out because it is slow; with
times of the shape (n) it is a learner like the others. An informed learner is told before it is
fitted which configurations these are and what the features are called; untold, it does without.

Adding one takes a module with such a class, a line in `LEARNERS`, and, unless an existing predictor
will do, one in `predictors.PREDICTORS`; the contract tests cover the new entry by themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Configuration
from colltune.errors import DataError
from colltune.models.predictors import Predictor

Numbers = NDArray[np.float64]


class Learner(Protocol):
    """A scikit-learn regressor of seconds, with an export.

    `X` are features (n, k), `y` times in seconds (n), or (n, C) for a joint learner.
    """

    def fit(self, X: Numbers, y: Numbers) -> Self:
        """Fit to features (n, k) and seconds (n)."""
        ...

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds (n)."""
        ...

    def export(self) -> Predictor:
        """Return what was learned as a predictor with one output that needs numpy alone."""
        ...


class InformedLearner(Learner, Protocol):
    """A learner to which configurations are more than columns of times.

    `configurations` (C) and `columns` (k) are in the order in which times and features have them.
    """

    def inform(self, configurations: Sequence[Configuration], columns: Sequence[str]) -> Self:
        """Tell which configurations the columns of times, and which features those of X, are."""
        ...


class AdjustableLearner(Learner, Protocol):
    """A learner with parameters, as all of scikit-learn's kind have."""

    def set_params(self, **parameters: object) -> Self:
        """Set parameters of the constructor.

        `parameters` are those of its constructor, by name.
        """
        ...


@dataclass(frozen=True)
class LearnerEntry:
    """Where a learner lives (``module:class``) and the feature set it does best with.

    ``joint`` learners are fitted to all configurations at once; ``informed`` ones are told which
    these are. ``program`` is what must be on PATH for it. ``in_folds`` are parameters that make it
    cheaper where only its errors are of interest.

    ``location`` is ``module:class``, ``feature_set`` a key of ``FEATURE_SETS``.
    """

    location: str
    feature_set: str
    joint: bool = False
    program: str | None = None
    informed: bool = False
    in_folds: Mapping[str, object] = field(default_factory=dict)

    def create(self) -> Learner:
        """Return a new, unfitted learner; its library is imported only now."""
        module, _, name = self.location.partition(":")
        learner: Learner = getattr(importlib.import_module(module), name)()
        return learner

    def create_for(
        self,
        configurations: Sequence[Configuration],
        columns: Sequence[str],
        *,
        in_fold: bool = False,
    ) -> Learner:
        """Return a new learner, informed if it wants to be, cheaper if it is for a fold.

        `configurations` (C) and `columns` (the features' names) are those that it will be fitted
        to; `in_fold` asks for the cheaper one.
        """
        learner = self.create()
        if in_fold and self.in_folds:
            cast(AdjustableLearner, learner).set_params(**self.in_folds)
        if self.informed:
            return cast(InformedLearner, learner).inform(configurations, columns)
        return learner


LEARNERS: dict[str, LearnerEntry] = {
    "knn": LearnerEntry("colltune.models.knn:NearestNeighbours", "log"),
    "gam": LearnerEntry("colltune.models.gam:GammaAdditiveModel", "log"),
    "xgboost": LearnerEntry("colltune.models.xgboost_:TweedieTrees", "log"),
    "mgcv": LearnerEntry(
        "colltune.models.mgcv:ReferenceAdditiveModel", "log", joint=True, program="Rscript"
    ),
    "regret_trees": LearnerEntry(
        "colltune.models.regret_trees:RegretTrees",
        "rich",
        joint=True,
        in_folds={"n_trees": 50, "most_leaves": 30_000},
    ),
    "cost_model": LearnerEntry(
        "colltune.models.cost_learner:CostModel", "basic", joint=True, informed=True
    ),
}
AUTO, PREFERRED = "auto", "regret_trees"
"""``auto`` stands for the learner that decided best on all data tried
(docs/explanation/selection.md). The others are for comparison."""


def resolved(learner: str) -> str:
    """Return the name of the learner that `learner`, a name or `AUTO`, stands for."""
    return PREFERRED if learner == AUTO else learner


def learner_entry(name: str) -> LearnerEntry:
    """Return the entry of the learner called `name`, `AUTO` included.

    Raises
    ------
    DataError
        If there is none.
    """
    try:
        return LEARNERS[resolved(name)]
    except KeyError:
        raise DataError(
            f"unknown learner {name!r}; known: {', '.join([*LEARNERS, AUTO])}"
        ) from None
