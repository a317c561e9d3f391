"""What of a decision table may be written for coll/tuned, whichever its format."""

from __future__ import annotations

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm, Limit
from colltune.mpi.choosing import ELEMENT_BYTES, Chooser, Steps, chooses
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of

Choice = dict[tuple[Collective, int], Steps]
LayoutChoice = dict[tuple[Collective, Shape], Steps]


class TunedChooser(Chooser):
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
        super().__init__(
            OPENMPI.at(release),
            ", because only one algorithm for all message sizes is safe for this collective",
        )
        self.catalogue = catalogue_of(release)
        self.setups, self.requests = setups, requests
        self.builtin_operations_only = builtin_operations_only

    def by_size(self, table: DecisionTable) -> Choice:
        """Return the steps of ``table.rules`` that may be written, where any is not the default."""
        check_library(table)
        every = {
            (collective, comm_size): self.steps(collective, comm_size, None, intervals)
            for (collective, comm_size), intervals in sorted(
                table.rules.items(), key=lambda i: i[0]
            )
        }
        return {key: steps for key, steps in every.items() if chooses(steps)}

    def by_layout(self, table: DecisionTable) -> LayoutChoice:
        """Return the steps of ``table.by_layout``, also where all of them are the default."""
        check_library(table)
        return {
            (collective, shape): self.steps(collective, shape.nprocs, shape, intervals)
            for (collective, shape), intervals in sorted(
                table.by_layout.items(), key=lambda i: i[0]
            )
        }

    def spelled(self, configuration: Configuration) -> Configuration:
        return (self.bound if self.setups else self.bound.space).canonical(configuration)

    def refusal(self, comm_size: int, layout: Shape | None, interval: Interval) -> tuple[str, int]:
        configuration = interval.configuration
        try:
            spelled = self.spelled(configuration)
        except LibraryError as error:
            return str(error), 0
        if han_setups.is_setup(spelled):
            return self.bound.why_not(spelled, comm_size, 0), 0
        if not self.requests and "requests" in dict(spelled.parameters):
            return f"no file of {self.bound.name} can tell the limit of requests", 0
        why = self.bound.space.why_unsafe(
            configuration,
            builtin_operations_only=self.builtin_operations_only,
            nprocs=comm_size,
        )
        runs = self.bound.space.running_range(configuration, comm_size, ELEMENT_BYTES)
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
