"""Fits and decides every fold of a split, folds and recipes side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from joblib import delayed
from numpy.typing import NDArray

from colltune import __version__
from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.dataset.profile import Profile
from colltune.domain import Context
from colltune.errors import DataError
from colltune.evaluation.confirmed import Confirmed, halves
from colltune.evaluation.evaluation import Evaluation, EvaluationSetup
from colltune.evaluation.folds import (
    Fold,
    FoldSource,
    SplitError,
    digest,
    exhaustive_s,
    measured_columns,
    weigh,
)
from colltune.evaluation.recipes import (
    BASELINES,
    Baseline,
    FoldDecisions,
    Learned,
    OfFolds,
    Recipe,
    learned,
    references,
)
from colltune.evaluation.scores import Decided, EvaluatedInstances, Score, scores
from colltune.evaluation.splits import MaskSplit, Split
from colltune.models.cells import CellMatrix
from colltune.models.fitting import Progress
from colltune.models.guard import Guard
from colltune.models.workers import cluster, processes, spread
from colltune.mpi.programs import Programs, harms_of
from colltune.text import counted

Numbers = NDArray[np.float64]


def evaluate_split(  # noqa: PLR0913
    dataset: PerformanceDataset,
    split: Split,
    *,
    learners: Sequence[str] = ("auto",),
    guard: bool | Guard = True,
    noise: float = 0.0,
    seed: int = 0,
    max_nprocs: int | None = None,
    objective: Objective = DEFAULT_OBJECTIVE,
    judged_by: Objective | None = None,
    allocation_of: Mapping[str, str] | None = None,
    with_references: bool = True,
    jobs: int | None = None,
    profile: Profile | None = None,
    confirm: bool = False,
    programs: Programs | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare learners with the baselines on the folds of `split`.

    Parameters
    ----------
    dataset
        The measurements.
    split
        What is trained on and what is tested.
    learners
        Names of `LEARNERS`, or ``auto``.
    guard
        Whether the learners keep the default unless the gain is beyond the model's error; a
        `Guard` sets its own limits; the baselines have no guard.
    noise, seed
        Standard deviation of normal noise on the log of training times, for noise-free data: one
        noisy measurement of everything, whatever the folds.
    max_nprocs
        Leave out instances with more processes, in training and test.
    objective
        The statistic of the repetitions that is learned.
    judged_by
        The statistic by which decisions are judged, by default the one that is learned.
    allocation_of
        The allocation of each launch, by default one of its own.
    with_references
        Whether the paper's learners are shown beside default, single best and virtual best.
    jobs
        Processes at most, by default one per usable core. Results do not depend on it.
    profile
        Of an application: instances count by the time that it spends on them.
    confirm
        Whether learners are shown a second time, their decisions confirmed by measuring (see
        `colltune.evaluation.confirmed`); all are judged by the half of the record that
        confirms nothing. The noise is on each launch that confirms, too.
    programs
        What harms these is left out; by default all that was measured can be chosen.
    progress
        Called as ``progress(done, total, next)``, total being folds times recipes.

    Raises
    ------
    DataError
        If the split leaves nothing to do, a learner cannot be fitted, or a number makes no sense.
    SplitError
        If decisions cannot be confirmed after this split.
    """
    if not 0 <= noise < 10:
        raise DataError(
            f"noise {noise:g} is not a standard deviation of log times. Write 0.05 for 5 %."
        )
    if seed < 0:
        raise DataError(f"seed {seed} must not be negative")
    others, absent = references(learners) if with_references else ([], [])
    notes = tuple(absent)
    asked = learned(learners, guard)
    recipes: list[Recipe] = [*(Baseline(name) for name in BASELINES), *others, *asked]
    judge = judged_by or objective
    source = FoldSource(
        dataset, allocation_of, noise, seed, max_nprocs, objective, judge, programs=programs
    )
    if confirm:
        if not isinstance(split, MaskSplit):
            raise SplitError(
                f"the split {split.name} leaves no second half of the record to judge by. Use "
                "--confirm with another --split."
            )
        halved = halves(dataset)
        source = replace(source, judging=halved.judging)
        recipes += [Confirmed(learner, halved.deciding, noise, seed) for learner in asked]
        notes = (*notes, halved.note)
    folds = split.folds(source)
    weighting = None
    if programs is not None and (harmful := _harmful(dataset, programs)):
        told = f"{counted(harmful, 'configuration')} may not be used for {programs.phrase}"
        notes = (*notes, f"{told}: left out")
    if profile is not None:
        folds, weights, weighting = weigh(folds, profile)
        notes = (*notes, weighting.note)
    tested, choices, problems = decided(dataset.context, folds, recipes, jobs, progress)
    if weighting is not None:
        tested = replace(tested, weight=np.concatenate(weights))
    setup = EvaluationSetup(
        dataset.context,
        digest(dataset),
        split.name,
        split.options(),
        noise,
        seed,
        max_nprocs,
        judge.value,
        weighting.profile if weighting else None,
        confirm,
        None if programs is None else str(programs),
    )
    return Evaluation(
        setup,
        bool(guard),
        objective.value,
        _node_counts(f.training.nodes for f in folds),
        _node_counts(f.testing.nodes for f in folds),
        tested,
        choices,
        __version__,
        (*notes, *problems),
        weighting.covered if weighting else None,
    )


