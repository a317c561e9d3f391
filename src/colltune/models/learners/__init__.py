"""The learners, a module each: what is fitted, what of it predicts, and how that is stored.

A module has a function that learns, a `Learner`, and the class of its `Predictor`: numpy arrays,
one column of seconds per configuration. To predict takes numpy alone, nothing is unpickled, and
what a learner needs is imported when it learns.

A learner is fitted to features (n, k) and times in seconds (n), all positive, of one configuration.
A joint learner is fitted to all C configurations of a collective at once: its times have the shape
(n, C), NaN where a cell was not measured, infinity where it was left out because it is slow. An
informed learner is told which configurations these are and what the features are called.

Adding one takes a module, a line in `LEARNERS`, and, unless an existing predictor will do, one in
`PREDICTORS`; the contract tests cover the new entry by themselves.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from colltune.errors import BundleError, DataError, say, unknown
from colltune.features import FeatureSet, feature_set
from colltune.models.bundle_schema import Arrays, StoredArrays
from colltune.on_demand import require

if TYPE_CHECKING:
    from colltune.domain import Configuration
    from colltune.models.cells import CellMatrix

Numbers = NDArray[np.float64]
_Number = TypeVar("_Number", np.float64, np.int64)
_LEAST_SLOWNESS = 1.0
_LARGEST_EXPONENT = 700.0


class Predictor(StoredArrays, Protocol):
    """Predicts the runtimes of one or more configurations from features."""

    kind: ClassVar[str]

    @property
    def n_outputs(self) -> int:
        """Number of configurations, C."""

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C), for features `X` (n, k)."""

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild a predictor; KeyError or ValueError if the arrays do not fit together."""

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Return one predictor with the outputs of `predictors` side by side."""


class Learner(Protocol):
    """Learns features `X` (n, k) and times in seconds (n), or (n, C) if it is joint."""

    def __call__(self, X: Numbers, times_s: Numbers, **told: Any) -> Predictor:
        """Return what was learned.

        A ValueError tells that nothing can be, an `UnfittableError` of which configurations.
        """


@dataclass(frozen=True)
class LearnerEntry:
    """Where a learner lives and the feature set it does best with.

    ``joint`` learners are fitted to all configurations at once; ``informed`` ones are told which
    these are, by the arguments ``configurations`` and ``columns``, in the order of the times'
    columns and of the features. ``program`` is what must be on PATH for it, ``package`` what the
    extra ``learners`` brings for it; of both, one will do. ``in_folds`` are arguments that make it
    cheaper where only its errors are of interest.

    ``location`` is ``module:function``, ``feature_set`` a key of ``FEATURE_SETS``.
    """

    location: str
    feature_set: str
    joint: bool = False
    program: str | None = None
    package: str | None = None
    informed: bool = False
    in_folds: Mapping[str, object] = field(default_factory=dict)

    def fit(
        self,
        X: Numbers,
        times_s: Numbers,
        configurations: Sequence[Configuration] = (),
        columns: Sequence[str] = (),
        *,
        in_fold: bool = False,
    ) -> Predictor:
        """Let the learner learn; its library is imported only now.

        Parameters
        ----------
        X
            Features, shape (n, k).
        times_s
            Seconds, (n), or (n, C) for a joint learner.
        configurations, columns
            What an informed learner is told.
        in_fold
            Whether only errors are of interest, so that a cheaper fit will do.

        Raises
        ------
        ValueError
            If a time is not positive, a configuration has none, or nothing can be learned.
        """
        for k, column in enumerate(times_s.reshape(len(X), -1).T):
            name = configurations[k].id if configurations else f"configuration {k}"
            if (column <= 0).any():
                least = np.nanmin(column)
                raise ValueError(f"times have to be positive, but one of {name} is {least:g}")
            if not np.isfinite(column).any():
                raise ValueError(f"{name} has no times to learn from")
        module, _, function = self.location.partition(":")
        learn: Learner = getattr(importlib.import_module(module), function)
        told: dict[str, Any] = dict(self.in_folds) if in_fold else {}
        if self.informed:
            told |= {"configurations": tuple(configurations), "columns": tuple(columns)}
        return learn(X, times_s.reshape(len(X), -1) if self.joint else times_s, **told)

    def fit_all(
        self,
        X: Numbers,
        times_s: Numbers,
        configurations: Sequence[Configuration] = (),
        columns: Sequence[str] = (),
        *,
        in_fold: bool = False,
    ) -> tuple[Predictor | None, Mapping[int, str]]:
        """Return the predictor of all configurations, and why some have none, by their column.

        Parameters
        ----------
        X
            Features, shape (n, k).
        times_s
            Seconds, (n, C), as a joint learner is fitted to them; one of single configurations
            learns each from where it was timed.
        configurations, columns, in_fold
            As for `fit`.

        Raises
        ------
        ValueError
            As `fit` of a joint learner.
        """
        if self.joint:
            try:
                return self.fit(X, times_s, configurations, columns, in_fold=in_fold), {}
            except UnfittableError as error:
                return None, error.reasons
        alone, reasons = [], {}
        for column, of_one in enumerate(times_s.T):
            rows = np.isfinite(of_one)
            told = configurations[column : column + 1], columns
            try:
                alone.append(self.fit(X[rows], of_one[rows], *told, in_fold=in_fold))
            except ValueError as error:
                reasons[column] = str(error)
        return predictor_class(alone[0].kind).stacked(alone) if alone else None, reasons


