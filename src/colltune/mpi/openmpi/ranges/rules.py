"""What Open MPI 6 makes of the objects of a JSON rules file (``coll_tuned_dynamic_rules.h``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from colltune.domain import Collective
from colltune.mpi.file_format import Rule
from colltune.mpi.openmpi.running import Numbers

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


@runtime_checkable
class RangedFile(Protocol):
    """A file with rules for coll/tuned, of either format, that can tell them as ranges."""

    @property
    def ranges(self) -> Mapping[Collective, tuple[CommunicatorRange, ...]]:
        """The rules in effect; of several that take a call the first one counts."""
        ...
