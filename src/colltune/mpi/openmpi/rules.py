"""What files with rules for coll/tuned and coll/han hold, and what they tell `setup` about a call.

Ranges are as Open MPI 6 takes them (``coll_tuned_dynamic_rules.h``); classic files and forced
algorithms can be told so, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

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
    def source(self) -> str: ...

    @property
    def dropped(self) -> str: ...

    def match(self, call: Call) -> TunedMatch | None:
        """Return the rule that the release looks at for `call`; None if there is none.

        There is none in a file that is dropped.

        `counted_bytes` is the size to be compared with a rule's thresholds.
        """
        ...


class HanLevel(StrEnum):
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
    def source(self) -> str: ...

    @property
    def dropped(self) -> str: ...

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


LARGEST_SIZE = 2**63 - 1
"""What the library takes for no end of message sizes."""
LARGEST_COMM_SIZE = 2**31 - 1


class Distribution(StrEnum):
    """How the processes of a communicator lie on nodes."""

    ANY = "any"
    ONE_PER_NODE = "one-per-node"
    SINGLE_NODE = "single-node"


@dataclass(frozen=True)
class SizeRule:
    """One algorithm for a range of compared sizes, both ends included.

    ``keys`` are the lines of the values that stand beside the algorithm, by key. A rule of an
    algorithm that the release does not have takes no size at all.
    """

    rule: Rule
    first: int
    last: int
    numbers: Numbers
    keys: dict[str, int]
    known: bool = True

    def takes(self, compared: int) -> bool:
        """Tell whether the rule is for a call whose compared size is `compared`."""
        # whatever is larger than what stands for no end is no message
        return self.known and self.first <= min(compared, LARGEST_SIZE) <= self.last


@dataclass(frozen=True)
class CommunicatorRange:
    """The rules for a range of communicator sizes, both ends included."""

    collective: Collective
    line: int
    first_size: int
    last_size: int
    distribution: Distribution
    rules: tuple[SizeRule, ...]

    def takes(self, comm_size: int, nodes: int, *, is_world: bool) -> bool:
        """Tell whether it is for such a communicator.

        The library notes only of communicators that it derives from others whether every process
        has a node of its own, not of MPI_COMM_WORLD; and it notes it only if that is true of all
        communicators that the same call makes, which is taken for granted here (``comm_cid.c``).
        """
        if self.distribution is Distribution.ONE_PER_NODE and (is_world or nodes != comm_size):
            return False
        if self.distribution is Distribution.SINGLE_NODE and nodes != 1:
            return False
        return self.first_size <= comm_size <= self.last_size


Ranges = Mapping[Collective, tuple[CommunicatorRange, ...]]


@runtime_checkable
class RangedFile(Protocol):
    """A file with rules for coll/tuned, of either format, that can tell them as ranges."""

    @property
    def ranges(self) -> Ranges:
        """The rules in effect; of several that take a call the first one counts."""
        ...
