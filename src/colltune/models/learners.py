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
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

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
    brings for it; of both, one will do. ``in_folds`` are parameters that make it cheaper where only
    its errors are of interest.

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
    "published_knn": LearnerEntry("colltune.models.published:PublishedNeighbours", "basic"),
    "published_gam": LearnerEntry(
        "colltune.models.published:PublishedAdditiveModel",
        "basic",
        joint=True,
        program="Rscript",
        package="pygam",
    ),
    "published_xgboost": LearnerEntry(
        "colltune.models.published:TweedieTrees", "basic", package="xgboost"
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
    if entry.package and not (entry.program and shutil.which(entry.program)):
        require("learners", entry.package)
    return entry


class UnfittableError(ValueError):
    """Some configurations of a joint learner have no model; ``reasons`` by their column."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        self.reasons = dict(reasons)
        super().__init__("; ".join(f"configuration {k}: {why}" for k, why in reasons.items()))


class Fitted(NamedTuple):
    """What was learned: ``predictor`` has an output for each configuration of ``cells``.

    ``left_out`` tells why others have none, by their id.
    """

    predictor: Predictor
    cells: CellMatrix
    left_out: dict[str, str]


def fitted(
    cells: CellMatrix, learner: str, features: FeatureSet | None = None, *, in_fold: bool = False
) -> Fitted:
    """Fit `learner` to all configurations of `cells` and put the predictors side by side.

    A configuration to which it cannot be fitted is left out.

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
        If there is no such learner, or it can be fitted to no configuration.
    """
    entry = learner_entry(learner)
    features = features or feature_set(entry.feature_set)
    fit = partial(_at_once, in_fold=in_fold) if entry.joint else _one_by_one
    left_out: dict[str, str] = {}
    while True:
        try:
            found, reasons = fit(entry, cells, features)
        except ValueError as error:
            raise DataError(f"{cells.collective}: {error}") from error
        left_out |= {cells.configurations[k].id: why for k, why in reasons.items()}
        rest = [c for k, c in enumerate(cells.configurations) if k not in reasons]
        if not rest:
            which, why = next(iter(left_out.items()))
            raise DataError(
                f"{learner} can be fitted to nothing of {cells.collective}; {which}: {why}"
            )
        if reasons:
            cells = cells.with_configurations(rest)
        if found is not None:
            return Fitted(found, cells, left_out)


def _at_once(
    entry: LearnerEntry, cells: CellMatrix, features: FeatureSet, *, in_fold: bool
) -> tuple[Predictor | None, Mapping[int, str]]:
    """Return the predictor, or none and what has to be left out."""
    learner = entry.create()
    if in_fold and entry.in_folds:
        learner.set_params(**entry.in_folds)
    if entry.informed:
        learner.inform(cells.configurations, features.columns)
    times_s = np.where(cells.slow, np.inf, cells.time_s)
    try:
        return learner.fit(_inputs(cells, features), times_s).export(), {}
    except UnfittableError as error:
        return None, error.reasons


def _one_by_one(
    entry: LearnerEntry, cells: CellMatrix, features: FeatureSet
) -> tuple[Predictor | None, Mapping[int, str]]:
    """Return the predictor of what could be fitted, if anything, and what could not."""
    inputs, alone, reasons = _inputs(cells, features), [], {}
    for column, time_s in enumerate(cells.time_s.T):
        rows = np.isfinite(time_s)
        try:
            alone.append(entry.create().fit(inputs[rows], time_s[rows]).export())
        except ValueError as error:
            reasons[column] = str(error)
    return predictor_class(alone[0].kind).stacked(alone) if alone else None, reasons


def _inputs(cells: CellMatrix, features: FeatureSet) -> Numbers:
    return features.matrix(cells.nodes, cells.ppn, cells.msize_bytes)
