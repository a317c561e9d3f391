"""What of a decision table may be written for a release, and for which sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from colltune.decisions import DecisionTable, Interval, Status
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.release import Release
from colltune.mpi.running import Promises
from colltune.text import counted

ELEMENT_BYTES = 8
"""Largest element for which a written algorithm is sure to run as itself: a double."""


@dataclass(frozen=True)
class Chosen:
    """A canonical configuration from a message size on, in our ``msize_bytes``.

    ``status`` is told where it holds for all messages up to the next step.
    """

    first_bytes: int
    configuration: Configuration
    status: Status = Status.PREDICTED


Steps = tuple[Chosen, ...]
BySize = dict[tuple[Collective, int], Steps]
ByLayout = dict[tuple[Collective, Shape], Steps]


def chooses(steps: Steps) -> bool:
    """Tell whether anything but the library's own decision is among the steps."""
    return any(not step.configuration.is_default for step in steps)


class Chooser:
    """Decides what of a table may be written, and notes what may not.

    ``written`` are the configurations that may, in the order in which they were met.
    `why_one_rule` tells why some collectives have one rule for all message sizes at most;
    `promises` what holds wherever the file is read.
    """

    def __init__(self, bound: Release, why_one_rule: str, promises: Promises) -> None:
        self.bound, self.why_one_rule, self.promises = bound, why_one_rule, promises
        self.catalogue = bound.catalogue
        self.notes: list[str] = []
        self.written: dict[Configuration, None] = {}

    def by_size(self, table: DecisionTable) -> BySize:
        """Return the steps of ``table.rules`` that may be written, where any is not the default."""
        check_library(table, self.bound)
        rules = sorted(table.rules.items(), key=lambda item: item[0])
        found = {(c, size): self.steps(c, size, None, intervals) for (c, size), intervals in rules}
        return {key: steps for key, steps in found.items() if chooses(steps)}

    def by_layout(self, table: DecisionTable) -> ByLayout:
        """Return the steps of ``table.by_layout``, also where all of them are the default."""
        rules = sorted(table.by_layout.items(), key=lambda item: item[0])
        return {(c, at): self.steps(c, at.nprocs, at, intervals) for (c, at), intervals in rules}

    def spelled(self, configuration: Configuration) -> Configuration:
        return self.bound.canonical(configuration)

    def refusal(self, comm_size: int, layout: Shape | None, interval: Interval) -> tuple[str, int]:
        """Return why the configuration may not be written, else from which size on it may."""
        runs = self.bound.runs(interval.configuration, layout or comm_size, self.promises)
        return runs.why_not(interval.last_bytes), runs.first_bytes or 0

    def steps(
        self,
        collective: Collective,
        comm_size: int,
        layout: Shape | None,
        intervals: Sequence[Interval],
    ) -> Steps:
        """Return what may be written of the intervals for one size of communicators."""
        where = f"{collective} on {layout or comm_size} processes"
        nothing = (Chosen(0, self._default(collective)),)
        check_intervals(where, collective, intervals)
        if comm_size < 2:
            self.notes.append(f"{where}: needs no algorithm")
            return nothing
        steps: list[Chosen] = []
        for interval in intervals:
            for step in self._of(where, comm_size, layout, interval):
                if not steps or step.configuration != steps[-1].configuration:
                    steps.append(step)
                elif step.status is not steps[-1].status:
                    steps[-1] = replace(steps[-1], status=Status.PREDICTED)
        if collective in self.bound.one_rule and len(steps) > 1:
            self.notes.append(
                f"{where}: left to the library{self.why_one_rule}, but the table has "
                f"{counted(len(steps), 'range')}"
            )
            return nothing
        return tuple(steps)

    def _of(
        self, where: str, comm_size: int, layout: Shape | None, interval: Interval
    ) -> list[Chosen]:
        """Return the interval's choice, after a step left to the library where that is needed."""
        left = Chosen(interval.first_bytes, self._default(interval.configuration.collective))
        if interval.configuration.is_default:
            return [replace(left, status=interval.status)]
        why, first_bytes = self.refusal(comm_size, layout, interval)
        if why:
            self.notes.append(f"{where}, {span(interval)}: left to the library: {why}")
            return [left]
        spelled = self.spelled(interval.configuration)
        self.written[spelled] = None
        if first_bytes <= interval.first_bytes:
            return [Chosen(interval.first_bytes, spelled, interval.status)]
        self.notes.append(
            f"{where}, {span(interval)}: left to the library below "
            f"{counted(first_bytes, 'byte')}, because {spelled.algorithm} may fall back to "
            "another algorithm there"
        )
        return [left, Chosen(first_bytes, spelled, interval.status)]

    def _default(self, collective: Collective) -> Configuration:
        return Configuration.default(self.bound.space.library, collective)


def check_library(table: DecisionTable, bound: Release) -> None:
    if table.library != bound.mpi.name:
        raise LibraryError(f"a decision table of {table.library} does not fit {bound.mpi.title}")


def check_intervals(where: str, collective: Collective, intervals: Sequence[Interval]) -> None:
    """Refuse intervals with a gap or of another collective; `where` begins the message."""
    expected: int | None = 0
    for interval in intervals:
        if interval.first_bytes != expected or interval.configuration.collective != collective:
            break
        expected = None if interval.last_bytes is None else interval.last_bytes + 1
        if expected is not None and expected <= interval.first_bytes:
            break
    else:
        if intervals and expected is None:
            return
    raise LibraryError(
        f"{where}: the intervals of the decision table must be for this collective, start at "
        "0 bytes, be contiguous, and end without limit"
    )


def span(interval: Interval) -> str:
    """Return the message sizes of an interval for people."""
    end = "on" if interval.last_bytes is None else f"to {interval.last_bytes} bytes"
    return f"from {interval.first_bytes} {end}"


@lru_cache(maxsize=256)
def even_layouts(comm_size: int, job: Shape) -> tuple[Shape, ...]:
    """Return all ways in which processes can lie evenly on a job, fewest nodes first."""
    return tuple(
        Shape(nodes, comm_size // nodes)
        for nodes in sorted(_divisors(comm_size))
        if nodes <= job.nodes and comm_size // nodes <= job.ppn
    )


def _divisors(number: int) -> list[int]:
    """Return the divisors, out of the prime factors, which are found soon for real jobs."""
    found, rest, factor = [1], number, 2
    while rest > 1:
        if factor * factor > rest:
            factor = rest
        power, grown = 1, list(found)
        while rest % factor == 0:
            rest //= factor
            power *= factor
            grown += [divisor * power for divisor in found]
        found = grown
        factor += 1
    return found
