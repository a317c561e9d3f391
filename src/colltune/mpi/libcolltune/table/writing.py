"""Writes a decision table for libcolltune: what runs as itself, is safe, and can be chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.libcolltune.library import DECIDING
from colltune.mpi.libcolltune.space import is_libcolltune
from colltune.mpi.libcolltune.table.text import (
    LIBRARY_CHOICE,
    Content,
    Entry,
    RuleBlock,
    Step,
)
from colltune.mpi.library import Release
from colltune.mpi.tables import check_intervals, span

ELEMENT_BYTES = 8
"""Largest element for which a written algorithm is sure to run as itself: a double."""


class TableWriter:
    """Makes the content of one table; ``notes`` tell what is left to the library and why."""

    def __init__(self, bound: Release, *, builtin_operations_only: bool) -> None:
        self.bound, self.mpi = bound, bound.mpi
        self.builtin_operations_only = builtin_operations_only
        self.entries: dict[Configuration, Entry] = {}
        self.notes: list[str] = []

    def content(self, table: DecisionTable) -> Content:
        if table.library != self.mpi.name:
            raise LibraryError(f"a decision table of {table.library} is none of {self.mpi.title}")
        blocks = [
            self._block(collective, size, None, intervals)
            for (collective, size), intervals in sorted(table.rules.items(), key=lambda i: i[0])
        ]
        blocks += [
            self._block(collective, shape.nprocs, shape, intervals)
            for (collective, shape), intervals in sorted(
                table.by_layout.items(), key=lambda i: i[0]
            )
        ]
        laid_out = {(b.collective, b.comm_size) for b in blocks if b.layout}
        kept = [b for b in blocks if _chooses(b) or b.layout]
        told = {(b.collective, b.comm_size) for b in kept if _chooses(b)}
        kept = [b for b in kept if (b.collective, b.comm_size) in told & laid_out or _chooses(b)]
        numbered, entries = _numbered(kept, self.entries.values())
        patterns = self.mpi.user_patterns
        ours = self.bound.base_environment()
        return Content(
            table.library,
            self.bound.name,
            table.shape,
            unless=tuple(p for p in patterns.deciding if p not in DECIDING),
            but=tuple(dict.fromkeys((*patterns.harmless, *ours))),
            entries=entries,
            blocks=numbered,
        )

    def _block(
        self,
        collective: Collective,
        comm_size: int,
        layout: Shape | None,
        intervals: Sequence[Interval],
    ) -> RuleBlock:
        where = f"{collective} on {layout or comm_size} processes"
        check_intervals(where, collective, intervals)
        steps: list[Step] = []
        if comm_size < 2:
            self.notes.append(f"{where}: needs no algorithm")
            return RuleBlock(collective, comm_size, (Step(0, LIBRARY_CHOICE),), layout)
        for interval in intervals:
            steps += self._steps(where, comm_size, layout, interval)
        merged = [s for k, s in enumerate(steps) if not k or s.number != steps[k - 1].number]
        if collective in self.bound.one_rule and len(merged) > 1:
            self.notes.append(
                f"{where}: left to the library: processes know messages of different sizes, and the"
                f" table has {len(merged)} ranges"
            )
            merged = [Step(0, LIBRARY_CHOICE)]
        return RuleBlock(collective, comm_size, tuple(merged), layout)

    def _steps(
        self, where: str, comm_size: int, layout: Shape | None, interval: Interval
    ) -> list[Step]:
        left = Step(interval.first_bytes, LIBRARY_CHOICE)
        if interval.configuration.is_default:
            return [left]
        why, first = self._refusal(comm_size, layout, interval)
        if why:
            self.notes.append(f"{where}, {span(interval)}: left to the library: {why}")
            return [left]
        spelled = self.bound.canonical(interval.configuration)
        number = self._number(spelled)
        if first <= interval.first_bytes:
            return [Step(interval.first_bytes, number)]
        self.notes.append(
            f"{where}, {span(interval)}: left to the library below {first} bytes:"
            f" {spelled.algorithm} may fall back to another algorithm there"
        )
        return [left, Step(first, number)]

    def _refusal(self, comm_size: int, layout: Shape | None, interval: Interval) -> tuple[str, int]:
        """Return why the configuration may not be written, else from which size on it may."""
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

    def _number(self, configuration: Configuration) -> int:
        if configuration not in self.entries:
            settings: tuple[tuple[str, str], ...] = ()
            if not is_libcolltune(configuration):
                forced = self.bound.force(configuration)
                settings = tuple((name, str(value)) for name, value in sorted(forced.items()))
            self.entries[configuration] = Entry(len(self.entries) + 1, configuration, settings)
        return self.entries[configuration].number


def why_not_told(bound: Release, configuration: Configuration) -> str:
    """Return why libcolltune cannot choose a configuration; empty if it can."""
    if configuration.is_default or bound.settable_at_runtime(configuration):
        return ""
    return f"{bound.mpi.title} {bound.name} cannot be told {configuration.id} while a program runs"


def _numbered(
    blocks: Sequence[RuleBlock], entries: Iterable[Entry]
) -> tuple[tuple[RuleBlock, ...], dict[int, Entry]]:
    """Return blocks and the configurations that they use, numbered from 1 on."""
    used = {step.number for block in blocks for step in block.steps}
    kept = [entry for entry in entries if entry.number in used]
    number = {LIBRARY_CHOICE: LIBRARY_CHOICE} | {e.number: n for n, e in enumerate(kept, 1)}
    return tuple(
        replace(b, steps=tuple(replace(s, number=number[s.number]) for s in b.steps))
        for b in blocks
    ), {n: replace(entry, number=n) for n, entry in enumerate(kept, 1)}


def _chooses(block: RuleBlock) -> bool:
    return any(step.number != LIBRARY_CHOICE for step in block.steps)
