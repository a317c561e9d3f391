"""Runtimes composed of task times (equations 1 to 4), the setups picked by them, and their regret.

The picks stand beside an exhaustive search on the same machine (figures 8 and 9).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape
from colltune.errors import DataError, say
from colltune.han.space import pipeline
from colltune.han.tasks_file import TaskTimes, TimedSeries, depth
from colltune.models.costs.han import AllreduceTasks, BcastTasks
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.han_setups import ADAPT
from colltune.mpi.openmpi.library import OPENMPI
from colltune.text import computed, counted

Numbers = NDArray[np.float64]
_FILLING_SHARE = 3
_SHARED = ("ibalg", "ibs")


def runtime_s(series: TimedSeries, segments: int) -> float:
    """Return the runtime of a message of so many segments, in seconds.

    The lower median over repetitions of the slowest leader's total. The tasks in the middle that
    were run count as they were (eq. 1), all further ones as the steady task (eq. 3, eq. 4).
    """
    if not series.covers(segments) or not series.times_s:
        raise say(
            "tasks-cannot-predict",
            configuration=series.setup.id,
            shape=series.shape,
            tasks_of=counted(series.segments, "segment"),
            segments=segments,
        )
    totals = sorted(_of_repetition(series, tasks, segments) for tasks in series.array)
    return totals[(len(totals) - 1) // 2]


def _of_repetition(series: TimedSeries, tasks: Numbers, segments: int) -> float:
    """Return the total of one repetition, whose `tasks` have the shape (leaders, tasks)."""
    fill = depth(series.setup.collective)
    if segments < fill:
        return float(tasks.sum(axis=1).max())
    middle = tasks[:, fill : max(fill, series.segments)]
    repeated = _mean_of(middle, segments - fill)
    if series.setup.collective is Collective.BCAST:
        return BcastTasks(tasks[:, 0], repeated, tasks[:, -1]).total_s(segments)
    (first, second, third), (*ends,) = tasks[:, :3].T, tasks[:, -3:].T
    return AllreduceTasks(first, second, third, repeated, *ends).total_s(segments)


def _mean_of(middle: Numbers, n: int) -> Numbers:
    """Return the mean cost of `n` tasks in the middle, per leader; any if there are none."""
    run = middle.shape[1]
    if not n:
        return np.ones(len(middle))
    further_s = (n - run) * steady(middle) if n > run else 0.0
    total: Numbers = middle[:, :n].sum(axis=1) + further_s
    return total / n


def steady(middle: Numbers) -> Numbers:
    """Return the mean cost of tasks behind the first third of those in the `middle`, per leader."""
    cost: Numbers = middle[:, middle.shape[1] // _FILLING_SHARE :].mean(axis=1)
    return cost


@dataclass(frozen=True)
class FastestSetup:
    """The setup that is fastest for an instance."""

    instance: Instance
    setup: Configuration
    """id of the setup"""
    time_s: float
    """its composed runtime"""


@dataclass(frozen=True)
class JobSetup:
    """The setups of a job: one per collective, since their parameters hold for all messages."""

    setups: Mapping[Collective, Configuration]
    """ids of the setups, by collective"""
    slowdown: Mapping[Collective, float]
    """its composed runtime over that of the best setup for each message, geometric mean"""
    worst: Mapping[Collective, float]
    """the largest such ratio"""


def runtimes_s(
    tasks: TaskTimes, setups: Sequence[Configuration], instance: Instance
) -> dict[Configuration, float]:
    """Return the composed runtimes of the setups whose tasks were measured, in seconds."""
    release = tasks.context.library_version
    found = {}
    for setup in setups:
        series, segments = pipeline(release, setup, instance.msize_bytes)
        measured = tasks.of(instance.shape, series, segments)
        if measured is not None:
            found[setup] = runtime_s(measured, segments)
    return found


def pick(tasks: TaskTimes, setups: Sequence[Configuration], instance: Instance) -> FastestSetup:
    """Return the fastest setup for an instance (sec. III-C, step 1); of equals the first."""
    times = runtimes_s(tasks, setups, instance)
    if not times:
        raise say(
            "no-task-times-for",
            collective=instance.collective,
            msize=counted(instance.msize_bytes, "byte"),
            shape=instance.shape,
        )
    best = min(times, key=lambda setup: times[setup])
    return FastestSetup(instance, best, times[best])


def for_job(
    tasks: TaskTimes,
    setups: Mapping[Collective, Sequence[Configuration]],
    shape: Shape,
    msizes_bytes: Sequence[int],
) -> JobSetup:
    """Return the setups whose composed runtimes are closest to the best of every message.

    Segment sizes and modules are per collective, but coll/adapt's broadcast is the same in all
    of them: setups that ask for two different ones are not put together.
    """
    ratios = {c: _ratios(tasks, found, shape, c, msizes_bytes) for c, found in setups.items()}
    for collective, found in ratios.items():
        if not found:
            raise say("no-setup-with-times", collective=collective, shape=shape)
    means = {
        c: {setup: statistics.fmean(values) for setup, values in found.items()}
        for c, found in ratios.items()
    }
    best = min(_compatible(means), key=lambda chosen: sum(means[c][s] for c, s in chosen.items()))
    return JobSetup(
        best,
        {c: math.exp(means[c][setup]) for c, setup in best.items()},
        {c: math.exp(max(ratios[c][setup])) for c, setup in best.items()},
    )


def _ratios(
    tasks: TaskTimes,
    setups: Sequence[Configuration],
    shape: Shape,
    collective: Collective,
    msizes_bytes: Sequence[int],
) -> dict[Configuration, tuple[float, ...]]:
    """Return, for setups known for all messages, the logs of their times over the best ones."""
    by_size = [runtimes_s(tasks, setups, Instance(collective, shape, m)) for m in msizes_bytes]
    known = [s for s in setups if all(s in times for times in by_size)]
    return {
        setup: tuple(math.log(times[setup] / min(times.values())) for times in by_size)
        for setup in known
    }


def _compatible(
    means: Mapping[Collective, Mapping[Configuration, float]],
) -> Iterator[dict[Collective, Configuration]]:
    for chosen in product(*means.values()):
        trees = {
            tuple(values[name] for name in _SHARED)
            for values in (dict(setup.parameters) for setup in chosen)
            if values["up"] == ADAPT
        }
        if len(trees) < 2:
            yield dict(zip(means, chosen, strict=True))


Exhaustive = Mapping[Instance, Mapping[Configuration, float]]


@dataclass(frozen=True)
class Compared:
    """One instance: what the tuner picked, and what whole collectives were measured to take."""

    instance: Instance
    picked: Configuration
    """id of the setup that was picked"""
    best: Configuration
    """id of the fastest one"""
    composed_s: float
    """composed runtime of the picked one"""
    picked_s: float
    """its measured runtime"""
    best_s: float
    """measured runtime of the fastest"""
    median_s: float
    """median over all setups"""
    mean_s: float
    """mean over all setups"""

    @computed
    def regret(self) -> float:
        """How much slower the pick is than the best, as a share of the best."""
        return self.picked_s / self.best_s - 1


@dataclass(frozen=True)
class HanComparison:
    """What `han compare` prints."""

    instances: tuple[Compared, ...]
    """every instance"""

    @computed
    def mean_regret(self) -> float:
        """Mean over instances."""
        return statistics.fmean(one.regret for one in self.instances)


def exhaustive_of(
    release: str, measurements: Iterable[Measurement]
) -> dict[Instance, dict[Configuration, float]]:
    """Return the median runtime of each setup of coll/han that was measured as a whole."""
    times: dict[Instance, dict[Configuration, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in measurements:
        if not han_setups.is_setup(one.configuration) or one.status is not RunStatus.OK:
            continue
        if one.summary is not None:
            spelled = OPENMPI.han_setups(release).cut(one.configuration, one.instance.msize_bytes)
            times[one.instance][spelled].append(one.summary.time_s)
    return {
        instance: {setup: statistics.median(found) for setup, found in by_setup.items()}
        for instance, by_setup in times.items()
    }


def compare(
    tasks: TaskTimes,
    setups: Mapping[Collective, Sequence[Configuration]],
    exhaustive: Exhaustive,
) -> HanComparison:
    """Return the comparison of every instance of the exhaustive search that the tasks tell."""
    found = []
    for instance in sorted(exhaustive, key=lambda i: (i.collective, i.shape, i.msize_bytes)):
        compared = _compared(tasks, setups.get(instance.collective, ()), instance, exhaustive)
        if compared is not None:
            found.append(compared)
    if not found:
        raise say("no-exhaustive-search")
    return HanComparison(tuple(found))


def _compared(
    tasks: TaskTimes,
    setups: Sequence[Configuration],
    instance: Instance,
    exhaustive: Exhaustive,
) -> Compared | None:
    release, measured = tasks.context.library_version, exhaustive[instance]

    def runs(setup: Configuration) -> Configuration:
        return OPENMPI.han_setups(release).cut(setup, instance.msize_bytes)

    known = [setup for setup in setups if runs(setup) in measured]
    try:
        chosen = pick(tasks, known, instance)
    except DataError:
        return None
    best = min(measured, key=lambda setup: measured[setup])
    return Compared(
        instance,
        runs(chosen.setup),
        best,
        chosen.time_s,
        measured[runs(chosen.setup)],
        measured[best],
        statistics.median(measured.values()),
        statistics.fmean(measured.values()),
    )
