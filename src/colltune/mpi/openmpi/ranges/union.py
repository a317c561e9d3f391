"""Which numbers some ranges have taken, in files with very many of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


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
