"""HAN's composition of hierarchical collectives from the measured times of their tasks.

From X. Luo et al., "HAN: a Hierarchical AutotuNed Collective Communication Framework", CLUSTER
2020, sec. III. A message is cut into u segments that follow each other through the levels of the
machine. A task is what one node leader does in one step: ``ib``, ``ir`` broadcast or reduce
between nodes, ``sb``, ``sr`` within one; ``sbib`` does both at the same time, for neighbouring
segments. Task times depend on the segment size and not on the message, so that a few of them,
measured once, tell the runtime for every message size.

All times are measured seconds, one per node leader; the slowest leader's total is the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colltune.errors import DataError

Numbers = NDArray[np.float64]
BCAST_TASKS = frozenset({"ib", "sbib", "sb"})
"""The three types of tasks of a broadcast (sec. III-A)."""
ALLREDUCE_TASKS = frozenset({"sr", "sb", "irsr", "ibirsr", "sbibirsr", "sbibir", "sbib", "sbsr"})
"""The eight types of tasks of an allreduce (sec. III-B)."""
_LEAST_STEPS_OF_ALLREDUCE = 3


class TaskTimes(Protocol):
    """Task times of one configuration and segment size."""

    def total_s(self, segments: int) -> float:
        """Return the collective's runtime for so many segments, in seconds."""
        ...


@dataclass(frozen=True, eq=False)
class BcastTasks:
    """Seconds of the tasks of a broadcast, each of shape (leaders).

    ``ib_s`` of the first segment between nodes, all starting together; ``sbib_s`` of a step in the
    steady state, see `stabilised_s`; ``sb_s`` of one segment within a node.

    Raises
    ------
    DataError
        If times are missing, not positive, or of different numbers of leaders.
    """

    ib_s: ArrayLike
    sbib_s: ArrayLike
    sb_s: ArrayLike

    def __post_init__(self) -> None:
        _check(self)

    def total_s(self, segments: int) -> float:
        """Return eq. 3: max over leaders of ib(0) + (u - 1) sbib(s) + sb(u - 1)."""
        _check_segments(segments, 1)
        return _slowest(
            _array(self.ib_s) + (segments - 1) * _array(self.sbib_s) + _array(self.sb_s)
        )


@dataclass(frozen=True, eq=False)
class AllreduceTasks:
    """Seconds of the tasks of an allreduce, each of shape (leaders).

    In the order of the pipeline: it fills with ``sr_s``, ``irsr_s``, ``ibirsr_s``, runs with
    ``sbibirsr_s`` in the steady state, and empties with ``sbibir_s``, ``sbib_s``, ``sb_s``.

    Raises
    ------
    DataError
        As `BcastTasks`.
    """

    sr_s: ArrayLike
    irsr_s: ArrayLike
    ibirsr_s: ArrayLike
    sbibirsr_s: ArrayLike
    sbibir_s: ArrayLike
    sbib_s: ArrayLike
    sb_s: ArrayLike

    def __post_init__(self) -> None:
        _check(self)

    def total_s(self, segments: int) -> float:
        """Return eq. 4 for three segments or more: with fewer the pipeline has other tasks.

        max over leaders of sr(0) + irsr(1) + ibirsr(2) + (u - 3) sbibirsr(s) + sbibir(u - 1)
        + sbib(u - 1) + sb(u - 1).
        """
        _check_segments(segments, _LEAST_STEPS_OF_ALLREDUCE)
        filling = _array(self.sr_s) + _array(self.irsr_s) + _array(self.ibirsr_s)
        emptying = _array(self.sbibir_s) + _array(self.sbib_s) + _array(self.sb_s)
        steady = (segments - _LEAST_STEPS_OF_ALLREDUCE) * _array(self.sbibirsr_s)
        return _slowest(filling + steady + emptying)


def bcast_of_leaders_s(ib_s: ArrayLike, sbib_s: ArrayLike, sb_s: ArrayLike) -> float:
    """Return eq. 1: max over leaders of ib(0) + sbib(1) + … + sbib(u - 1) + sb(u - 1).

    Parameters
    ----------
    ib_s, sb_s
        Seconds of the first and of the last task, shape (leaders).
    sbib_s
        Seconds of every step between, shape (u - 1, leaders); of no length for one segment.

    Raises
    ------
    DataError
        If the times are not of the same leaders.
    """
    steps = np.asarray(sbib_s, np.float64)
    first, last = _array(ib_s), _array(sb_s)
    if steps.size and steps.shape[1:] != first.shape:
        raise DataError(f"sbib_s has times of {steps.shape[1:]} leaders, ib_s of {first.shape}")
    return _slowest(first + steps.reshape(-1, *first.shape).sum(axis=0) + last)


def bcast_of_others_s(ib_s: ArrayLike, sb_s: ArrayLike) -> float:
    """Return eq. 2: max over processes that lead no node of ib(0) + sb(0) + … + sb(u - 1).

    Parameters
    ----------
    ib_s
        Seconds that each waits for its leader's first task, shape (processes).
    sb_s
        Seconds of every step, shape (u, processes).
    """
    return _slowest(_array(ib_s) + np.asarray(sb_s, np.float64).sum(axis=0))


