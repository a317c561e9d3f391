"""Picks setups by composed runtimes: for every message, and one for a whole job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import DataError
from colltune.han.composing import runtime_s
from colltune.han.space import pipeline
from colltune.han.tasks_file import TaskTimes
from colltune.mpi.openmpi.han_setups import ADAPT

_SHARED = ("ibalg", "ibs")


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
