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

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colltune.errors import say

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Tasks:
    """Seconds of tasks by type, each of shape (leaders)."""

    least_segments: ClassVar[int]

    def __post_init__(self) -> None:
        for field in fields(self):
            times = np.asarray(getattr(self, field.name), np.float64)
            if times.ndim != 1 or not times.size or not (np.isfinite(times) & (times > 0)).all():
                raise say("time-per-leader", name=field.name)
            object.__setattr__(self, field.name, times)

    def total_s(self, segments: int) -> float:
        """Return the collective's runtime for so many segments: that of the slowest leader."""
        if segments < self.least_segments:
            raise say("too-few-segments", least=self.least_segments, segments=segments)
        return float(self._of_leaders(segments).max())

    def _of_leaders(self, segments: int) -> Numbers:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class BcastTasks(_Tasks):
    """Seconds of the tasks of a broadcast, each of shape (leaders).

    ``ib_s`` of the first segment between nodes, all starting together; ``sbib_s`` of a step in the
    steady state; ``sb_s`` of one segment within a node. Eq. 1 adds up each leader's own steps, eq.
    2 is the same for processes that lead no node; with equal steps they are eq. 3.
    """

    least_segments: ClassVar[int] = 1
    ib_s: ArrayLike
    sbib_s: ArrayLike
    sb_s: ArrayLike

    def _of_leaders(self, segments: int) -> Numbers:
        """Return eq. 3: ib(0) + (u - 1) sbib(s) + sb(u - 1)."""
        ib_s, sbib_s, sb_s = (np.asarray(t) for t in (self.ib_s, self.sbib_s, self.sb_s))
        return np.asarray(ib_s + (segments - 1) * sbib_s + sb_s)


@dataclass(frozen=True, eq=False)
class AllreduceTasks(_Tasks):
    """Seconds of the tasks of an allreduce, each of shape (leaders).

    In the order of the pipeline: it fills with ``sr_s``, ``irsr_s``, ``ibirsr_s``, runs with
    ``sbibirsr_s`` in the steady state, and empties with ``sbibir_s``, ``sbib_s``, ``sb_s``. With
    fewer than three segments it has other tasks.
    """

    least_segments: ClassVar[int] = 3
    sr_s: ArrayLike
    irsr_s: ArrayLike
    ibirsr_s: ArrayLike
    sbibirsr_s: ArrayLike
    sbibir_s: ArrayLike
    sbib_s: ArrayLike
    sb_s: ArrayLike

    def _of_leaders(self, segments: int) -> Numbers:
        """Return eq. 4.

        sr(0) + irsr(1) + ibirsr(2) + (u - 3) sbibirsr(s) + sbibir(u - 1) + sbib(u - 1) + sb(u - 1)
        """
        times_s = [np.asarray(getattr(self, field.name)) for field in fields(self)]
        filling, emptying = sum(times_s[:3]), sum(times_s[4:])
        return np.asarray(filling + (segments - self.least_segments) * times_s[3] + emptying)