def _harmful(dataset: PerformanceDataset, programs: Programs) -> int:
    every = (c for collective in dataset.collectives for c in dataset.configurations(collective))
    release = dataset.context.library_version
    return sum(bool(harms_of(c, release).sentence(programs)) for c in every if not c.is_default)


def decided(
    context: Context,
    folds: Sequence[Fold],
    recipes: Sequence[Recipe],
    jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[EvaluatedInstances, dict[str, Decided], list[str]]:
    """Return the tested instances, what each recipe chose, and what could not be fitted."""
    choices = _decided(context, folds, recipes, jobs, progress)
    made = {r.name: _of_recipe(r, folds, choices[r.name]) for r in recipes}
    return _tested(folds), made, _problems(choices)


class GuardEffect(NamedTuple):
    """One learner's figures by collective and ``all``, with the guard and without it."""

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
    """Fit `learners` to each fold of `split` once, and let them decide with and without guard."""
    source = FoldSource(
        dataset, train_noise=noise, seed=seed, objective=objective, judged_by=objective
    )
    folds = split.folds(source)
    recipes: list[Recipe] = []
    for learner in learners:
        fitted = OfFolds.fit(learner, dataset.context, folds, learner, jobs=jobs)
        recipes += [
            replace(fitted, name=_guarded(learner, guard), guard=guard) for guard in (True, False)
        ]
    tested, choices, _ = decided(dataset.context, folds, recipes, jobs=1)
    return [
        GuardEffect(
            learner,
            *(scores(tested, choices[_guarded(learner, guard)]) for guard in (True, False)),
        )
        for learner in learners
    ]


def _guarded(learner: str, guard: bool) -> str:
    return f"{learner}, {'guarded' if guard else 'unguarded'}"


def _decided(
    context: Context,
    folds: Sequence[Fold],
    recipes: Sequence[Recipe],
    jobs: int | None,
    progress: Progress | None,
) -> dict[str, list[FoldDecisions]]:
    """Let every recipe decide every fold; return the choices by recipe, fold by fold."""
    # fold by fold, not recipe by recipe, so that what is done tells how long the rest takes
    tasks = [(recipe, fold) for fold in folds for recipe in recipes]
    told = progress or (lambda _done, _total, _next: None)
    told(0, len(tasks), _named(*tasks[0]) if tasks else "")
    n_cells = sum(int(np.isfinite(fold.training.time_s).sum()) for fold in folds)
    n_processes = processes(len(folds), n_cells, jobs)
    inner = 1 if n_processes > 1 or cluster() else jobs
    calls = (delayed(_decide)(recipe, context, fold, inner) for recipe, fold in tasks)
    choices: dict[str, list[FoldDecisions]] = {recipe.name: [] for recipe in recipes}
    for done, (task, choice) in enumerate(
        zip(tasks, spread(calls, n_processes), strict=True), start=1
    ):
        if isinstance(choice, DataError):
            raise choice
        choices[task[0].name].append(choice)
        told(done, len(tasks), _named(*tasks[done]) if done < len(tasks) else "")
    return choices


def _named(recipe: Recipe, fold: Fold) -> str:
    return f"{fold.collective}, without {fold.name}: {recipe.name}"


def _decide(
    recipe: Recipe, context: Context, fold: Fold, jobs: int | None
) -> FoldDecisions | DataError:
    try:
        return recipe.decide(context, fold, jobs)
    except DataError as error:
        return DataError(f"{recipe.name}, {fold.collective}, without {fold.name}: {error}")


def _node_counts(nodes: Iterable[NDArray[np.int64]]) -> tuple[int, ...]:
    return tuple(sorted({int(n) for counts in nodes for n in counts}))


def _tested(folds: Sequence[Fold]) -> EvaluatedInstances:
    cells = [fold.testing for fold in folds]
    best = [np.nanargmin(c.time_s, axis=1) for c in cells]
    default = [np.full(len(c), c.default_column) for c in cells]
    return EvaluatedInstances(
        collective=tuple(f.collective.value for f in folds for _ in range(len(f.testing))),
        fold=tuple(f.name for f in folds for _ in range(len(f.testing))),
        nodes=np.concatenate([c.nodes for c in cells]),
        ppn=np.concatenate([c.ppn for c in cells]),
        msize_bytes=np.concatenate([c.msize_bytes for c in cells]),
        default_s=_chosen_of_all(cells, default),
        best_s=_chosen_of_all(cells, best),
        best=tuple(c.configurations[k].id for c, ks in zip(cells, best, strict=True) for k in ks),
    )


def _chosen_of_all(cells: Sequence[CellMatrix], columns: Sequence[NDArray[np.int64]]) -> Numbers:
    pairs = zip(cells, columns, strict=True)
    return np.concatenate([_chosen(c.time_s, chosen) for c, chosen in pairs])


def _of_recipe(recipe: Recipe, folds: Sequence[Fold], choices: Sequence[FoldDecisions]) -> Decided:
    columns = [measured_columns(f.testing, c.chosen) for f, c in zip(folds, choices, strict=True)]
    confirmed = isinstance(recipe, Confirmed)
    chosen = [configuration for choice in choices for configuration in choice.chosen]
    kept = np.array([c.is_default for c in chosen], np.bool_)
    default = np.concatenate(
        [c == f.testing.default_column for f, c in zip(folds, columns, strict=True)]
    )
    return Decided(
        tuple(c.id for c in chosen),
        _chosen_of_all([f.testing for f in folds], columns),
        kept,
        default & ~kept,
        np.concatenate([_noise_of_choice(f, c) for f, c in zip(folds, columns, strict=True)]),
        _seconds(folds, [c.fit_s for c in choices]),
        _seconds(folds, [c.predict_s for c in choices]),
        isinstance(recipe, Learned | Confirmed),
        _seconds(folds, [c.confirm_s or 0.0 for c in choices]) if confirmed else {},
        _seconds(folds, [exhaustive_s(f.testing.time_s) for f in folds]) if confirmed else {},
    )


def _chosen(values: Numbers, columns: NDArray[np.int64]) -> Numbers:
    return np.asarray(values[np.arange(len(values)), columns])


def _noise_of_choice(fold: Fold, columns: NDArray[np.int64]) -> Numbers:
    """Return the standard deviation of the log ratio of selected and default, shape (n)."""
    column = fold.testing.default_column
    assert column is not None
    variance = _chosen(fold.variance, columns) + fold.variance[:, column]
    return np.where(columns == column, 0.0, np.sqrt(variance))


def _seconds(folds: Sequence[Fold], spent: Sequence[float]) -> dict[str, float]:
    total: dict[str, float] = {}
    for fold, seconds in zip(folds, spent, strict=True):
        total[fold.collective.value] = total.get(fold.collective.value, 0.0) + seconds
    return total


def _problems(choices: Mapping[str, Sequence[FoldDecisions]]) -> list[str]:
    """Return what could not be fitted, each configuration once."""
    found = [problem for of_recipe in choices.values() for c in of_recipe for problem in c.problems]
    return list(dict.fromkeys(found))
