"""Replays the confirmation of decisions: one half of the record decides, the other one judges.

A cell that was measured in several launches is parted by launches, one that was measured in a
single launch by its repetitions, every other one to each half. Where there is but one number, it is
in both halves, and only drawn noise keeps them apart.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from colltune.dataset import PerformanceDataset
from colltune.decisions import Status
from colltune.domain import Context, Instance, Measurement, Shape, Summary
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix
from colltune.selector.argmin import ModelSelector
from colltune.selector.confirming import (
    MOST_LAUNCHES,
    Cell,
    Contest,
    Judgement,
    Times,
    contests,
    judge,
    repetitions,
)
from colltune.selector.evaluation.folds import Fold, exhaustive_s
from colltune.selector.evaluation.recipes import Choice, Fitted
from colltune.selector.guard import Guard


class Halves(NamedTuple):
    """The record of a dataset in two halves; ``undivided`` cells of ``cells`` are in both."""

    deciding: Times
    judging: PerformanceDataset
    undivided: int
    cells: int

    @property
    def note(self) -> str:
        """How the halves are apart, for people."""
        text = "confirmed by one half of the launches or repetitions, judged by the other"
        if not self.undivided:
            return text
        return (
            f"{text}; {self.undivided} of {self.cells} cells have a single number, which is in"
            " both halves: only --noise keeps them apart"
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
        deciding[cell] = {m.launch: m.times_s or (_time_s(m),) for m in mine}
        judging += theirs
    return Halves(
        deciding, PerformanceDataset.of(dataset.context, judging), undivided, len(by_cell)
    )


def _by_repetitions(measurement: Measurement) -> tuple[list[Measurement], list[Measurement]]:
    times_s = measurement.times_s
    if len(times_s) < 2:
        return [measurement], [measurement]
    first, second = (
        replace(measurement, times_s=part, summary=Summary.of(part))
        for part in (times_s[::2], times_s[1::2])
    )
    return [first], [second]


def _time_s(measurement: Measurement) -> float:
    assert measurement.summary is not None
    return measurement.summary.time_s


class Learner(Protocol):
    """What a bundle comes from."""

    @property
    def name(self) -> str:
        """How its figures are called."""
        ...

    @property
    def guard(self) -> bool | Guard:
        """How its decisions are guarded where nothing is measured."""
        ...

    def bundle(self, context: Context, fold: Fold, jobs: int | None) -> Bundle:
        """Return the bundle of a fold."""
        ...


@dataclass(frozen=True, eq=False)
class Confirmed:
    """A learner whose decisions are confirmed as `colltune confirm` does, from the record.

    ``noise`` is the standard deviation of the noise, drawn with ``seed``, on the log of the time of
    a configuration in a launch. With it, each cell is measured in as many launches as are asked
    for, recorded ones first; without it, in recorded ones only. Measuring ends at the share
    ``budget`` of what measuring everything takes.
    """

    learner: Learner
    deciding: Times
    noise: float = 0.0
    seed: int = 0
    budget: float = math.inf
    label: str = ""

    @property
    def name(self) -> str:
        """The label, or the learner's name and what follows."""
        return self.label or f"{self.learner.name}, confirmed"

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> Choice:
        """Return the decisions; what is not measured is decided as without confirmation."""
        bundle = self.learner.bundle(context, fold, jobs)
        choice = Fitted(bundle, self.learner.guard).decide(context, fold, jobs)
        judgements, confirm_s = self._replayed(bundle, fold)
        decided = {
            instance: judgement.configuration
            for judgement in judgements
            if judgement.status is not Status.PREDICTED
            for instance in judgement.instances
        }
        instances = fold.testing.instances()
        chosen = [decided.get(i, c) for i, c in zip(instances, choice.chosen, strict=True)]
        return choice._replace(chosen=tuple(chosen), confirm_s=confirm_s)

    def _replayed(self, bundle: Bundle, fold: Fold) -> tuple[list[Judgement], float]:
        """Return what is known in the end, and the seconds of measuring it."""
        selector = ModelSelector(bundle, guard=self.learner.guard)
        asked = [
            contest
            for shape, sizes in _sizes(fold.testing).items()
            for contest in contests(selector, fold.collective, shape, sizes)
        ]
        seed = (self.seed, zlib.crc32(f"{fold.collective} {fold.name}".encode()))
        rng = np.random.default_rng(seed)
        launches = {
            cell: self._launches(self.deciding[cell], rng)
            for cell in dict.fromkeys(cell for contest in asked for cell in _cells(contest))
            if cell in self.deciding
        }
        return replay(asked, launches, self.budget * exhaustive_s(fold.testing.time_s))

    def _launches(
        self, recorded: Mapping[str, Sequence[float]], rng: np.random.Generator
    ) -> dict[str, Sequence[float]]:
        """Return the repetitions of each launch that can be had of a cell, in order."""
        rows = [(launch, np.asarray(times_s)) for launch, times_s in recorded.items()]
        count = repetitions(float(np.median(rows[0][1])))
        if not self.noise:
            return {launch: times_s[:count].tolist() for launch, times_s in rows}
        found = {}
        for number in range(MOST_LAUNCHES):
            launch, times_s = rows[number % len(rows)]
            turn = number // len(rows)
            # another launch goes on in the record, or begins it again where there is no more
            part = times_s[turn * count : (turn + 1) * count]
            part = part if len(part) else times_s[:count]
            found[f"{launch}, {turn}"] = (part * np.exp(rng.normal(0.0, self.noise))).tolist()
        return found


def replay(
    asked: Sequence[Contest], launches: Times, budget_s: float = math.inf
) -> tuple[list[Judgement], float]:
    """Measure what is asked, launch by launch, until all is decided or nothing is left.

    What `launches` does not have cannot run, and fails. In a launch goes first what is worth most
    per second, while it fits into `budget_s`.

    Returns
    -------
        What is known in the end, and the seconds of measuring it.
    """
    failed = {cell for contest in asked for cell in _cells(contest) if cell not in launches}
    times: dict[Cell, dict[str, Sequence[float]]] = {}
    judgements = judge(asked, times, failed)
    spent_s = 0.0
    for number in range(MOST_LAUNCHES):
        ranked = []
        for judgement in judgements:
            cells = [c for c in _cells(judgement.contest, judgement.instances) if c not in failed]
            found = {c: list(launches[c].items())[number : number + 1] for c in cells}
            seconds = sum(_seconds(times_s) for turns in found.values() for _, times_s in turns)
            if judgement.is_open and seconds:
                ranked.append((judgement.value / seconds, seconds, found))
        for _, seconds, found in sorted(ranked, key=lambda one: -one[0]):
            if spent_s + seconds <= budget_s:
                spent_s += seconds
                for cell, turns in found.items():
                    times.setdefault(cell, {}).update(turns)
        judgements = judge(asked, times, failed)
    return judgements, spent_s


def _seconds(times_s: Sequence[float]) -> float:
    """Return how long a launch measures a cell."""
    time_s = float(np.median(times_s))
    return repetitions(time_s) * time_s


def _cells(contest: Contest, instances: Iterable[Instance] | None = None) -> list[Cell]:
    return [
        (configuration, instance)
        for instance in (contest.instances if instances is None else instances)
        for configuration in (contest.default, *contest.candidates)
    ]


def _sizes(cells: CellMatrix) -> dict[Shape, list[int]]:
    """Return the message sizes of each shape."""
    found: dict[Shape, list[int]] = {}
    for instance in cells.instances():
        found.setdefault(instance.shape, []).append(instance.msize_bytes)
    return found
