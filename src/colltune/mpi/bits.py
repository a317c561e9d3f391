"""Which bits the reductions of each algorithm give, as they were measured.

A sum of floating-point numbers depends on the order of its terms, and the order on the algorithm.
Each file of ``catalogue/programs`` has under ``bits``, for each reduction:

``processes``, ``bytes``, ``calls``
    On which numbers of processes (on one node), up to which message size, by how many calls.
``layouts``
    On which nodes x processes per node the same calls were made again, if on any.
``algorithms``
    A table for all configurations that are alike: ``of`` names them; ``differ`` says between what
    their bits differ (see `Differ`); ``builtin`` and ``own`` say on which numbers of processes and
    for which message sizes they are those of the library's own decision, by operations of MPI and
    by those of a program (of which one commutes and one does not): ``{"2 4": "0-64 1024-4096"}``.

A range ends at sizes that were measured. All sizes within it that were measured are alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from colltune.domain import DEFAULT_ALGORITHM, Configuration

Ranges = tuple[tuple[int, int], ...]
"""First and last message size of each range, in bytes, in rising order."""


class Differ(StrEnum):
    """Between what the bits of an allreduce or another reduction differ."""

    RANKS = "ranks"
    CALLS = "calls"
    LAUNCHES = "launches"
    PLACES = "places"
    SIZES = "sizes"
    LAYOUTS = "layouts"
    """Those of processes on one node, and on several."""


@dataclass(frozen=True)
class BitFacts:
    """What the bits are that a configuration gives.

    ``builtin`` and ``own`` are the ranges of message sizes in which they are those of the library's
    own decision, by number of processes on one node. ``anywhere`` tells that neither these bits nor
    the library's own depend on how processes lie on nodes.
    """

    differ: frozenset[Differ] = frozenset()
    builtin: Mapping[int, Ranges] = field(default_factory=dict)
    own: Mapping[int, Ranges] = field(default_factory=dict)
    anywhere: bool = False

    @property
    def steady(self) -> bool:
        """Whether all ranks, calls and launches gave the same."""
        return not self.differ & {Differ.RANKS, Differ.CALLS, Differ.LAUNCHES}

    def as_default(self, nprocs: int, *, own: bool) -> Ranges:
        """Return where they are the default's; `own`: for operations of programs, too."""
        if not self.steady:
            return ()
        found = self.builtin.get(nprocs, ())
        return common(found, self.own.get(nprocs, ())) if own else found


def common(one: Ranges, other: Ranges) -> Ranges:
    """Return what both have."""
    found = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((first, last) for first, last in found if first <= last)


