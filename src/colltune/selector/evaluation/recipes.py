"""Who decides: the baselines, the published learners, and learners as `select` uses them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from colltune.decisions import Selector
from colltune.domain import Configuration, Context, Instance
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix
from colltune.models.fitting import fit_cells
from colltune.models.guard import Guard
from colltune.models.learners import learner_entry
from colltune.models.published import INTERPOLATION, PUBLISHED, predicted_s
from colltune.selector.argmin import ModelSelector
from colltune.selector.baselines import LibraryDefault, SingleBest, VirtualBest
from colltune.selector.evaluation.folds import Fold

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
BASELINES = ("default", "single_best", "virtual_best")


class Choice(NamedTuple):
    """One recipe's decisions on a fold.

    ``columns`` (n) are columns of ``testing.time_s``, those of configurations without a time there
    replaced by the default's; ``problems`` say what could not be fitted.
    """

    columns: Integers
    fit_s: float
    predict_s: float
    problems: tuple[str, ...] = ()


class Recipe(Protocol):
    """Learns a fold's training cells and decides its test instances."""

    @property
    def name(self) -> str:
        """How its figures are called."""
        ...

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> Choice:
        """Return the decisions; `context` is that of the training cells."""
        ...


@dataclass(frozen=True)
class Baseline:
    """The library's default, the single best configuration of the training cells, or the oracle."""

    name: str

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> Choice:
        """Return the decisions; see `Recipe`."""
        started = time.perf_counter()
        selector: Selector
        if self.name == "single_best":
            selector = SingleBest({fold.collective: fold.training}, context.library)
        elif self.name == "virtual_best":
            selector = VirtualBest({fold.collective: fold.testing}, context.library)
        else:
            selector = LibraryDefault(context.library)
        chosen = [selector.select(i).configuration for i in fold.testing.instances()]
        return Choice(_columns(fold.testing, chosen), 0.0, time.perf_counter() - started)


@dataclass(frozen=True)
class Published:
    """A learner of `colltune.models.published`: the least prediction, without guard."""

    name: str
    learner: str

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> Choice:
        """Return the decisions; where nothing can be predicted, the default is left."""
        started = time.perf_counter()
        time_s, failures = predicted_s(self.learner, fold.training, fold.testing)
        columns = _least(time_s, fold.testing)
        seconds = time.perf_counter() - started
        return Choice(columns, seconds, 0.0, tuple(f"{self.name}: {f}" for f in failures))


@dataclass(frozen=True)
class Learned:
    """A learner as `fit` and `select` use it."""

    learner: str
    guard: bool | Guard = True
    feature_set: str | None = None

    @property
    def name(self) -> str:
        """The learner's name."""
        return self.learner

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> Choice:
        """Return the decisions; see `Recipe`."""
        started = time.perf_counter()
        cells = {fold.collective: fold.training}
        bundle = fit_cells(context, cells, self.learner, feature_set=self.feature_set, jobs=jobs)
        fitted_s = time.perf_counter() - started
        return Fitted(bundle, self.guard).decide(context, fold, jobs)._replace(fit_s=fitted_s)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A bundle as it is, whatever it was fitted to."""

    bundle: Bundle
    guard: bool | Guard = True
    name: str = "fitted"

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> Choice:
        """Return the decisions; see `Recipe`."""
        started = time.perf_counter()
        chooser = ModelSelector(self.bundle, guard=self.guard, allowed=_Measured(fold.testing))
        selections = chooser.select_many(fold.testing.instances())
        seconds = time.perf_counter() - started
        return Choice(_columns(fold.testing, [s.configuration for s in selections]), 0.0, seconds)


def references() -> tuple[Recipe, ...]:
    """Return the learned baselines that are always shown."""
    published = (Published(f"published_{name}", name) for name in PUBLISHED)
    return (*published, Published(INTERPOLATION, INTERPOLATION))


def learned(
    names: Sequence[str], *, guard: bool | Guard, feature_set: str | None
) -> tuple[Recipe, ...]:
    """Return the learners called `names`.

    Raises
    ------
    DataError
        If one is unknown or given twice.
    """
    for name in names:
        learner_entry(name)
        if names.count(name) > 1:
            raise DataError(f"learner {name!r} is given twice; drop one")
    return tuple(Learned(name, guard, feature_set) for name in names)


class _Measured:
    """Tells whether a configuration has a measured time on a test instance."""

    def __init__(self, tested: CellMatrix) -> None:
        self._columns = {c: i for i, c in enumerate(tested.configurations)}
        self._rows = {instance: row for row, instance in enumerate(tested.instances())}
        self._known = np.isfinite(tested.time_s)

    def __call__(self, configuration: Configuration, instance: Instance) -> bool:
        column = self._columns.get(configuration)
        return column is not None and bool(self._known[self._rows[instance], column])


def _columns(tested: CellMatrix, chosen: Sequence[Configuration]) -> Integers:
    """Return the columns of what was chosen, the default's where it was not measured."""
    assert tested.default_column is not None
    known = {c: i for i, c in enumerate(tested.configurations)}
    columns = np.array([known.get(c, tested.default_column) for c in chosen], np.int64)
    measured = np.isfinite(tested.time_s[np.arange(len(tested)), columns])
    return np.where(measured, columns, tested.default_column)


def _least(time_s: Numbers, tested: CellMatrix) -> Integers:
    """Return the column of the least prediction among those measured, else the default's."""
    assert tested.default_column is not None
    usable = np.where(np.isfinite(tested.time_s) & np.isfinite(time_s), time_s, np.inf)
    columns = usable.argmin(axis=1)
    nothing = ~np.isfinite(usable).any(axis=1)
    return np.where(nothing, tested.default_column, columns)
