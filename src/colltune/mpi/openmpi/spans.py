"""Which of several entries holds where, and which numbers are taken: ranges of integers."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate


@dataclass(frozen=True)
class Spans:
    """Consecutive ranges: from each of ``starts`` on, up to the next one, one entry holds.

    ``owners`` are the entries' positions, None where no entry holds.
    """

    starts: tuple[int, ...]
    owners: tuple[int | None, ...]

    def at(self, value: int) -> int | None:
        """Return which entry holds at `value`."""
        found = bisect_right(self.starts, value) - 1
        return self.owners[found] if found >= 0 else None

    def of(self, position: int) -> list[tuple[int, int | None]]:
        """Return the first and last value (None: no end) of all ranges where an entry holds."""
        return self._by_owner.get(position, [])

    @cached_property
    def _by_owner(self) -> dict[int | None, list[tuple[int, int | None]]]:
        found: dict[int | None, list[tuple[int, int | None]]] = {}
        for first, last, owner in self.pieces():
            found.setdefault(owner, []).append((first, last))
        return found

    def pieces(self) -> Iterator[tuple[int, int | None, int | None]]:
        """Yield the first and last value (None: no end) of every range, and which entry holds."""
        ends = [*(start - 1 for start in self.starts[1:]), None]
        if self.starts:
            yield from zip(self.starts, ends, self.owners, strict=True)

    @property
    def living(self) -> frozenset[int]:
        """The entries that hold anywhere."""
        return frozenset(owner for owner in self.owners if owner is not None)


def scanned(sizes: Sequence[int], *, inherit: bool) -> Spans:
    """Return what holds if entries are scanned in order until one is larger than the value.

    The last one before that counts; of values below all entries it is the first one with `inherit`.
    """
    starts: list[int] = []
    owners: list[int | None] = []
    for position, start in enumerate(accumulate(sizes, max)):
        if starts and starts[-1] == start:
            owners[-1] = position
        else:
            starts.append(start)
            owners.append(position)
    if inherit and starts and starts[0] > 0:
        if owners[0] == 0:
            starts[0] = 0
        else:
            # larger than the value, the first one ends the search: those that follow do not count
            starts.insert(0, 0)
            owners.insert(0, 0)
    return Spans(tuple(starts), tuple(owners))


def ranged(ranges: Sequence[tuple[int, int | None]]) -> Spans:
    """Return what holds if the first of several ranges counts in which a value lies.

    Each has its first and last value, None for no end; a last one below the first makes it empty.
    """
    opening = sorted((first, at) for at, (first, last) in enumerate(ranges) if _holds(first, last))
    edges = {first for first, _ in opening}
    edges |= {ranges[at][1] + 1 for _, at in opening if ranges[at][1] is not None}  # type: ignore[operator]
    starts: list[int] = []
    owners: list[int | None] = []
    waiting: list[int] = []
    opened = 0
    for edge in sorted(edges):
        while opened < len(opening) and opening[opened][0] <= edge:
            heapq.heappush(waiting, opening[opened][1])
            opened += 1
        while waiting and _over(ranges[waiting[0]][1], edge):
            heapq.heappop(waiting)
        owner = waiting[0] if waiting else None
        if not owners or owners[-1] != owner:
            starts.append(edge)
            owners.append(owner)
    return Spans(tuple(starts), tuple(owners))


def _holds(first: int, last: int | None) -> bool:
    return last is None or first <= last


def _over(last: int | None, edge: int) -> bool:
    return last is not None and last < edge


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
