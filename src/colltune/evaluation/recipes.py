"""Who decides: the baselines, the published learners, and learners as `select` uses them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from colltune.domain import Collective, Configuration, Context
from colltune.errors import DataError, ProgramError, say
from colltune.evaluation.folds import Fold
from colltune.features import feature_set
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix
from colltune.models.fitting import fit_cells
from colltune.models.guard import Guard
from colltune.models.learners import PUBLISHED, fitted, learner_entry, mgcv
from colltune.mpi.programs import Programs
from colltune.selector.argmin import ModelSelector, legal_selector

BASELINES = ("default", "single_best", "virtual_best")


class FoldDecisions(NamedTuple):
    """One recipe's decisions on a fold.

    ``chosen`` (n) may hold configurations without a time on a test instance; ``problems`` say what
    could not be fitted; ``confirm_s`` are the seconds that confirming them would have measured.
    """

    chosen: tuple[Configuration, ...]
    fit_s: float
    predict_s: float
    problems: tuple[str, ...] = ()
    confirm_s: float | None = None


class Recipe(Protocol):
    """Learns a fold's training cells and decides its test instances."""

    @property
    def name(self) -> str: ...

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> FoldDecisions:
        """Return the decisions; `context` is that of the training cells."""
        ...


@dataclass(frozen=True)
class Baseline:
    """The library's default, the single best configuration of the training cells, or the oracle."""

    name: str

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> FoldDecisions:
        started = time.perf_counter()
        testing = fold.testing
        if self.name == "virtual_best":
            columns = np.nanargmin(testing.time_s, axis=1)
            chosen = [testing.configurations[column] for column in columns.tolist()]
        elif self.name == "single_best":
            chosen = [_single_best(fold.training)] * len(testing)
        else:
            chosen = [Configuration.default(context.library, fold.collective)] * len(testing)
        return FoldDecisions(tuple(chosen), 0.0, time.perf_counter() - started)


def _single_best(cells: CellMatrix) -> Configuration:
    """Return what has the least mean log regret, the default standing in for what is missing."""
    slowest = np.nanmax(cells.time_s, axis=1)
    column = cells.default_column
    default = slowest if column is None else cells.time_s[:, column]
    fallback = np.where(np.isfinite(default), default, slowest)
    time_s = np.where(np.isfinite(cells.time_s), cells.time_s, fallback[:, None])
    return cells.configurations[int(np.log(time_s).mean(axis=0).argmin())]


@dataclass(frozen=True)
class Published:
    """A learner of `PUBLISHED`: the least prediction, without guard or interval."""

    name: str

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> FoldDecisions:
        """Return the decisions; where nothing can be predicted, the default is left."""
        started = time.perf_counter()
        default = Configuration.default(context.library, fold.collective)
        chosen: tuple[Configuration, ...] = (default,) * len(fold.testing)
        problems: tuple[str, ...] = ()
        try:
            found = fitted(fold.training, self.name)
        except DataError as error:
            problems = (f"{self.name}: {error}",)
        else:
            features = feature_set(learner_entry(self.name).feature_set)
            asked = fold.testing
            inputs = features.matrix(asked.nodes, asked.ppn, asked.msize_bytes)
            columns = found.predictor.predict(inputs).argmin(axis=1)
            chosen = tuple(found.cells.configurations[column] for column in columns)
            problems = _unfitted(self.name, found.left_out)
        return FoldDecisions(chosen, time.perf_counter() - started, 0.0, problems)


def _unfitted(name: str, left_out: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}: {what}: {why}" for what, why in left_out.items())


def decided_by(
    bundle: Bundle, guard: bool | Guard, fold: Fold, programs: Programs | None = None
) -> FoldDecisions:
    """Return what a bundle decides as it is, whatever it was fitted to; None: for any programs."""
    started = time.perf_counter()
    if programs is None:
        selector = ModelSelector(bundle, guard=guard)
    else:
        selector = legal_selector(bundle, programs, guard=guard)
    selections = selector.select_many(fold.testing.instances())
    seconds = time.perf_counter() - started
    return FoldDecisions(tuple(s.configuration for s in selections), 0.0, seconds)


@dataclass(frozen=True)
class Learned:
    """A learner as `fit` and `select` use it."""

    learner: str
    guard: bool | Guard = True
    feature_set: str | None = None

    @property
    def name(self) -> str:
        return self.learner

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> FoldDecisions:
        """Return the decisions; where nothing can be fitted, the default is left."""
        started = time.perf_counter()
        try:
            bundle = self.bundle(context, fold, jobs)
        except DataError as error:
            default = Configuration.default(context.library, fold.collective)
            problem = f"{self.name}: {error}"
            return FoldDecisions((default,) * len(fold.testing), 0.0, 0.0, (problem,))
        fitted_s = time.perf_counter() - started
        problems = _unfitted(self.name, bundle.left_out)
        return decided_by(bundle, self.guard, fold)._replace(fit_s=fitted_s, problems=problems)

    def bundle(self, context: Context, fold: Fold, jobs: int | None) -> Bundle:
        cells = {fold.collective: fold.training}
        return fit_cells(context, cells, self.learner, feature_set=self.feature_set, jobs=jobs)


@dataclass(frozen=True, eq=False)
class OfFolds:
    """Bundles that were fitted to each fold before, so that several guards can decide by them."""

    name: str
    bundles: Mapping[tuple[Collective, str], Bundle]
    guard: bool | Guard = True

    @classmethod
    def fit(
        cls,
        name: str,
        context: Context,
        folds: Sequence[Fold],
        learner: str,
        *,
        jobs: int | None = None,
    ) -> OfFolds:
        bundles = {
            (fold.collective, fold.name): fit_cells(
                context, {fold.collective: fold.training}, learner, jobs=jobs
            )
            for fold in folds
        }
        return cls(name, bundles)

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> FoldDecisions:
        return decided_by(self.bundle(context, fold, jobs), self.guard, fold)

    def bundle(self, context: Context, fold: Fold, jobs: int | None) -> Bundle:
        return self.bundles[fold.collective, fold.name]


def references(asked: Sequence[str] = ()) -> tuple[list[Recipe], list[str]]:
    """Return the learned baselines that are always shown, and why some are not.

    Those `asked` for as learners are not shown twice: `fit` and `select` have a guard for them.
    """
    found: list[Recipe] = []
    notes = []
    for name in PUBLISHED:
        if name in asked:
            continue
        try:
            learner_entry(name)
            found.append(Published(name))
        except ProgramError as error:
            notes.append(f"{name} is left out: {error}")
    if not mgcv.available():
        notes.append(
            f"published_gam is pygam's, not mgcv's as in the paper. For that one, {mgcv.INSTALL}."
        )
    return found, notes


def learned(names: Sequence[str], guard: bool | Guard) -> tuple[Learned, ...]:
    for name in names:
        learner_entry(name)
        if names.count(name) > 1:
            raise say("twice", what="learner", name=name)
    return tuple(Learned(name, guard) for name in names)
