"""Writes a decision table for libcolltune: what runs as itself, is safe, and can be chosen."""

from __future__ import annotations

from collections.abc import Mapping

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.choosing import ELEMENT_BYTES, Chooser, Steps, chooses
from colltune.mpi.libcolltune import is_libcolltune
from colltune.mpi.libcolltune.library import DECIDING
from colltune.mpi.libcolltune.table.text import (
    LIBRARY_CHOICE,
    Content,
    Entry,
    RuleBlock,
    Step,
)
from colltune.mpi.release import Release


class TableWriter(Chooser):
    """Makes the content of one table; ``notes`` tell what is left to the library and why."""

    def __init__(self, bound: Release, *, builtin_operations_only: bool) -> None:
        super().__init__(bound, ": processes know messages of different sizes,")
        self.builtin_operations_only = builtin_operations_only

    def content(self, table: DecisionTable) -> Content:
        mpi = self.bound.mpi
        if table.library != mpi.name:
            raise LibraryError(f"a decision table of {table.library} is none of {mpi.title}")
        found: dict[tuple[Collective, int, Shape | None], Steps] = {}
        for (collective, size), intervals in sorted(table.rules.items(), key=lambda i: i[0]):
            found[collective, size, None] = self.steps(collective, size, None, intervals)
        for (collective, shape), intervals in sorted(table.by_layout.items(), key=lambda i: i[0]):
            size = shape.nprocs
            found[collective, size, shape] = self.steps(collective, size, shape, intervals)
        told = {(c, size) for (c, size, _), steps in found.items() if chooses(steps)}
        # a layout has a block where another one of its size, or the size itself, chooses
        kept = {
            (collective, size, layout): steps
            for (collective, size, layout), steps in found.items()
            if chooses(steps) or (layout and (collective, size) in told)
        }
        entries = self._entries({s.configuration for steps in kept.values() for s in steps})
        number = {entry.configuration: entry.number for entry in entries.values()}
        patterns, ours = mpi.user_patterns, self.bound.base_environment()
        return Content(
            table.library,
            self.bound.name,
            table.shape,
            unless=tuple(p for p in patterns.deciding if p not in DECIDING),
            but=tuple(dict.fromkeys((*patterns.harmless, *ours))),
            entries=entries,
            blocks=tuple(
                RuleBlock(
                    collective,
                    size,
                    tuple(
                        Step(s.first_bytes, number.get(s.configuration, LIBRARY_CHOICE))
                        for s in steps
                    ),
                    layout,
                )
                for (collective, size, layout), steps in kept.items()
            ),
        )

    def _entries(self, used: set[Configuration]) -> dict[int, Entry]:
        entries: dict[int, Entry] = {}
        for number, configuration in enumerate((c for c in self.written if c in used), 1):
            forced: Mapping[str, int | str] = {}
            if not is_libcolltune(configuration):
                forced = self.bound.force(configuration)
            settings = tuple((name, str(value)) for name, value in sorted(forced.items()))
            entries[number] = Entry(number, configuration, settings)
        return entries

    def refusal(self, comm_size: int, layout: Shape | None, interval: Interval) -> tuple[str, int]:
        try:
            spelled = self.bound.canonical(interval.configuration)
        except LibraryError as error:
            return str(error), 0
        why = why_not_told(self.bound, spelled)
        if not why and layout:
            why = self.bound.why_not_on(spelled, layout)
        if why:
            return why, 0
        safe = self.bound.safe(
            spelled,
            builtin_operations_only=self.builtin_operations_only,
            nprocs=comm_size,
        )
        if not safe:
            return f"{spelled.algorithm} is not right for every program", 0
        first = self.bound.running_from(spelled, comm_size, ELEMENT_BYTES)
        if first is None or (interval.last_bytes is not None and first > interval.last_bytes):
            at = interval.last_bytes or 0
            why = self.bound.why_not(spelled, comm_size, at, element_bytes=ELEMENT_BYTES)
            return why or f"{spelled.algorithm} does not run there", 0
        return "", first


def why_not_told(bound: Release, configuration: Configuration) -> str:
    """Return why libcolltune cannot choose a configuration; empty if it can."""
    if configuration.is_default or bound.settable_at_runtime(configuration):
        return ""
    return f"{bound.mpi.title} {bound.name} cannot be told {configuration.id} while a program runs"
