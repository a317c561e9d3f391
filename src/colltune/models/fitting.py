"""From a dataset to a bundle: every configuration fitted, its errors estimated out of fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from joblib import delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective, common
from colltune.domain import Collective, Context, Shape
from colltune.errors import DataError
from colltune.features import feature_set as named_feature_set
from colltune.models import cross_validation
from colltune.models.applicability import coverage
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.error_model import ErrorModel
from colltune.models.guard import Guard
from colltune.models.learners import AUTO, Learner, learner_entry, resolved
from colltune.models.predictors import Predictor, predictor_class
from colltune.models.runtime_model import CollectiveModel
from colltune.models.workers import processes, spread

Progress = Callable[[int, int, str], None]
"""Is told how much is done, of how much, and what is next (empty: nothing)."""
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Task:
    """One learner to be fitted to all configurations of one part of a collective's cells."""

    collective: Collective
    learner: str
    feature_set: str
    fold: int
    cells: CellMatrix

    @property
    def n_fits(self) -> int:
        """How many configurations are fitted."""
        return len(self.cells.configurations)

    def __str__(self) -> str:
        return f"{self.collective}: {self.learner}"


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
        measurement, or the learner cannot be fitted to a configuration.
    """
    matrices = cell_matrices(dataset, objective)
    if not matrices:
        raise DataError("no measurement is usable: none has status ok; measure again")
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
    fitted: dict[Collective, list[tuple[_Task, Predictor]]] = {c: [] for c in matrices}
    for task, predictor in zip(tasks, _run(tasks, jobs, progress), strict=True):
        if isinstance(predictor, DataError):
            raise predictor
        fitted[task.collective].append((task, predictor))
    held_out = {c: _held_out(cells, fitted[c]) for c, cells in matrices.items()}
    shapes = {(n, p) for m in matrices.values() for n, p in zip(m.nodes, m.ppn, strict=True)}
    figures = {
        c.value: {name: held_out[c].figures(cells, Guard())} for c, cells in matrices.items()
    }
    return Bundle.new(
        context,
        [_model(cells, fitted[c], held_out[c]) for c, cells in matrices.items()],
        sorted(Shape(int(n), int(p)) for n, p in shapes),
        objective=objective.value,
        evidence={"learners": figures},
    )


_WHOLE = -1


def _tasks(cells: CellMatrix, learner: str, features: str) -> Iterator[_Task]:
    yield _Task(cells.collective, learner, features, _WHOLE, cells)
    fold_of = cross_validation.folds(cells)
    held_out = np.unique(fold_of)
    if len(held_out) > 1:
        for fold in held_out.tolist():
            part = cells.rows(fold_of != fold)
            yield _Task(cells.collective, learner, features, fold, part)


def _run(
    tasks: Sequence[_Task], jobs: int | None, progress: Progress | None
) -> Iterator[Predictor | DataError]:
    """Yield the predictors of `tasks` in order, or why a task could not be fitted."""
    n_cells = sum(int(np.isfinite(task.cells.time_s).sum()) for task in tasks)
    calls = (delayed(_fitted)(task) for task in tasks)
    results = spread(calls, processes(len(tasks), n_cells, jobs))
    told = progress or (lambda _done, _total, _next: None)
    done, total = 0, sum(task.n_fits for task in tasks)
    told(done, total, str(tasks[0]))
    for number, (task, predictor) in enumerate(zip(tasks, results, strict=True), start=1):
        done += task.n_fits
        told(done, total, str(tasks[number]) if number < len(tasks) else "")
        yield predictor


def _fitted(task: _Task) -> Predictor | DataError:
    """Fit every configuration of a task and put the predictors side by side, or say why not.

    On one thread: linear algebra on matrices as small as these only waits for further ones.
    """
    with threadpool_limits(limits=1):
        return _fitted_alone(task)


def _fitted_alone(task: _Task) -> Predictor | DataError:
    cells = task.cells
    feature_set = named_feature_set(task.feature_set)
    features = feature_set.matrix(cells.nodes, cells.ppn, cells.msize_bytes)
    entry = learner_entry(task.learner)
    if entry.joint:
        in_fold = task.fold != _WHOLE
        learner = entry.create_for(cells.configurations, feature_set.columns, in_fold=in_fold)
        return _jointly_fitted(learner, features, cells)
    predictors = []
    for configuration, time_s in zip(cells.configurations, cells.time_s.T, strict=True):
        rows = np.isfinite(time_s)
        try:
            learned = entry.create().fit(features[rows], time_s[rows])
        except ValueError as error:
            return DataError(f"{configuration.id}: {error}")
        predictors.append(learned.export())
    return predictor_class(predictors[0].kind).stacked(predictors)


def _jointly_fitted(
    learner: Learner, features: Numbers, cells: CellMatrix
) -> Predictor | DataError:
    """Fit all configurations at once."""
    try:
        return learner.fit(features, np.where(cells.slow, np.inf, cells.time_s)).export()
    except ValueError as error:
        return DataError(f"{cells.collective}: {error}")


def _model(
    cells: CellMatrix,
    fitted: Sequence[tuple[_Task, Predictor]],
    held_out: cross_validation.HeldOut,
) -> CollectiveModel:
    """Return the model of all cells, with the errors of its held-out predictions."""
    task, predictor = next((t, p) for t, p in fitted if t.fold == _WHOLE)
    error = ErrorModel.of(cells.time_s, held_out.predicted_s, cells.default_column, cells.noise)
    return _of_part(task, predictor, error)


def _of_part(task: _Task, predictor: Predictor, error: ErrorModel) -> CollectiveModel:
    cells = task.cells
    return CollectiveModel(
        cells.collective,
        cells.configurations,
        task.learner,
        task.feature_set,
        predictor,
        coverage(cells),
        error,
    )


def _held_out(
    cells: CellMatrix, fitted: Sequence[tuple[_Task, Predictor]]
) -> cross_validation.HeldOut:
    fold_of = cross_validation.folds(cells)
    result = cross_validation.HeldOut.empty(cells)
    for task, predictor in fitted:
        if task.fold != _WHOLE:
            n_configurations = len(task.cells.configurations)
            unknown = ErrorModel.unknown(n_configurations, cells.noise)
            result.fill(cells, fold_of == task.fold, _of_part(task, predictor, unknown))
    return result
