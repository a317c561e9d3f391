"""What an application spends in collectives, as libcolltune has recorded it.

A process that calls a collective makes one of its calls; all of them together are one operation.
Seconds are summed over processes (``process_s``), waiting for the others included: divided by what
the processes' whole runs took, they are the share of the application's time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from colltune.domain import Collective, Shape
from colltune.errors import DataError


@dataclass(frozen=True)
class Job:
    """One run of the application.

    ``shape`` is that of MPI_COMM_WORLD, None if nodes hold different numbers of its ``nprocs``
    processes. ``rate``: one in so many calls was timed. ``wall_s`` are seconds from MPI_Init to
    MPI_Finalize; ``collectives_s`` those of a process in collectives, in the mean, the least and
    the most. ``lost_calls`` found no room in the record. ``library``, ``release``, ``program``,
    ``job`` (of the batch system, else ``-``), ``host`` (of rank 0) and ``started`` (UTC, ISO) say
    which run it was.
    """

    library: str
    release: str
    program: str
    job: str
    host: str
    started: str
    nprocs: int
    shape: Shape | None
    rate: int
    wall_s: float
    collectives_s: tuple[float, float, float]
    lost_calls: int = 0

    @property
    def process_s(self) -> float:
        return self.wall_s * self.nprocs


class Kind(NamedTuple):
    """A collective on communicators of ``nprocs`` processes, with messages of one bin.

    ``shape`` tells how the processes lie, None if that is not known or differs among their nodes;
    the bin holds the sizes from ``first_bytes`` (0 alone, else a power of two) to ``last_bytes``.
    """

    collective: Collective
    nprocs: int
    shape: Shape | None
    first_bytes: int

    @property
    def last_bytes(self) -> int:
        """The largest message size of the bin."""
        return max(0, 2 * self.first_bytes - 1)


@dataclass(frozen=True)
class Use:
    """The calls of one kind.

    ``process_calls`` are summed over processes, ``bytes`` over their calls; ``least_bytes`` and
    ``most_bytes`` are the smallest and largest message. Of the ``timed`` calls ``timed_s`` is the
    sum, ``least_s`` the shortest, ``most_s`` the longest and ``squares_s2`` the sum of squares;
    ``process_s`` is the estimate for all. ``ran`` are calls by the id of the configuration that ran
    them, empty for the MPI library's own decision.
    """

    kind: Kind
    process_calls: int
    bytes: int
    least_bytes: int
    most_bytes: int
    timed: int
    timed_s: float
    least_s: float
    most_s: float
    squares_s2: float
    process_s: float
    ran: Mapping[str, int] = field(default_factory=dict)

    @property
    def operations(self) -> float:
        """How many collective operations the calls make."""
        return self.process_calls / self.kind.nprocs

    @property
    def msize_bytes(self) -> int:
        return round(self.bytes / self.process_calls)

    @property
    def call_s(self) -> float:
        return self.process_s / self.process_calls

    @property
    def deviation_s(self) -> float | None:
        """The standard deviation of a call's seconds; None for fewer than two timed ones."""
        if self.timed < 2:
            return None
        mean = self.timed_s / self.timed
        return math.sqrt(max(0.0, self.squares_s2 / self.timed - mean**2))

    @property
    def default_share(self) -> float:
        """The share of calls that the MPI library decided itself."""
        return self.ran.get("", 0) / self.process_calls

    def __add__(self, other: Use) -> Use:
        timed = [use for use in (self, other) if use.timed]
        return Use(
            self.kind,
            self.process_calls + other.process_calls,
            self.bytes + other.bytes,
            min(self.least_bytes, other.least_bytes),
            max(self.most_bytes, other.most_bytes),
            self.timed + other.timed,
            self.timed_s + other.timed_s,
            min((use.least_s for use in timed), default=0.0),
            max((use.most_s for use in timed), default=0.0),
            self.squares_s2 + other.squares_s2,
            self.process_s + other.process_s,
            _added(self.ran, other.ran),
        )


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


@dataclass(frozen=True)
class Profile:
    """Runs of an application, and what they spent: one `Use` per kind, the longest first."""

    jobs: tuple[Job, ...]
    uses: tuple[Use, ...]

    @property
    def process_s(self) -> float:
        return math.fsum(job.process_s for job in self.jobs)

    @property
    def collectives_s(self) -> float:
        return math.fsum(use.process_s for use in self.uses)

    @property
    def library(self) -> str:
        return self.jobs[0].library

    @property
    def release(self) -> str:
        return self.jobs[0].release

    @property
    def programs(self) -> tuple[str, ...]:
        return tuple(sorted({job.program for job in self.jobs}))

    @property
    def collectives(self) -> tuple[Collective, ...]:
        return tuple(sorted({use.kind.collective for use in self.uses}))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that it says, in hexadecimal digits."""
        text = repr((sorted(map(repr, self.jobs)), sorted(map(repr, self.uses))))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def added_up(jobs: Iterable[Job], uses: Iterable[Use]) -> Profile:
    jobs = tuple(sorted(jobs, key=lambda job: (job.started, job.job, job.host)))
    libraries = sorted({f"{job.library} {job.release}" for job in jobs})
    if not jobs:
        raise DataError("no profile; run the application with COLLTUNE_PROFILE first")
    if len(libraries) > 1:
        raise DataError(
            f"profiles of different MPI libraries do not add up: {', '.join(libraries)};"
            " give those of one release"
        )
    found: dict[Kind, Use] = {}
    for use in uses:
        found[use.kind] = found[use.kind] + use if use.kind in found else use
    return Profile(jobs, tuple(sorted(found.values(), key=_order)))


def _order(use: Use) -> tuple[float, Collective, int, str, int]:
    kind = use.kind
    return (-use.process_s, kind.collective, kind.nprocs, str(kind.shape), kind.first_bytes)
