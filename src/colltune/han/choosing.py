"""Runtimes composed of the times of tasks (equations 1 to 4), and the setups picked by them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import DataError
from colltune.han.space import pipeline
from colltune.han.tasks_file import Measured, TaskTimes, depth
from colltune.models.costs.han import AllreduceTasks, BcastTasks
from colltune.mpi.openmpi.han_setups import ADAPT

Numbers = NDArray[np.float64]
_FILLING_SHARE = 3
_SHARED = ("ibalg", "ibs")


def runtime_s(series: Measured, segments: int) -> float:
    """Return the runtime of a message of so many segments, in seconds.

    The lower median over repetitions of the slowest leader's total. The tasks in the middle that
    were run count as they were (eq. 1), all further ones as the steady task (eq. 3, eq. 4).
    """
    if not series.covers(segments) or not series.times_s:
        raise DataError(
            f"{series.setup.id} on {series.shape}: tasks of {series.segments} segments do not tell"
            f" the time of {segments}"
        )
    totals = sorted(_of_repetition(series, tasks, segments) for tasks in series.array)
    return totals[(len(totals) - 1) // 2]


def _middle(series: Measured) -> slice:
    fill = depth(series.setup.collective)
    return slice(fill, max(fill, series.segments))


def _behind_the_first(middle: Numbers) -> Numbers:
    return middle[..., middle.shape[-1] // _FILLING_SHARE :]


def _of_repetition(series: Measured, tasks: Numbers, segments: int) -> float:
    """Return the total of one repetition, whose `tasks` have the shape (leaders, tasks)."""
    fill = depth(series.setup.collective)
    if segments < fill:
        return float(tasks.sum(axis=1).max())
    repeated = _mean_of(tasks[:, _middle(series)], segments - fill)
    if series.setup.collective is Collective.BCAST:
        return BcastTasks(tasks[:, 0], repeated, tasks[:, -1]).total_s(segments)
    head, tail = tasks[:, :3].T, tasks[:, -3:].T
    whole = AllreduceTasks(head[0], head[1], head[2], repeated, tail[0], tail[1], tail[2])
    return whole.total_s(segments)


def _mean_of(middle: Numbers, n: int) -> Numbers:
    """Return the mean cost of `n` tasks in the middle, per leader; any if there are none."""
    run = middle.shape[1]
    if not n:
        return np.ones(len(middle))
    if n <= run:
        mean: Numbers = middle[:, :n].mean(axis=1)
        return mean
    further = (n - run) * _behind_the_first(middle).mean(axis=1)
    total: Numbers = middle.sum(axis=1) + further
    return total / n


@dataclass(frozen=True)
class Pick:
    """The setup that is fastest for an instance, with its composed runtime in seconds."""

    instance: Instance
    setup: Configuration
    time_s: float


@dataclass(frozen=True)
class JobSetup:
    """The setups of a job: one per collective, since their parameters hold for all messages.

    ``slowdown`` is the geometric mean, over the messages of a collective, of the composed runtime
    over that of the best setup for each message; ``worst`` the largest such ratio.
    """

    setups: Mapping[Collective, Configuration]
    slowdown: Mapping[Collective, float]
    worst: Mapping[Collective, float]


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


def pick(tasks: TaskTimes, setups: Sequence[Configuration], instance: Instance) -> Pick:
    """Return the fastest setup for an instance (sec. III-C, step 1); of equals the first."""
    times = runtimes_s(tasks, setups, instance)
    if not times:
        raise DataError(
            f"no tasks tell {instance.collective} of {instance.msize_bytes} bytes on"
            f" {instance.shape}; measure them by `colltune han measure`"
        )
    best = min(times, key=lambda setup: times[setup])
    return Pick(instance, best, times[best])


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
            raise DataError(
                f"no setup of {collective} on {shape} has tasks for every message size asked for;"
                " measure them by `colltune han measure`"
            )
    means = {
        c: {setup: _mean(values) for setup, values in found.items()} for c, found in ratios.items()
    }
    best = min(_compatible(means), key=lambda chosen: _score(means, chosen))
    return JobSetup(
        best,
        {c: math.exp(means[c][setup]) for c, setup in best.items()},
        {c: math.exp(max(ratios[c][setup])) for c, setup in best.items()},
    )


Logs = dict[Configuration, tuple[float, ...]]


def _ratios(
    tasks: TaskTimes,
    setups: Sequence[Configuration],
    shape: Shape,
    collective: Collective,
    msizes_bytes: Sequence[int],
) -> Logs:
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


def _score(
    means: Mapping[Collective, Mapping[Configuration, float]],
    chosen: Mapping[Collective, Configuration],
) -> float:
    return sum(means[collective][setup] for collective, setup in chosen.items())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
