"""From a dataset to a bundle: every configuration fitted, its errors estimated out of fold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from joblib import delayed
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective, common
from colltune.domain import Collective, Context
from colltune.errors import ColltuneError, DataError, say
from colltune.features import feature_set as named_feature_set
from colltune.models.bundle import Bundle
from colltune.models.cells import HELD_OUT, CellMatrix, cell_matrices, dealt, shapes_measured
from colltune.models.collective_model import Applicability, CollectiveModel, Coverage
from colltune.models.error_model import Agreement, ErrorModel
from colltune.models.guard import HARM, Guard, allowed
from colltune.models.learners import AUTO, Fitted, fitted, learner_entry, resolved
from colltune.models.workers import processes, spread

Progress = Callable[[int, int, str], None]
"""Is told how much is done, of how much, and what is next (empty: nothing)."""
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
__all__ = ["Progress", "fit", "fit_cells"]
MAX_FOLDS, LEAST_TO_HOLD_OUT = 5, 3
_WHOLE = -1
_TRUST_WEIGHT = 0.5
"""Predictions are believed as much as if one more came true, of twice the speed (log 2 squared)."""


@dataclass(frozen=True, eq=False)
class _Task:
    """One learner to be fitted to a fold of a collective's cells, or to the whole."""

    learner: str
    feature_set: str
    fold: int
    cells: CellMatrix

    def __str__(self) -> str:
        return f"{self.cells.collective}: {self.learner}"

    def model(self, found: Fitted, error: ErrorModel | None = None) -> CollectiveModel:
        """Return the model that was `found`."""
        cells = found.cells
        return CollectiveModel(
            cells.collective,
            cells.configurations,
            self.learner,
            self.feature_set,
            found.predictor,
            Coverage.of(cells, Applicability.of(cells)),
            error or ErrorModel.unknown(len(cells.configurations), cells.noise),
        )


