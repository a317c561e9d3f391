"""What the parsed files of coll/tuned and coll/han tell `setup` about a call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from colltune.domain import Collective
from colltune.mpi.catalogue import CollectiveEntry, SizeUnit
from colltune.mpi.file_format import Call, Rule
from colltune.mpi.openmpi.running import Numbers

IN_PLACE_FORGOTTEN = (Collective.ALLGATHER, Collective.ALLGATHERV, Collective.ALLTOALL)
_NO_SIZE = (Collective.ALLTOALLV, Collective.BARRIER)


@dataclass(frozen=True)
class TunedMatch:
    """The rule of a file for coll/tuned that a call meets: what it says, and why it is that one.

    ``numbers.requests`` is None where the rule does not tell. ``reason`` is one sentence. A rule
    that leaves the decision to the library has algorithm 0.
    """

    rule: Rule
    numbers: Numbers
    reason: str


class TunedRules(Protocol):
    """A parsed rules file of coll/tuned, classic or JSON."""

    @property
    def source(self) -> str:
        """Name of the file in messages."""
        ...

    @property
    def dropped(self) -> str:
        """Why the release ignores the file as a whole; empty if it reads it."""
        ...

    def match(self, call: Call) -> TunedMatch | None:
        """Return the rule that the release looks at for `call`; None if there is none.

        There is none in a file that is dropped.

        `counted_bytes` is the size to be compared with a rule's thresholds.
        """
        ...


class HanLevel(StrEnum):
    """The levels of coll/han's rules."""

    INTRA_NODE = "intra_node"
    INTER_NODE = "inter_node"
    GLOBAL_COMMUNICATOR = "global_communicator"


@dataclass(frozen=True)
class HanMatch:
    """The rule of a file for coll/han that a call meets.

    ``component`` is a name (``tuned``); ``algorithm`` what stands after ``@`` (``simple``), empty
    where nothing does; ``reason`` is one sentence.
    """

    rule: Rule
    component: str
    algorithm: str
    reason: str


class HanRules(Protocol):
    """A parsed rules file of coll/han."""

    @property
    def source(self) -> str:
        """Name of the file in messages."""
        ...

    @property
    def dropped(self) -> str:
        """Why the release ignores the file as a whole; empty if it reads it."""
        ...

    def match(
        self, collective: Collective, level: HanLevel, comm_size: int, msize_bytes: int
    ) -> HanMatch | None:
        """Return the rule for a call on a communicator of that level; None if there is none.

        `msize_bytes` is the size as coll/han counts it, which is ours, and 0 for barrier.
        """
        ...


def counted_bytes(entry: CollectiveEntry, call: Call) -> int:
    """Return the size that coll/tuned compares with a rule's thresholds.

    Of in-place calls of allgather, allgatherv and alltoall it is taken from the send arguments,
    which MPI ignores (`Call.ignored_send_bytes`), and so is 0 where those are empty; alltoallv and
    barrier always count 0; scan and exscan the size of the type times the processes, whatever the
    count.
    """
    if call.collective in _NO_SIZE:
        return 0
    if entry.size is SizeUnit.CONSTANT:
        return call.comm_size * call.element_bytes
    size = call.msize_bytes
    if call.in_place and call.collective in IN_PLACE_FORGOTTEN:
        size = call.ignored_send_bytes or 0
    return call.comm_size * size if entry.size is SizeUnit.MSIZE_TIMES_NPROCS else size
