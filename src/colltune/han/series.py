"""Series of tasks: what is asked of the C program, and what it measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Collective, Configuration, RunStatus, Shape
from colltune.errors import DataError

STEADY_AT_FIRST, MOST_STEADY = 4, 64
"""Tasks of the steady kind in a series: it begins with so many and is doubled up to the last."""
_DEPTHS = {Collective.BCAST: 1, Collective.ALLREDUCE: 3}


class Manner(StrEnum):
    """How the length of a series came about.

    ``steady``: its tasks cost the same at the end; ``bounded``: they do not, but it was long
    enough; ``exact``: so many segments were asked for.
    """

    STEADY = "steady"
    BOUNDED = "bounded"
    EXACT = "exact"


def depth(collective: Collective) -> int:
    """Return how many tasks fill the pipeline before the steady ones; as many empty it."""
    return _DEPTHS[collective]


@dataclass(frozen=True)
class Wanted:
    """Tasks in a row, from ``least`` to ``most`` segments: as many as it takes to be steady.

    ``setup.segsize`` is the segment that really runs.
    """

    shape: Shape
    setup: Configuration
    least: int
    most: int
    reps: int


@dataclass(frozen=True)
class Measured:
    """Repetitions of a series of tasks.

    ``times_s`` has the shape (repetitions, leaders, tasks): for each node's leader the seconds of
    each task in a row, the first from a common start on. It is empty where `status` is not ok.
    ``wall_s`` is what measuring took in all.
    """

    shape: Shape
    setup: Configuration
    segments: int
    manner: Manner
    times_s: tuple[tuple[tuple[float, ...], ...], ...]
    wall_s: float
    status: RunStatus = RunStatus.OK
    message: str = ""

    def __post_init__(self) -> None:
        times = self.array
        tasks = self.segments + depth(self.setup.collective)
        right = times.ndim == 3 and times.shape[1:] == (self.shape.nodes, tasks)
        if self.status is RunStatus.OK and not (right and times.size and (times > 0).all()):
            raise DataError(
                f"{self.setup.id} on {self.shape}: {self.segments} segments need positive times of"
                f" {tasks} tasks on {self.shape.nodes} leaders"
            )

    @property
    def array(self) -> NDArray[np.float64]:
        """The times as an array."""
        return np.asarray(self.times_s, np.float64)

    def covers(self, segments: int) -> bool:
        """Tell whether the time of so many segments can be told from it."""
        if self.status is not RunStatus.OK:
            return True
        if segments < depth(self.setup.collective):
            return self.segments == segments
        longer = self.segments > depth(self.setup.collective) and self.manner is not Manner.EXACT
        return self.segments >= max(segments, depth(self.setup.collective)) or longer


def wanted_for(
    shape: Shape, setup: Configuration, segments: Iterable[int], reps: int
) -> tuple[Wanted, ...]:
    """Return the series from which the times of messages of so many `segments` can be told.

    Messages shorter than the pipeline have other tasks, which are run as they are.
    """
    fill = depth(setup.collective)
    short = sorted({u for u in segments if u < fill})
    found = [Wanted(shape, setup, u, u, reps) for u in short]
    longest = max(segments, default=0)
    if longest < fill:
        return tuple(found)
    first, last = fill + STEADY_AT_FIRST, fill + MOST_STEADY
    if longest <= first:
        return (*found, Wanted(shape, setup, longest, longest, reps))
    return (*found, Wanted(shape, setup, first, min(longest, last), reps))


def together(series: Sequence[Measured]) -> Measured | None:
    """Return all repetitions of `series`, which are of one setup and length; None of none."""
    if not series:
        return None
    first = series[0]
    times = tuple(rep for s in series for rep in s.times_s)
    manner = min((s.manner for s in series), key=list(Manner).index)
    wall_s = sum(s.wall_s for s in series)
    return replace(first, manner=manner, times_s=times, wall_s=wall_s)
