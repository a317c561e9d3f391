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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from colltune.errors import DataError
from colltune.features import FeatureSet, feature_set
from colltune.models.predictors import Predictor, predictor_class
from colltune.on_demand import require

if TYPE_CHECKING:
    from colltune.models.cells import CellMatrix

Numbers = NDArray[np.float64]


class Learner(Protocol):
    """A scikit-learn regressor of seconds, with an export.

    `X` are features (n, k), `y` times in seconds (n), or (n, C) for a joint learner.
    """

    def fit(self, X: Numbers, y: Numbers) -> Self:
        """Fit to features (n, k) and seconds (n)."""

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds (n)."""

    def export(self) -> Predictor:
        """Return what was learned as a predictor with one output that needs numpy alone."""


@dataclass(frozen=True)
class LearnerEntry:
    """Where a learner lives (``module:class``) and the feature set it does best with.

    ``joint`` learners are fitted to all configurations at once; ``informed`` ones are told which
    these are, by ``inform(configurations, columns)``, in the order of the times' columns and of the
    features. ``program`` is what must be on PATH for it, ``package`` what the extra ``learners``
    brings for it. ``in_folds`` are parameters that make it
    cheaper where only its errors are of interest.

    ``location`` is ``module:class``, ``feature_set`` a key of ``FEATURE_SETS``.
    """

    location: str
    feature_set: str
    joint: bool = False
    program: str | None = None
    package: str | None = None
    informed: bool = False
    in_folds: Mapping[str, object] = field(default_factory=dict)

    def create(self) -> Any:
        """Return a new, unfitted `Learner`; its library is imported only now."""
        module, _, name = self.location.partition(":")
        return getattr(importlib.import_module(module), name)()


LEARNERS: dict[str, LearnerEntry] = {
    "knn": LearnerEntry("colltune.models.published:NearestNeighbours", "log"),
    "gam": LearnerEntry("colltune.models.published:GammaAdditiveModel", "log", package="pygam"),
    "xgboost": LearnerEntry("colltune.models.published:TweedieTrees", "log", package="xgboost"),
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
    ProgramError
        If the package is missing that it needs.
    """
    try:
        entry = LEARNERS[resolved(name)]
    except KeyError:
        raise DataError(
            f"unknown learner {name!r}; known: {', '.join([*LEARNERS, AUTO])}"
        ) from None
    if entry.package:
        require("learners", entry.package)
    return entry


def fitted(
    cells: CellMatrix, learner: str, features: FeatureSet | None = None, *, in_fold: bool = False
) -> Predictor:
    """Fit `learner` to all configurations of `cells` and put the predictors side by side.

    Parameters
    ----------
    cells
        What is learned; each configuration has a time at least.
    learner
        A name of `LEARNERS`.
    features
        By default the learner's own feature set.
    in_fold
        Whether only errors are of interest, so that a cheaper fit will do.

    Raises
    ------
    DataError
        If there is no such learner, or it has no model of a configuration.
    """
    entry = learner_entry(learner)
    features = features or feature_set(entry.feature_set)
    inputs = features.matrix(cells.nodes, cells.ppn, cells.msize_bytes)
    what: object = cells.collective
    try:
        if entry.joint:
            joint = entry.create()
            if in_fold and entry.in_folds:
                joint.set_params(**entry.in_folds)
            if entry.informed:
                joint.inform(cells.configurations, features.columns)
            times_s = np.where(cells.slow, np.inf, cells.time_s)
            predictor: Predictor = joint.fit(inputs, times_s).export()
            return predictor
        alone = []
        for configuration, time_s in zip(cells.configurations, cells.time_s.T, strict=True):
            what, rows = configuration.id, np.isfinite(time_s)
            alone.append(entry.create().fit(inputs[rows], time_s[rows]).export())
    except ValueError as error:
        raise DataError(f"{what}: {error}") from error
    return predictor_class(alone[0].kind).stacked(alone)