@dataclass(frozen=True)
class MeasuredBits:
    """What was measured of one reduction; ``rows`` are those of the file."""

    processes: tuple[int, ...]
    bytes: int
    calls: int
    rows: tuple[Mapping[str, object], ...]
    layouts: tuple[str, ...] = ()

    @cached_property
    def facts(self) -> dict[str, BitFacts]:
        """What is known of each configuration, by `name_of`."""
        every = {name: _facts(row) for name, row in self._row_of.items()}
        alike = {name for name, found in every.items() if Differ.LAYOUTS not in found.differ}
        if not self.layouts or DEFAULT_ALGORITHM not in alike:
            return every
        return {name: replace(found, anywhere=name in alike) for name, found in every.items()}

    @cached_property
    def _row_of(self) -> dict[str, Mapping[str, object]]:
        return {name: row for row in self.rows for name in map(str, _list(row["of"]))}

    def ranks_agree(self, name: str) -> bool | None:
        """Tell whether ranks held the same by a configuration; None: it was not measured.

        Every decision asks this, and so it reads no more of a row than that.
        """
        row = self._row_of.get(name)
        return None if row is None else Differ.RANKS not in _list(row["differ"])

    @classmethod
    def of(
        cls,
        processes: Iterable[int],
        n_bytes: int,
        calls: int,
        facts: Mapping[str, BitFacts],
        layouts: Iterable[str] = (),
    ) -> MeasuredBits:
        """Return what `facts` of configurations tell, with one row for those that are alike."""
        alike: dict[str, list[str]] = {}
        for name, found in facts.items():
            told = {
                "differ": sorted(found.differ),
                "builtin": _processes(found.builtin),
                "own": _processes(found.own),
            }
            alike.setdefault(json.dumps(told), []).append(name)
        rows = ({"of": names, **json.loads(told)} for told, names in alike.items())
        return cls(tuple(processes), n_bytes, calls, tuple(rows), tuple(layouts))

    def joined(self, other: MeasuredBits) -> MeasuredBits:
        """Return this with what was measured later, on these and other numbers of processes."""
        if {*self.processes} <= {*other.processes} and len(self.layouts) <= len(other.layouts):
            return other
        on_nodes = {name for part in (self, other) if part.layouts for name in part.facts}
        facts = {}
        for name in {**self.facts, **other.facts}:
            before, found = (part.facts.get(name, BitFacts()) for part in (self, other))
            gone = other.processes if name in other.facts else ()
            builtin, own = (
                {n: ranges for n, ranges in old.items() if n not in gone} | dict(new)
                for old, new in ((before.builtin, found.builtin), (before.own, found.own))
            )
            # what was not tried on several nodes is not known there
            untried = {Differ.LAYOUTS} if on_nodes and name not in on_nodes else set[Differ]()
            facts[name] = BitFacts(before.differ | found.differ | untried, builtin, own)
        return MeasuredBits.of(
            sorted({*self.processes, *other.processes}),
            min(self.bytes, other.bytes),
            self.calls + other.calls,
            facts,
            dict.fromkeys((*self.layouts, *other.layouts)),
        )

    @classmethod
    def parse(cls, table: Mapping[str, object]) -> MeasuredBits:
        """Return what a file's table says; wrong types and missing keys are not excused."""
        rows = _list(table["algorithms"])
        processes = tuple(int(str(each)) for each in _list(table["processes"]))
        n_bytes, calls = int(str(table["bytes"])), int(str(table["calls"]))
        layouts = tuple(str(each) for each in _list(table.get("layouts", [])))
        return cls(processes, n_bytes, calls, tuple(dict(_table(row)) for row in rows), layouts)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file's table."""
        yield f'"processes": {json.dumps(self.processes)}, "bytes": {self.bytes},'
        if self.layouts:
            yield f'"layouts": {json.dumps(self.layouts)},'
        yield f'"calls": {self.calls}, "algorithms": ['
        for number, row in enumerate(self.rows, 1):
            yield f" {json.dumps(row)}{',' * (number < len(self.rows))}"
        yield "]"


def name_of(configuration: Configuration) -> str:
    """Return an algorithm with its parameters, as the files name it."""
    words = (configuration.algorithm, configuration.parameter_text)
    return ":".join(word for word in words if word)


def _facts(row: Mapping[str, object]) -> BitFacts:
    differ = frozenset(Differ(str(word)) for word in _list(row["differ"]))
    return BitFacts(differ, _by_processes(row["builtin"]), _by_processes(row["own"]))


def _by_processes(told: object) -> dict[int, Ranges]:
    found: dict[int, Ranges] = {}
    for processes, text in _table(told).items():
        pairs = (word.split("-") for word in str(text).split())
        ranges = tuple((int(first), int(last)) for first, last in pairs)
        found |= dict.fromkeys(map(int, processes.split()), ranges)
    return found


def _processes(ranges: Mapping[int, Ranges]) -> dict[str, str]:
    alike: dict[str, list[str]] = {}
    for nprocs, found in sorted(ranges.items()):
        if found:
            text = " ".join(f"{first}-{last}" for first, last in found)
            alike.setdefault(text, []).append(str(nprocs))
    return {" ".join(processes): text for text, processes in alike.items()}


def _list(found: object) -> list[object]:
    if not isinstance(found, list):
        raise TypeError(f"{found!r} is not a list")
    return found


def _table(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise TypeError(f"{found!r} is not a table")
    return found
