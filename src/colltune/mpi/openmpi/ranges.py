"""Rules for coll/tuned as ranges of communicators and message sizes, whatever the format.

Ranges are as Open MPI 6 takes them (``coll_tuned_dynamic_rules.h``).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from colltune.domain import Collective
from colltune.mpi.file_format import Rule
from colltune.mpi.openmpi.decide.tuned import Numbers

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

    ``keys`` are the lines of the values that stand beside the algorithm, by key. ``ignored`` rules
    take no size at all.
    """

    rule: Rule
    first: int
    last: int
    numbers: Numbers
    keys: Mapping[str, int] = field(default_factory=dict)
    ignored: bool = False

    def takes(self, compared: int) -> bool:
        """Tell whether the rule is for a call whose compared size is `compared`."""
        # whatever is larger than what stands for no end is no message
        return not self.ignored and self.first <= min(compared, LARGEST_SIZE) <= self.last


@dataclass(frozen=True)
class CommunicatorRange:
    """The rules for a range of communicator sizes, both ends included.

    ``named_size`` is the one size by which a classic file names it.
    """

    collective: Collective
    line: int
    first_size: int
    last_size: int
    distribution: Distribution
    rules: tuple[SizeRule, ...]
    named_size: int = 0

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


# ---- which of several entries holds where ----


class Piece(NamedTuple):
    """From ``first`` to ``last`` (None: no end) the entry at position ``owner`` holds, or none."""

    first: int
    last: int | None
    owner: int | None


def scanned(sizes: Sequence[int], *, inherit: bool) -> list[Piece]:
    """Return what holds if entries are scanned in order until one is larger than the value.

    The last one before that counts; of values below all entries it is the first one with `inherit`.
    """
    owners = {start: position for position, start in enumerate(accumulate(sizes, max))}
    first = next(iter(owners), 0)
    if inherit and first > 0:
        # larger than the value, the first one ends the search: those that follow do not count
        if owners[first] == 0:
            del owners[first]
        owners = {0: 0} | owners
    return _pieces(list(owners), list(owners.values()))


def ranged(ranges: Sequence[tuple[int, int | None]]) -> list[Piece]:
    """Return what holds if the first of several ranges counts in which a value lies.

    Each has its first and last value, None for no end; a last one below the first makes it empty.
    """
    opening = sorted(
        (first, at) for at, (first, last) in enumerate(ranges) if last is None or first <= last
    )
    ends = [last for _, at in opening if (last := ranges[at][1]) is not None]
    starts: list[int] = []
    owners: list[int | None] = []
    waiting: list[int] = []
    opened = 0
    for edge in sorted({*(first for first, _ in opening), *(last + 1 for last in ends)}):
        while opened < len(opening) and opening[opened][0] <= edge:
            heapq.heappush(waiting, opening[opened][1])
            opened += 1
        while waiting and (last := ranges[waiting[0]][1]) is not None and last < edge:
            heapq.heappop(waiting)
        owner = waiting[0] if waiting else None
        if not owners or owners[-1] != owner:
            starts.append(edge)
            owners.append(owner)
    return _pieces(starts, owners)


def _pieces(starts: Sequence[int], owners: Sequence[int | None]) -> list[Piece]:
    lasts = [*(start - 1 for start in starts[1:]), None]
    return list(map(Piece, starts, lasts, owners))


def by_owner(pieces: Sequence[Piece]) -> dict[int | None, list[Piece]]:
    found: dict[int | None, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(piece.owner, []).append(piece)
    return found


class Union:
    """A union of ranges of integers, both ends included, as ascending ranges with gaps between."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Take a range; one that ends before it begins is empty."""
        if first > last:
            return
        at = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if at < end:
            first = min(first, self._firsts[at])
            last = max(last, self._lasts[end - 1])
        self._firsts[at:end] = [first]
        self._lasts[at:end] = [last]

    def covers(self, first: int, last: int) -> bool:
        """Tell whether all numbers from `first` to `last` are taken."""
        at = bisect_right(self._firsts, first) - 1
        return first > last or (at >= 0 and last <= self._lasts[at])

    def meets(self, first: int, last: int) -> bool:
        """Tell whether any number from `first` to `last` is taken."""
        at = bisect_right(self._firsts, last) - 1
        return first <= last and at >= 0 and first <= self._lasts[at]


def union_of(rules: Sequence[SizeRule]) -> Union:
    taken = Union()
    for rule in rules:
        taken.add(rule.first, rule.last)
    return taken
