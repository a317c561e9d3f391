"""A decision table made ready for look-ups by programs that ask at every call of a collective."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape


class _Row(NamedTuple):
    """Intervals as two tuples: where each begins, in bytes, and what is chosen there."""

    first_bytes: tuple[int, ...]
    chosen: tuple[Configuration, ...]


class CompiledTable:
    """Answers which configuration a decision table chooses, in about a microsecond."""

    def __init__(self, table: DecisionTable) -> None:
        self._by_size = {key: _row(found) for key, found in table.rules.items()}
        self._by_layout = {key: _row(found) for key, found in table.by_layout.items()}
        self._defaults = {c: Configuration.default(table.library, c) for c in Collective}

    def decide(
        self,
        collective: Collective,
        comm_size: int,
        msize_bytes: int,
        layout: Shape | None = None,
    ) -> Configuration:
        """Return the configuration for a call on a `layout`, if known; else the default."""
        row = None
        if layout is not None and self._by_layout:
            row = self._by_layout.get((collective, layout))
        if row is None:
            row = self._by_size.get((collective, comm_size))
            if row is None:
                return self._defaults[collective]
        return row.chosen[bisect_right(row.first_bytes, msize_bytes) - 1]


def _row(intervals: tuple[Interval, ...]) -> _Row:
    return _Row(tuple(i.first_bytes for i in intervals), tuple(i.configuration for i in intervals))