LEARNERS: dict[str, LearnerEntry] = {
    "knn": LearnerEntry("colltune.models.learners.knn:fit", "log"),
    "gam": LearnerEntry("colltune.models.learners.gam:fit", "log", package="pygam"),
    "xgboost": LearnerEntry("colltune.models.learners.xgboost:fit", "log", package="xgboost"),
    "mgcv": LearnerEntry("colltune.models.learners.mgcv:fit", "log", joint=True, program="Rscript"),
    "regret_trees": LearnerEntry(
        "colltune.models.learners.regret_trees:fit",
        "rich",
        joint=True,
        in_folds={"n_trees": 50, "most_leaves": 30_000},
    ),
    "cost_model": LearnerEntry(
        "colltune.models.learners.cost_model:fit", "basic", joint=True, informed=True
    ),
    "published_knn": LearnerEntry("colltune.models.learners.knn:fit_published", "basic"),
    "published_gam": LearnerEntry(
        "colltune.models.learners.mgcv:fit_published",
        "basic",
        joint=True,
        program="Rscript",
        package="pygam",
    ),
    "published_xgboost": LearnerEntry(
        "colltune.models.learners.xgboost:fit", "basic", package="xgboost"
    ),
}
PUBLISHED = ("published_knn", "published_gam", "published_xgboost")
"""Those of Hunold, Bhatele, Bosilca and Knees (CLUSTER 2020, sec. III-B and IV-B) as they are: one
regression per configuration. In one respect they are helped: the library's default is a candidate
here, which has no regression in the paper (j > 0)."""
AUTO, PREFERRED = "auto", "regret_trees"
"""``auto`` stands for the learner that decided best on all data tried
(docs/explanation/selection.md). The others are for comparison."""
PREDICTORS: dict[str, str] = {
    "forest": "colltune.models.learners.regret_trees:Forest",
    "costs": "colltune.models.learners.cost_model:Costs",
    "natural_spline": "colltune.models.learners.mgcv:NaturalSplines",
    "neighbours": "colltune.models.learners.knn:Neighbours",
    "spline": "colltune.models.learners.gam:Splines",
    "trees": "colltune.models.learners.xgboost:Trees",
}
"""Kind, as a bundle's manifest names it, to ``module:class``; imported when needed."""
_REMOVED = {
    "corrected_costs": "cost_prior",
    "grid": "interpolation",
    "processes": "gaussian_process",
}
"""Kinds that earlier versions wrote, and their learners."""


def predictor_class(kind: str) -> type[Predictor]:
    """Return the class of predictors called `kind`."""
    if kind in _REMOVED:
        raise say("removed-learner", learner=_REMOVED[kind])
    try:
        module, _, name = PREDICTORS[kind].partition(":")
    except KeyError:
        raise unknown("predictor", kind, PREDICTORS, BundleError) from None
    found: type[Predictor] = getattr(importlib.import_module(module), name)
    return found


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
        raise unknown("learner", name, [*LEARNERS, AUTO], DataError) from None
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
    left_out: dict[str, str] = {}
    while True:
        try:
            found, reasons = entry.fit_all(
                features.matrix(cells.nodes, cells.ppn, cells.msize_bytes),
                np.where(cells.slow, np.inf, cells.time_s),
                cells.configurations,
                features.columns,
                in_fold=in_fold,
            )
        except ValueError as error:
            raise say("cannot-be-fitted", collective=cells.collective, why=error) from error
        left_out |= {cells.configurations[k].id: why for k, why in reasons.items()}
        rest = [c for k, c in enumerate(cells.configurations) if k not in reasons]
        if not rest:
            why = ": ".join(next(iter(left_out.items())))
            of = cells.collective
            raise say("learner-fits-nothing", learner=learner, collective=of, why=why)
        if reasons:
            cells = cells.with_configurations(rest)
        if found is not None:
            return Fitted(found, cells, left_out)


def slow_guessed(times_s: Numbers) -> Numbers:
    """Return `times_s` (n, C) with a guess for those that are infinite because they are slow.

    Nobody knows how slow; the guess is the instance's best time, as often as the configuration ever
    lost against the best, and e times at least. Where nothing else is known it is NaN.
    """
    slow = np.isposinf(times_s)
    if not slow.any():
        return times_s
    logs = np.log(np.where(slow, np.nan, times_s))
    best = np.fmin.reduce(logs, axis=1, keepdims=True)
    slowness = np.fmax(np.fmax.reduce(logs - best, axis=0), _LEAST_SLOWNESS)
    return np.asarray(np.where(slow, np.exp(best + slowness), times_s))


class ArrayFields:
    """Stores a dataclass whose fields are arrays under their names."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields."""
        return {name: a for name, a in self.__dict__.items() if isinstance(a, np.ndarray)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`."""
        return cls(**arrays)


def distinct(column: NDArray[_Number]) -> tuple[NDArray[_Number], NDArray[np.intp]]:
    """Return the distinct values of a `column`, ascending, and the place of each element there.

    As ``np.unique``, which would import ``numpy.ma``.
    """
    ordered = np.sort(column)
    values = ordered[np.append(True, np.diff(ordered) > 0)[: len(ordered)]]
    return values, np.searchsorted(values, column)


def summed(left: Numbers, right: Numbers) -> Numbers:
    """Return `left` (n, k) times `right` (k, c) or (k), added up term after term.

    Linear algebra libraries add in an order that hangs on the processor, the number of rows and how
    they lie in memory; here a row comes out the same whatever others it is computed with.
    """
    result: Numbers = np.zeros((len(left), *right.shape[1:]))
    for column, weights in zip(left.T, right, strict=True):
        result += np.multiply.outer(column, weights)
    return result


def bounded_exp(exponents: Numbers) -> Numbers:
    """Return e to the power of `exponents`, which neither overflows nor vanishes."""
    return np.exp(np.clip(exponents, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
