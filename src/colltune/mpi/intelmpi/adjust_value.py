"""The value of an I_MPI_ADJUST_<COLLECTIVE> variable as the library reads it.

``3:0-1024;4:1025-65536``: presets, each with conditions ``l``, ``l-m``, ``l@p`` or ``l-m@p-q``.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Call, Outcome, Rule
from colltune.mpi.intelmpi.grid import Leaf, as_word, shown
from colltune.mpi.intelmpi.library import BUILT_IN, BUILT_IN_LOGIC, INTEL_MPI, variable
from colltune.mpi.intelmpi.releases import LIBRARY

_LEADING = re.compile(r"\s*([+-]?[0-9]+)")
_RANGE = re.compile(r"\s*([+-]?[0-9]+)(?P<rest>[^-]*)(?:-(?P<end>.*))?", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """One condition: up to which message size and number of processes; None is no end.

    ``counts_processes`` tells that it has an ``@``.
    """

    text: str
    first: int
    last: int | None
    last_process: int | None
    counts_processes: bool


@dataclass(frozen=True)
class Entry:
    """A preset and its conditions; ``number`` is what the library reads."""

    text: str
    number: int
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Order:
    """Ends that are above all before them, their entries, and the entry that goes on after them."""

    ends: tuple[int, ...]
    entries: tuple[Entry, ...]
    last: Entry

    @classmethod
    def of(cls, pairs: Iterable[tuple[int | None, Entry]]) -> Order:
        """Return the order of entries by their ends (None: no end) as they are tried."""
        found: dict[int, Entry] = {}
        tried: dict[int | None, Entry] = {}
        for end, entry in pairs:
            if end is not None or None not in tried:
                tried[end] = entry
        highest = -1
        for end, entry in tried.items():
            if end is None:
                return cls(tuple(found), tuple(found.values()), entry)
            if end > highest:
                found[end] = entry
                highest = end
        return cls(tuple(found), tuple(found.values()), list(tried.values())[-1])

    def first_from(self, actual: int) -> Entry:
        """Return the first entry that ends at `actual` or above, else the one that goes on."""
        at = bisect_left(self.ends, actual)
        return self.entries[at] if at < len(self.entries) else self.last


@dataclass(frozen=True)
class Value:
    """A value; ``rejected`` says why the library ignores it as a whole, after a message."""

    text: str
    collective: Collective
    release: str
    entries: tuple[Entry, ...]
    rejected: str = ""

    @cached_property
    def counts_processes(self) -> bool:
        """Whether any condition is on the number of processes, so that sizes get lost."""
        return any(c.counts_processes for entry in self.entries for c in entry.conditions)

    @property
    def read(self) -> tuple[Entry, ...]:
        """The entries up to the first without conditions, after which the library reads no more."""
        ends = (at for at, entry in enumerate(self.entries, 1) if not entry.conditions)
        return self.entries[: next(ends, None)]

    @cached_property
    def order(self) -> Order:
        """The entries as they are tried: of equal ends the first place, and the last entry.

        Nothing takes the place of an entry without an end.
        """
        pairs = [(c, e) for e in self.entries for c in e.conditions or _ALWAYS]
        if self.counts_processes:
            return Order.of((c.last_process, e) for c, e in pairs)
        return Order.of((c.last, e) for c, e in pairs)


def parse(text: str, collective: Collective, release: str) -> Value:
    """Return what the library reads out of `text`."""
    parts = text.split(";")
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    if not text.strip():
        return Value(text, collective, release, (Entry(text, BUILT_IN, ()),))
    entries: list[Entry] = []
    for part in parts:
        entry = _entry(part)
        if isinstance(entry, str) and all(before.conditions for before in entries):
            return Value(text, collective, release, (), entry)
        unread = Entry(part.strip(), BUILT_IN, ())
        entries.append(unread if isinstance(entry, str) else entry)
    return Value(text, collective, release, tuple(entries))


def _entry(text: str) -> Entry | str:
    """Return an entry, or why the library rejects it."""
    number, colon, conditions = text.partition(":")
    preset = _integer(number)
    if preset is None or preset < 0:
        return f"{shown(text)} does not begin with the number of a preset"
    found = []
    for condition in conditions.split(",") if colon and conditions.strip() else ():
        read = _condition(condition)
        if isinstance(read, str):
            return read
        found.append(read)
    return Entry(text.strip(), preset, tuple(found))


def _condition(text: str) -> Condition | str:
    sizes, at, processes = text.partition("@")
    size = (0, None) if at and not sizes.strip() else _ends(sizes)
    process = _ends(processes) if at else (0, None)
    if size is None or process is None:
        return f"{shown(text)} is no range of numbers from 0 to 2147483647"
    return Condition(text.strip(), size[0], size[1], process[1], bool(at))


def _ends(text: str) -> tuple[int, int | None] | None:
    """Return first value and last one of a range (None: no end); None if it is rejected."""
    match = _RANGE.match(text)
    first = _integer(text)
    if match is None or first is None or first < 0:
        return None
    if match["end"] is None:
        return 0, first
    last = _integer(match["end"])
    if match["rest"] or last is None or last < 0:
        return None
    return first, (last if last >= first else None)


def _integer(text: str) -> int | None:
    match = _LEADING.match(text)
    return as_word(match[1]) if match else None


def size_ends(value: Value) -> tuple[int, ...]:
    return () if value.counts_processes else value.order.ends


def comm_ends(value: Value) -> tuple[int, ...]:
    return value.order.ends if value.counts_processes else ()


def entry_at(value: Value, comm_size: int, msize_bytes: int) -> Entry:
    """Return the entry that holds: the first whose end is not below, else the last one."""
    return value.order.first_from(comm_size if value.counts_processes else msize_bytes)


def outcome(
    value: Value, call: Call, rule: Rule | None, *, chosen: Configuration | None = None
) -> Outcome:
    """Return what runs by a value that is not rejected.

    `rule` is the file's rule, where the value is one of a file; `chosen` what the file says, where
    it is another one.
    """
    entry = entry_at(value, call.comm_size, call.msize_bytes)
    name = variable(call.collective)
    named = INTEL_MPI.presets(value.release).preset(call.collective, entry.number)
    stands = rule or Rule(0, entry.text, call.collective, named)
    first = (
        f"the entry {shown(entry.text)} of {name} holds for {call.comm_size} processes"
        f" and {call.msize_bytes} bytes"
    )
    reasons = (first,) if rule else (f"{name} goes before the file", first)
    found = ran(value.release, call, Leaf(stands, entry.number), reasons)
    if rule is None:
        own = Configuration.default(LIBRARY, call.collective)
        return Outcome(found.configuration, None, found.reasons, chosen or own)
    return found


def ran(release: str, call: Call, leaf: Leaf, reasons: tuple[str, ...]) -> Outcome:
    """Return what runs where `leaf` holds."""
    presets = INTEL_MPI.presets(release)
    chosen = presets.chosen(call.collective, leaf.number)
    running, fallen = presets.running(chosen, call.comm_size)
    said = [*reasons]
    if leaf.number == BUILT_IN:
        said.append(BUILT_IN_LOGIC)
    elif presets.as_read(call.collective, leaf.number) != leaf.number:
        top = presets.highest(call.collective)
        said.append(f"there is no preset {leaf.number}, only 1 to {top}: preset 1 runs instead")
    if fallen:
        said.append(fallen)
    return Outcome(running, leaf.rule, tuple(said), chosen)


_ALWAYS = (Condition("", 0, None, None, counts_processes=False),)
