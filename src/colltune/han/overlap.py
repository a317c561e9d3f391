"""How far the tasks of a pipeline overlap, by the series that were measured.

Levels overlap, but not perfectly, so that a task that does two things takes longer than the longer
of both (Luo et al., CLUSTER 2020, sec. III-A.2 and III-B.1, figures 2, 3 and 6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError
from colltune.han.choosing import steady
from colltune.han.tasks_file import TaskTimes, TimedSeries, depth
from colltune.mpi.openmpi import han_setups

Numbers = NDArray[np.float64]
_LEAST_SEGMENTS = {Collective.BCAST: 2, Collective.ALLREDUCE: 4}
_OF_ALLREDUCE_ALONE = ("iralg", "irs")


@dataclass(frozen=True, eq=False)
class Overlap:
    """Two tasks, and the task that does both at once, in one setup.

    ``names`` are those of the three; ``first_s``, ``second_s`` and ``both_s`` (leaders) medians
    over repetitions. ``course_s`` (leaders, n) are the tasks of the steady kind in order.
    """

    setup: Configuration
    shape: Shape
    names: tuple[str, str, str]
    first_s: Numbers
    second_s: Numbers
    both_s: Numbers
    course_s: Numbers

    @property
    def slowest_s(self) -> tuple[float, float, float]:
        """The three on the leader where each takes longest."""
        return float(self.first_s.max()), float(self.second_s.max()), float(self.both_s.max())

    @property
    def over_longer(self) -> float:
        """Both at once over the longer of the two: 1 if overlap is perfect."""
        first_s, second_s, both_s = self.slowest_s
        return both_s / max(first_s, second_s)

    @property
    def over_sum(self) -> float:
        """Both at once over one after the other: 1 if nothing overlaps."""
        first_s, second_s, both_s = self.slowest_s
        return both_s / (first_s + second_s)


def overlaps(tasks: TaskTimes, shape: Shape, segsize_bytes: int | None = None) -> list[Overlap]:
    """Return the overlap in each setup of a segment size: of a broadcast, then of an allreduce.

    A broadcast tells ib, sb and the steady sbib. An allreduce tells irsr and ibirsr; ib is that of
    the broadcast in the same setup. Without `segsize_bytes` it is the one that most setups have,
    of several such the largest.
    """
    series = {c: _longest(tasks, shape, c) for c in _LEAST_SEGMENTS}
    sizes = [s.setup.numbers["segsize"] for found in series.values() for s in found.values()]
    if segsize_bytes is None:
        segsize_bytes = max(sizes, key=lambda size: (sizes.count(size), size), default=None)
    found = [
        one
        for one in (*_of_bcast(series), *_of_allreduce(series))
        if one.setup.numbers["segsize"] == segsize_bytes
    ]
    if not found:
        known = ", ".join(map(str, sorted(set(sizes)))) or "none"
        raise DataError(
            f"no series of tasks on {shape} is long enough to show how tasks overlap in segments "
            f"of {segsize_bytes} bytes; segment sizes of series that are: {known}. Measure "
            "messages of several segments by `colltune han measure`."
        )
    return found


_Series = dict[Configuration, TimedSeries]


def _longest(tasks: TaskTimes, shape: Shape, collective: Collective) -> _Series:
    """Return the longest series of each setup that has enough segments."""
    lengths: dict[Configuration, int] = {}
    for one in tasks.series:
        if one.shape == shape and one.setup.collective is collective and one.times_s:
            lengths[one.setup] = max(lengths.get(one.setup, 0), one.segments)
    found = {
        setup: tasks.of(shape, setup, length)
        for setup, length in lengths.items()
        if length >= _LEAST_SEGMENTS[collective]
    }
    return {setup: series for setup, series in found.items() if series is not None}


def _of_bcast(series: dict[Collective, _Series]) -> Iterator[Overlap]:
    for setup, one in series[Collective.BCAST].items():
        times = np.median(one.array, axis=0)
        course = _course(one, times)
        yield Overlap(
            setup,
            one.shape,
            ("ib", "sb", "sbib"),
            times[:, 0],
            times[:, -1],
            steady(course),
            course,
        )


def _of_allreduce(series: dict[Collective, _Series]) -> Iterator[Overlap]:
    for setup, one in series[Collective.ALLREDUCE].items():
        values = {k: v for k, v in setup.parameters if k not in _OF_ALLREDUCE_ALONE}
        ib = series[Collective.BCAST].get(han_setups.setup(Collective.BCAST, values))
        if ib is not None:
            times = np.median(one.array, axis=0)
            first_s = np.median(ib.array, axis=0)[:, 0]
            names = ("ib", "irsr", "ibirsr")
            course = _course(one, times)
            yield Overlap(setup, one.shape, names, first_s, times[:, 1], times[:, 2], course)


def _course(series: TimedSeries, times: Numbers) -> Numbers:
    """Return the tasks of the steady kind among `times` (leaders, tasks)."""
    return times[:, depth(series.setup.collective) : series.segments]
