"""What of a decision table may be written for coll/tuned: feasible, safe, and for which sizes.

Shared by all formats that coll/tuned reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from colltune.decisions import DecisionTable, Interval, Status
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm, Limit
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.tables import check_intervals, span

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
Choice = dict[tuple[Collective, int], Steps]
LayoutChoice = dict[tuple[Collective, Shape], Steps]


class Chooser:
    """Decides what of a table may be written for a release, and notes what may not.

    `builtin_operations_only` says that the program never reduces with an operation that does not
    commute; `requests`, that the file can tell limits of requests; `setups`, that it can tell
    coll/han's setups.
    """

    def __init__(
        self,
        release: str,
        *,
        builtin_operations_only: bool,
        requests: bool = True,
        setups: bool = False,
    ) -> None:
        self.release, self.catalogue = release, catalogue_of(release)
        self.setups = setups
        self.requests = requests
        self.builtin_operations_only = builtin_operations_only
        self.notes: list[str] = []

    def by_size(self, table: DecisionTable) -> Choice:
        """Return the steps of ``table.rules`` that may be written, where any is not the default."""
        check_library(table)
        chosen: Choice = {}
        for (collective, comm_size), intervals in sorted(table.rules.items(), key=lambda i: i[0]):
            where = f"{collective} on {comm_size} processes"
            steps = self._of(where, collective, comm_size, intervals)
            if any(not step.configuration.is_default for step in steps):
                chosen[collective, comm_size] = steps
        return chosen

    def by_layout(self, table: DecisionTable) -> LayoutChoice:
        """Return the steps of ``table.by_layout``, also where all of them are the default."""
        check_library(table)
        return {
            (collective, shape): self._of(
                f"{collective} on {shape} processes", collective, shape.nprocs, intervals
            )
            for (collective, shape), intervals in sorted(
                table.by_layout.items(), key=lambda i: i[0]
            )
        }

    def _of(
        self, where: str, collective: Collective, comm_size: int, intervals: Sequence[Interval]
    ) -> Steps:
        check_intervals(where, collective, intervals)
        if comm_size < 2:
            self.notes.append(f"{where}: needs no algorithm")
            return (Chosen(0, Configuration.default(LIBRARY, collective)),)
        return self._steps(where, collective, comm_size, intervals)

    def _steps(
        self, where: str, collective: Collective, comm_size: int, intervals: Sequence[Interval]
    ) -> Steps:
        steps: list[Chosen] = []
        for interval in intervals:
            steps += self._allowed(where, comm_size, interval)
        merged = _merged(steps)
        if self.catalogue.collectives[collective].one_rule and len(merged) > 1:
            self.notes.append(
                f"{where}: left to the library, because only one algorithm for all message sizes is"
                f" safe for this collective and the table has {len(merged)} ranges"
            )
            return (Chosen(0, Configuration.default(LIBRARY, collective)),)
        return merged

    def _allowed(self, where: str, comm_size: int, interval: Interval) -> list[Chosen]:
        """Return the interval's choice, after a step left to the library where that is needed."""
        default = Configuration.default(LIBRARY, interval.configuration.collective)
        left = Chosen(interval.first_bytes, default)
        if interval.configuration.is_default:
            return [replace(left, status=interval.status)]
        why, first_bytes = self._refusal(comm_size, interval)
        if why:
            self.notes.append(f"{where}, {span(interval)}: left to the library: {why}")
            return [left]
        spelled = self._spelled(interval.configuration)
        if first_bytes <= interval.first_bytes:
            return [Chosen(interval.first_bytes, spelled, interval.status)]
        self.notes.append(
            f"{where}, {span(interval)}: left to the library below {first_bytes} bytes:"
            f" {spelled.algorithm} may fall back to another algorithm there"
        )
        return [left, Chosen(first_bytes, spelled, interval.status)]

    def _spelled(self, configuration: Configuration) -> Configuration:
        bound = OPENMPI.at(self.release)
        return (bound if self.setups else bound.space).canonical(configuration)

    def _refusal(self, comm_size: int, interval: Interval) -> tuple[str, int]:
        """Return why the configuration may not be written, else from which size on it may."""
        configuration = interval.configuration
        try:
            spelled = self._spelled(configuration)
        except LibraryError as error:
            return str(error), 0
        if han_setups.is_setup(spelled):
            return OPENMPI.at(self.release).why_not(spelled, comm_size, 0), 0
        if not self.requests and "requests" in dict(spelled.parameters):
            return f"no file of {self.release} can tell the limit of requests", 0
        space = OPENMPI.at(self.release).space
        why = space.why_unsafe(
            configuration,
            builtin_operations_only=self.builtin_operations_only,
            nprocs=comm_size,
        )
        runs = space.running_range(configuration, comm_size, ELEMENT_BYTES)
        if why or runs.first_bytes is None:
            return why or runs.reason, 0
        if interval.last_bytes is not None and runs.first_bytes > interval.last_bytes:
            return runs.reason, 0
        return "", runs.first_bytes


def why_not_kept(algorithm: Algorithm, first_size: int, last_size: int | None) -> str:
    """Return why a rule may not be written for communicators of these sizes; empty if it may."""
    if algorithm.wrong:
        return f"{algorithm.name}: {algorithm.wrong}"
    if Limit.TWO_PROCESSES in algorithm.limits and (max(2, first_size), last_size) != (2, 2):
        return f"{algorithm.name} ends the program unless there are 2 processes"
    return ""


def check_library(table: DecisionTable) -> None:
    if table.library != LIBRARY:
        raise LibraryError(f"a decision table of {table.library} is no Open MPI configuration")


def _merged(steps: Sequence[Chosen]) -> Steps:
    kept: list[Chosen] = []
    for step in steps:
        if not kept or step.configuration != kept[-1].configuration:
            kept.append(step)
        elif step.status is not kept[-1].status:
            kept[-1] = replace(kept[-1], status=Status.PREDICTED)
    return tuple(kept)
