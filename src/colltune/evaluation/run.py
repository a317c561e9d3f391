"""Fits and decides every fold of a split, folds and recipes side by side.

Where decisions are confirmed, that is replayed: one half of the record decides, the other one
judges. A cell that was measured in several launches is parted by launches, one that was measured in
a single launch by its repetitions, every other one to each half. Where there is but one number, it
is in both halves, and only drawn noise keeps them apart.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from joblib import delayed
from numpy.typing import NDArray

from colltune import __version__
from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.decisions import Status
from colltune.domain import Context, Instance, LaunchStatistics, Measurement, Shape
from colltune.errors import ColltuneError, DataError, say
from colltune.evaluation.evaluation import Evaluation, EvaluationSetup
from colltune.evaluation.folds import (
    Fold,
    FoldSource,
    SplitError,
    digest,
    exhaustive_s,
    measured_columns,
)
from colltune.evaluation.recipes import (
    BASELINES,
    Baseline,
    FoldDecisions,
    Learned,
    OfFolds,
    Recipe,
    decided_by,
    learned,
    references,
)
from colltune.evaluation.scores import Decided, EvaluatedInstances, Score, scores
from colltune.evaluation.splits import MaskSplit, Split
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix
from colltune.models.fitting import Progress
from colltune.models.guard import Guard
from colltune.models.workers import cluster, processes, spread
from colltune.mpi.programs import Programs
from colltune.selector.argmin import ModelSelector, legal_runs
from colltune.selector.confirming import (
    MOST_LAUNCHES,
    MOST_REPS,
    TURN_S,
    Cell,
    ContestedInstance,
    ContestState,
    Times,
    contests,
    evidence,
    judge,
    worth_measuring,
)
from colltune.text import counted


class Halves(NamedTuple):
    """The record of a dataset in two halves; ``undivided`` cells of ``cells`` are in both."""

    deciding: Times
    judging: PerformanceDataset
    undivided: int
    cells: int

    @property
    def note(self) -> str:
        text = "one half of the launches or repetitions confirms, the other half judges"
        if not self.undivided:
            return text
        return (
            f"{text}; {self.undivided} of {counted(self.cells, 'cell')} have a single number, "
            "which is in both halves: only --noise separates them"
        )


def halves(dataset: PerformanceDataset) -> Halves:
    """Part the timed measurements of `dataset`; what failed is left to the judging half."""
    by_cell: dict[Cell, list[Measurement]] = {}
    judging: list[Measurement] = []
    for m in dataset.measurements():
        if m.summary is None:
            judging.append(m)
        else:
            by_cell.setdefault((m.configuration, m.instance), []).append(m)
    deciding: dict[Cell, dict[str, Sequence[float]]] = {}
    undivided = 0
    for cell, found in by_cell.items():
        found.sort(key=lambda m: m.launch)
        mine, theirs = found[::2], found[1::2]
        if not theirs:
            mine, theirs = _by_repetitions(found[0])
            undivided += mine == theirs
        deciding[cell] = evidence(mine)[0][cell]
        judging += theirs
    return Halves(
        deciding, PerformanceDataset.of(dataset.context, judging), undivided, len(by_cell)
    )


def _by_repetitions(measurement: Measurement) -> tuple[list[Measurement], list[Measurement]]:
    times_s = measurement.times_s
    if len(times_s) < 2:
        return [measurement], [measurement]
    first, second = (
        replace(measurement, times_s=part, summary=LaunchStatistics.of(part))
        for part in (times_s[::2], times_s[1::2])
    )
    return [first], [second]


@dataclass(frozen=True, eq=False)
class Confirmed:
    """A learner whose decisions are confirmed as `colltune confirm` does, from the record.

    ``noise`` is the standard deviation of the noise, drawn with ``seed``, on the log of the time of
    a configuration in a launch. With it, each cell is measured in as many launches as are asked
    for, recorded ones first; without it, in recorded ones only. Measuring ends at the share
    ``budget`` of what measuring everything takes.
    """

    learner: Learned | OfFolds
    deciding: Times
    noise: float = 0.0
    seed: int = 0
    budget: float = math.inf
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or f"{self.learner.name}, confirmed"

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> FoldDecisions:
        """Return the decisions; what is not measured is decided as without confirmation."""
        bundle = self.learner.bundle(context, fold, jobs)
        choice = decided_by(bundle, self.learner.guard, fold)
        judgements, confirm_s = self._replayed(bundle, fold)
        decided = {
            judgement.contest.instance: judgement.configuration
            for judgement in judgements
            if judgement.status is not Status.PREDICTED
        }
        instances = fold.testing.instances()
        chosen = [decided.get(i, c) for i, c in zip(instances, choice.chosen, strict=True)]
        return choice._replace(chosen=tuple(chosen), confirm_s=confirm_s)

    def _replayed(self, bundle: Bundle, fold: Fold) -> tuple[list[ContestState], float]:
        """Return what is known in the end, and the seconds of measuring it."""
        selector = ModelSelector(bundle, guard=self.learner.guard)
        sizes: dict[Shape, list[int]] = {}
        for instance in fold.testing.instances():
            sizes.setdefault(instance.shape, []).append(instance.msize_bytes)
        asked = [
            contest
            for shape, of_shape in sizes.items()
            for contest in contests(selector, fold.collective, shape, of_shape)
        ]
        seed = (self.seed, zlib.crc32(f"{fold.collective} {fold.name}".encode()))
        record = Record(self.deciding, self.noise, np.random.default_rng(seed))
        return replay(asked, record, self.budget * exhaustive_s(fold.testing.time_s))


class Record:
    """Recorded repetitions, given out launch by launch, spread evenly over the recorded launch.

    With `noise`, drawn by `rng`, there is always another launch, of other repetitions where there
    are any left.
    """

    def __init__(self, times: Times, noise: float, rng: np.random.Generator) -> None:
        self._times, self._noise, self._rng = times, noise, rng

    def __contains__(self, cell: Cell) -> bool:
        return cell in self._times

    def time_s(self, cell: Cell) -> float:
        return float(np.median(next(iter(self._times[cell].values()))))

    def has(self, cell: Cell, number: int) -> bool:
        """Tell whether there is a launch of `cell` of that `number`, from 0 on."""
        return number < (MOST_LAUNCHES if self._noise else len(self._times.get(cell, ())))

    def launch(self, cell: Cell, number: int, count: int) -> tuple[str, Sequence[float]]:
        """Return the name of a launch of `cell`, and up to `count` repetitions of it."""
        recorded = list(self._times[cell].items())
        launch, times_s = recorded[number % len(recorded)]
        turn, every = number // len(recorded), max(1, len(times_s) // count)
        part = times_s[turn % every :: every][:count]
        factor = math.exp(self._rng.normal(0.0, self._noise)) if self._noise else 1.0
        return f"{launch}, {turn}", [time_s * factor for time_s in part]


def replay(
    asked: Sequence[ContestedInstance], record: Record, budget_s: float = math.inf
) -> tuple[list[ContestState], float]:
    """Measure what is asked, launch by launch, until all is decided or nothing is left.

    As in `colltune confirm`, a contest is begun, or goes on, if the launches fit that it is thought
    to need. Returns what is known in the end, and the seconds of measuring it. What `record` does
    not have cannot run, and fails.
    """
    failed = {cell for contest in asked for cell in contest.cells if cell not in record}
    times: dict[Cell, dict[str, Sequence[float]]] = {}
    made: Counter[Instance] = Counter()
    spent_s = 0.0

    def until_proved_s(judgement: ContestState) -> float:
        counts = _repetitions(judgement, record, made)
        return judgement.launches_left * sum(n * record.time_s(cell) for cell, n in counts.items())

    while True:
        judgements = judge(asked, times, failed)
        left = [one for one in judgements if len(_repetitions(one, record, made)) > 1]
        chosen = worth_measuring(left, until_proved_s, budget_s, spent_s=spent_s)
        if not chosen:
            return judgements, spent_s
        for judgement in chosen:
            instance = judgement.contest.instance
            for cell, count in _repetitions(judgement, record, made).items():
                spent_s += count * record.time_s(cell)
                launch, repetitions_s = record.launch(cell, made[instance], count)
                times.setdefault(cell, {})[launch] = repetitions_s
            made[instance] += 1


def _repetitions(
    judgement: ContestState, record: Record, made: Counter[Instance]
) -> dict[Cell, int]:
    """Return how often the next launch repeats each cell of a judgement."""
    counts: dict[Cell, int] = {}
    contest = judgement.contest
    for configuration in (contest.default, *judgement.open_candidates):
        cell = (configuration, contest.instance)
        if cell in record and record.has(cell, made[contest.instance]):
            time_s = record.time_s(cell)
            turn = max(1, min(MOST_REPS, round(TURN_S / time_s)))
            counts[cell] = judgement.turns(time_s) * turn
    return counts


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
    confirm
        Whether learners are shown a second time, their decisions confirmed by measuring (see
        `colltune.evaluation.run`); all are judged by the half of the record that
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
        raise say("wrong-noise", noise=noise)
    if seed < 0:
        raise say("too-small", name="seed", value=seed, less="negative")
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
            raise say("no-second-half", SplitError, split=split.name)
        halved = halves(dataset)
        source = replace(source, judging=halved.judging)
        recipes += [Confirmed(learner, halved.deciding, noise, seed) for learner in asked]
        notes = (*notes, halved.note)
    folds = split.folds(source)
    if programs is not None and (harmful := _harmful(dataset, programs)):
        told = f"{counted(harmful, 'configuration')} may not be used for {programs.which}"
        notes = (*notes, f"{told}: left out")
    tested, choices, problems = decided(dataset.context, folds, recipes, jobs, progress)
    setup = EvaluationSetup(
        dataset.context,
        digest(dataset),
        split.name,
        split.options(),
        noise,
        seed,
        max_nprocs,
        judge.value,
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
    )


def _harmful(dataset: PerformanceDataset, programs: Programs) -> int:
    """Return how many configurations are left out on some shape."""
    every = (c for collective in dataset.collectives for c in dataset.configurations(collective))
    found = (
        legal_runs(dataset.context, c, dataset.shapes(), programs)
        for c in every
        if not c.is_default
    )
    return sum(any(one.refusal is not None for one in runs) for runs in found)


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
        if isinstance(choice, ColltuneError):
            raise choice
        choices[task[0].name].append(choice)
        told(done, len(tasks), _named(*tasks[done]) if done < len(tasks) else "")
    return choices


def _named(recipe: Recipe, fold: Fold) -> str:
    return f"{fold.collective}, without {fold.name}: {recipe.name}"


def _decide(
    recipe: Recipe, context: Context, fold: Fold, jobs: int | None
) -> FoldDecisions | ColltuneError:
    try:
        return recipe.decide(context, fold, jobs)
    except DataError as error:
        return error.of(f"{recipe.name}, {fold.collective}, without {fold.name}")


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
