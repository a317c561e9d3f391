"""Replays the confirmation of decisions: one half of the record decides, the other one judges.

A cell that was measured in several launches is parted by launches, one that was measured in a
single launch by its repetitions, every other one to each half. Where there is but one number, it is
in both halves, and only drawn noise keeps them apart.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from colltune.dataset import PerformanceDataset
from colltune.decisions import Status
from colltune.domain import Context, Instance, LaunchStatistics, Measurement, Shape
from colltune.evaluation.folds import Fold, exhaustive_s
from colltune.evaluation.recipes import FoldDecisions, Learned, OfFolds, decided_by
from colltune.models.bundle import Bundle
from colltune.selector.argmin import ModelSelector
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