def fit(
    dataset: PerformanceDataset,
    learner: str = AUTO,
    *,
    objective: Objective = DEFAULT_OBJECTIVE,
    feature_set: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Bundle:
    """Fit one regressor per configuration and collective.

    A configuration to which the learner cannot be fitted is left out. Without its default, which
    the guard compares with, a collective is left out as a whole. The bundle's
    ``evidence["left_out"]`` tells what was, and why.

    Parameters
    ----------
    dataset
        The measurements; what `PerformanceDataset.cells` makes of them is learned.
    learner
        A name of `LEARNERS`, or ``auto``, which is `PREFERRED`.
    feature_set
        A name of `FEATURE_SETS` for all learners; by default each learner's own.
    jobs
        Processes at most, by default one per usable core; small datasets are fitted in this one.
        Processes and not threads, because pygam computes in Python. Results do not depend on it.
    progress
        Called as ``progress(done, total, next)``, counting configurations: each is fitted to the
        whole data and to each part of a cross-validation.

    Raises
    ------
    DataError
        If a name is unknown, nothing was measured well, the `objective` is not known of a
        measurement, or the learner cannot be fitted to anything.
    """
    matrices = cell_matrices(dataset, objective)
    if not matrices:
        raise say("nothing-usable", what="the data")
    return fit_cells(
        dataset.context, matrices, learner, feature_set=feature_set, jobs=jobs, progress=progress
    )


def fit_cells(
    context: Context,
    matrices: Mapping[Collective, CellMatrix],
    learner: str = AUTO,
    *,
    feature_set: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Bundle:
    """Fit the given cells, all of one objective, measured in `context`; see `fit`.

    `matrices` are the cells to be fitted; `learner`, `feature_set`, `jobs` and `progress` are as
    for `fit`.
    """
    objective = common(cells.objective for cells in matrices.values())
    name = resolved(learner)
    features = named_feature_set(feature_set or learner_entry(name).feature_set).name
    tasks = [task for cells in matrices.values() for task in _tasks(cells, name, features)]
    wholes: dict[Collective, tuple[_Task, Fitted]] = {}
    held_out = {c: HeldOut.empty(cells) for c, cells in matrices.items()}
    left_out: dict[str, str] = {}
    for task, found in zip(tasks, _run(tasks, jobs, progress), strict=True):
        collective, is_whole = task.cells.collective, task.fold == _WHOLE
        if isinstance(found, Fitted) and is_whole:
            wholes[collective] = task, found
            left_out |= found.left_out
        elif isinstance(found, Fitted):
            cells = matrices[collective]
            held_out[collective].fill(cells, folds(cells) == task.fold, task.model(found))
        elif is_whole:
            left_out[collective.value] = str(found)
    if not wholes:
        raise say("nothing-fitted", why="; ".join(left_out.values()))
    models = [_model(*whole, held_out[c]) for c, whole in wholes.items()]
    figures = {c.value: {name: held_out[c].figures(matrices[c], Guard())} for c in wholes}
    return Bundle.new(
        context,
        models,
        shapes_measured(matrices.values()),
        objective=objective.value,
        evidence={"learners": figures, **({"left_out": left_out} if left_out else {})},
    )


def _tasks(cells: CellMatrix, learner: str, features: str) -> Iterator[_Task]:
    """Yield the whole first, then all but each fold."""
    yield _Task(learner, features, _WHOLE, cells)
    fold_of = folds(cells)
    held_out = np.unique(fold_of)
    if len(held_out) > 1:
        for fold in held_out.tolist():
            yield _Task(learner, features, fold, cells.rows(fold_of != fold))


def _run(
    tasks: Sequence[_Task], jobs: int | None, progress: Progress | None
) -> Iterator[Fitted | ColltuneError]:
    """Yield what comes of `tasks` in order."""
    n_cells = sum(int(np.isfinite(task.cells.time_s).sum()) for task in tasks)
    results = spread(
        (delayed(_fitted)(task) for task in tasks), processes(len(tasks), n_cells, jobs)
    )
    told = progress or (lambda _done, _total, _next: None)
    counts = [len(task.cells.configurations) for task in tasks]
    told(0, sum(counts), str(tasks[0]))
    for number, found in enumerate(results, start=1):
        told(sum(counts[:number]), sum(counts), str(tasks[number]) if tasks[number:] else "")
        yield found


def _fitted(task: _Task) -> Fitted | ColltuneError:
    """Fit a task, or return why not: an error raised in a process would lose its place.

    On one thread: linear algebra on matrices as small as these only waits for further ones.
    """
    features = named_feature_set(task.feature_set)
    with _thread_pools(len(sys.modules)).limit(limits=1):
        try:
            found = fitted(task.cells, task.learner, features, in_fold=task.fold != _WHOLE)
        except DataError as error:
            return error
    default = task.cells.default_column
    if default is None or found.cells.default_column is not None:
        return found
    configuration = task.cells.configurations[default].id
    why = found.left_out[configuration]
    collective = task.cells.collective
    return say("no-guard", configuration=configuration, why=why, collective=collective)


@lru_cache(maxsize=1)
def _thread_pools(_n_modules: int) -> ThreadpoolController:
    """Return the thread pools of all libraries; another one may have come with another module."""
    return ThreadpoolController()


def _model(task: _Task, found: Fitted, held_out: HeldOut) -> CollectiveModel:
    """Return the model of all cells, with the errors of its held-out predictions."""
    cells = task.cells
    kept = np.array([c in found.cells.configurations for c in cells.configurations])
    held_out.candidate[:, ~kept] = False
    errors = cells.proved_s[:, kept], held_out.predicted_s[:, kept]
    error = ErrorModel.of(*errors, found.cells.default_column, cells.noise)
    return task.model(found, error)


def folds(cells: CellMatrix) -> NDArray[np.int64]:
    """Return each instance's fold, shape (n).

    Whole node counts are held out if there are at least 3, else whole shapes if there are 3, else
    message sizes. A single fold (all 0) means that nothing can be held out.
    """
    keys = (HELD_OUT[by](cells) for by in ("nodes", "shapes"))
    enough = (key for key in keys if len(np.unique(key)) >= LEAST_TO_HOLD_OUT)
    return dealt(next(enough, cells.msize_bytes), MAX_FOLDS)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-fold forecasts of one learner for all cells of one collective, each (n, C).

    ``predicted_s`` is NaN where nothing was left to learn from; ``candidate`` is what the rest of
    the data allowed to choose, ``doubt`` that of its predictions; ``noise`` and ``far`` have the
    shape (n).
    """

    predicted_s: Numbers
    candidate: Flags
    doubt: Numbers
    noise: Numbers
    far: Flags

    @classmethod
    def empty(cls, cells: CellMatrix) -> HeldOut:
        """Return one to be filled in, nothing known yet."""
        n, shape = len(cells), cells.time_s.shape
        unknown = np.zeros(shape, np.bool_), np.zeros(shape), np.zeros(n), np.zeros(n, np.bool_)
        return cls(np.full(shape, np.nan), *unknown)

    def fill(self, cells: CellMatrix, rows: Flags, model: CollectiveModel) -> None:
        """Enter what `model`, fitted without `rows`, says of them."""
        outside = rows & model.coverage.extrapolated(cells.nodes, cells.ppn, cells.msize_bytes)
        # apart, since doubt costs as much again and is asked for outside only
        self._fill(cells, rows & ~outside, model)
        self._fill(cells, outside, model)

    def _fill(self, cells: CellMatrix, rows: Flags, model: CollectiveModel) -> None:
        if not rows.any():
            return
        columns = [cells.configurations.index(c) for c in model.configurations]
        forecast = model.forecast(cells.nodes[rows], cells.ppn[rows], cells.msize_bytes[rows])
        where = np.ix_(np.flatnonzero(rows), np.array(columns))
        self.predicted_s[where] = forecast.time_s
        self.candidate[where] = forecast.candidate
        self.doubt[where] = forecast.doubt
        self.noise[rows], self.far[rows] = forecast.noise, forecast.far

    def figures(self, cells: CellMatrix, guard: Guard) -> dict[str, float | int | None]:
        """Return how good held-out decisions under `guard` are; what did not run is the default.

        ``instances``; ``regret``, the mean of log(t_selected / t_best); ``share`` of the log gain
        that was to be had over the default; ``harm``, the share of instances that are slower
        than it by more than 5 % and beyond noise; ``trust``, how far predictions are trusted:
        which part of predicted log gains came true, drawn to 1, or the share that was reached by
        trusting all of it, if that is more. All but the first None without a default.
        """
        column = cells.default_column
        decided = np.isfinite(self.predicted_s).any(axis=1)
        if column is not None:
            decided &= np.isfinite(cells.proved_s[:, column])
        rows = np.flatnonzero(decided)
        if column is None or not len(rows):
            return {"instances": len(rows)} | dict.fromkeys(("regret", "share", "harm", "trust"))
        time_s = cells.proved_s[rows]
        possible = np.log(time_s[:, column] / np.nanmin(time_s, axis=1))

        def share(gained: Numbers) -> float | None:
            return float(gained.sum() / possible.sum()) if possible.sum() > 0 else None

        predicted, gained = self._gains(time_s, rows, column, guard)
        moved = predicted > 0
        slope = Agreement.of_gains(predicted[moved], gained[moved]).trust(1.0, _TRUST_WEIGHT)
        trust = min(1.0, max(slope, share(gained) or 0.0))
        _, gained = self._gains(time_s, rows, column, guard, trust)
        return {
            "instances": len(rows),
            "regret": float((possible - gained).mean()),
            "share": share(gained),
            "harm": float((-gained > max(np.log(HARM), cells.noise.detectable)).mean()),
            "trust": trust,
        }

    def _gains(
        self,
        time_s: Numbers,
        rows: NDArray[np.int64],
        column: int,
        guard: Guard,
        trust: float = 1.0,
    ) -> tuple[Numbers, Numbers]:
        """Return what is predicted, and what `time_s` tell, of what is chosen at `rows`.

        Both are log gains over the default, which has the `column`; 0 where it is kept.
        """
        predicted_s = self.predicted_s[rows]
        with np.errstate(invalid="ignore"):
            gain = np.log(predicted_s[:, [column]] / predicted_s)
        required = guard.required_log_gain(self.doubt[rows], self.noise[rows], trust)
        follows = self.candidate[rows] & allowed(gain, required, self.far[rows])
        follows[:, column] = True
        chosen = np.where(follows, predicted_s, np.inf).argmin(axis=1)
        chosen = np.where(np.isfinite(predicted_s[:, column]), chosen, column)
        at = np.arange(len(rows))
        gained = np.log(time_s[:, column] / time_s[at, chosen])
        return np.where(chosen == column, 0.0, gain[at, chosen]), np.nan_to_num(gained)