def stabilised_s(series_s: ArrayLike) -> Numbers:
    """Return the steady cost of a task from its first runs in a row, shape (leaders).

    The cost settles once the pipeline is full, after the first few (sec. III-A, fig. 3). The paper
    does not say how the level is read off; this is the median of the second half.

    Parameters
    ----------
    series_s
        Seconds of consecutive runs, shape (runs, leaders).

    Raises
    ------
    DataError
        If there is no run, or a time is not positive.
    """
    series = np.asarray(series_s, np.float64)
    if series.ndim != 2 or not series.size or not (np.isfinite(series) & (series > 0)).all():
        raise DataError(
            "the runs of a task must be positive times of the shape (runs, leaders), at least one"
        )
    level: Numbers = np.median(series[len(series) // 2 :], axis=0)
    return level


class Setup(NamedTuple):
    """What task times were measured for: submodules and algorithms by name, and segment size."""

    name: str
    segsize_bytes: int


class Choice(NamedTuple):
    """The setup that is fastest for a message, with its runtime in seconds."""

    setup: Setup
    time_s: float


def runtimes_s(table: Mapping[Setup, TaskTimes], msize_bytes: int) -> dict[Setup, float]:
    """Return the runtimes of one message for all setups whose formula covers its segments.

    Raises
    ------
    DataError
        If the message is negative or a segment size is not positive.
    """
    if msize_bytes < 0:
        raise DataError(f"a message of {msize_bytes} bytes: 0 or more are needed")
    times = {}
    for setup, tasks in table.items():
        if setup.segsize_bytes < 1:
            raise DataError(f"{setup.name}: segments of {setup.segsize_bytes} bytes; 1 or more")
        segments = max(1, -(-msize_bytes // setup.segsize_bytes))
        if segments >= _least_segments(tasks):
            times[setup] = tasks.total_s(segments)
    return times


def best_setup(table: Mapping[Setup, TaskTimes], msize_bytes: int) -> Choice:
    """Return the fastest of the measured setups for one message (sec. III-C).

    Raises
    ------
    DataError
        If no formula covers the message, or as `runtimes_s`.
    """
    times = runtimes_s(table, msize_bytes)
    if not times:
        raise DataError(
            f"no task times cover a message of {msize_bytes} bytes: eq. 4 needs"
            f" {_LEAST_STEPS_OF_ALLREDUCE} segments or more; measure smaller segments"
        )
    setup = min(times, key=lambda s: (times[s], s))
    return Choice(setup, times[setup])


class Grid(NamedTuple):
    """How many values a tuning has of each input (sec. III-C)."""

    msizes: int
    segsizes: int
    nodes: int
    ppn: int
    algorithms: int


class Effort(NamedTuple):
    """Measurements of an exhaustive search and of its tasks alone."""

    exhaustive: int
    tasks: int

    @property
    def saved_share(self) -> float:
        """Share of the measurements that is saved; negative where tasks are more."""
        return 1 - self.tasks / self.exhaustive


def effort(grid: Grid, collectives: Sequence[frozenset[str]]) -> Effort:
    """Return how many measurements tasks save (sec. III-C).

    Exhaustive M S N P A per collective; with tasks T S N P A, T counting every type of task once,
    since the times of a type are the same in every collective that has it. Each measurement of a
    task takes less time on top of that, which is not counted: the paper saves 77 % of the time.

    Parameters
    ----------
    grid
        The values of each input.
    collectives
        The types of tasks of each collective, such as `BCAST_TASKS`.

    Raises
    ------
    DataError
        If there is nothing to measure.
    """
    if min(grid) < 1 or not collectives:
        raise DataError(f"{grid} for {len(collectives)} collectives leaves nothing to measure")
    per_type = grid.segsizes * grid.nodes * grid.ppn * grid.algorithms
    types = frozenset().union(*collectives)
    return Effort(len(collectives) * grid.msizes * per_type, len(types) * per_type)


def _least_segments(tasks: TaskTimes) -> int:
    return _LEAST_STEPS_OF_ALLREDUCE if isinstance(tasks, AllreduceTasks) else 1


def _check_segments(segments: int, least: int) -> None:
    if segments < least:
        raise DataError(f"the formula holds for {least} segments or more, not for {segments}")


def _check(tasks: BcastTasks | AllreduceTasks) -> None:
    leaders = set()
    for field in fields(tasks):
        times = _array(getattr(tasks, field.name))
        leaders.add(times.shape)
        if times.ndim != 1 or not times.size or not (np.isfinite(times) & (times > 0)).all():
            raise DataError(f"{field.name}: one positive time per node leader is needed")
    if len(leaders) > 1:
        raise DataError("the tasks have times of different numbers of leaders")


def _array(values: ArrayLike) -> Numbers:
    return np.asarray(values, np.float64)


def _slowest(totals: Numbers) -> float:
    if not totals.size or not np.isfinite(totals).all():
        raise DataError("task times must be numbers, at least one per task")
    return float(totals.max())
