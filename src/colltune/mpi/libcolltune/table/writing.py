"""Writes a decision table for libcolltune: what runs as itself, is safe, and can be chosen."""

from __future__ import annotations

from collections.abc import Mapping

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.choosing import Chooser, Steps, chooses
from colltune.mpi.libcolltune import is_libcolltune
from colltune.mpi.libcolltune.library import DECIDING
from colltune.mpi.libcolltune.table.text import (
    LIBRARY_CHOICE,
    Content,
    Entry,
    RuleBlock,
    Step,
)
from colltune.mpi.programs import Programs
from colltune.mpi.release import Release


class TableWriter(Chooser):
    """Makes the content of one table; ``notes`` tell what is left to the library and why."""

    def __init__(self, bound: Release, *, programs: Programs) -> None:
        super().__init__(
            bound,
            ": processes know messages of different sizes,",
            programs=programs,
        )

    def content(self, table: DecisionTable) -> Content:
        mpi = self.bound.mpi
        found: dict[tuple[Collective, int, Shape | None], Steps] = {
            (collective, size, None): steps
            for (collective, size), steps in self.by_size(table).items()
        }
        layouts = self.by_layout(table)
        told = {(collective, size) for collective, size, _ in found}
        told |= {(c, shape.nprocs) for (c, shape), steps in layouts.items() if chooses(steps)}
        # a layout has a block where another one of its size, or the size itself, chooses
        kept = found | {
            (collective, shape.nprocs, shape): steps
            for (collective, shape), steps in layouts.items()
            if (collective, shape.nprocs) in told
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

    def why_not_told(self, spelled: Configuration, layout: Shape | None) -> str:
        why = why_not_told(self.bound, spelled)
        return why or (self.bound.why_not_on(spelled, layout) if layout else "")


def why_not_told(bound: Release, configuration: Configuration) -> str:
    """Return why libcolltune cannot choose a configuration; empty if it can."""
    if configuration.is_default or bound.settable_at_runtime(configuration):
        return ""
    return (
        f"{bound.mpi.title} {bound.name} cannot switch to {configuration.id} while a program runs"
    )
