"""Turns rules for coll/tuned, of whichever format and release, into a classic file of another one.

Thresholds are kept in the unit of the files, so that ranges of communicators are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm, CollectiveEntry, Limit
from colltune.mpi.file_format import ParsedFile, Written
from colltune.mpi.openmpi import portfolio
from colltune.mpi.openmpi.classic import writing
from colltune.mpi.openmpi.classic.parsed import NAME
from colltune.mpi.openmpi.classic.spans import ranged
from colltune.mpi.openmpi.classic.writing import Block, Line
from colltune.mpi.openmpi.ranges.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    Distribution,
    RangedFile,
)
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of, reads_version_header


@dataclass(frozen=True)
class Step:
    """From ``first`` on, as the library counts: what a line says; None where no rule holds."""

    first: int
    configuration: Configuration | None
    line: int


@dataclass(frozen=True)
class Range:
    """The steps of communicators of ``first`` to ``last`` processes (None: no end)."""

    first: int
    last: int | None
    steps: tuple[Step, ...]


Ranges = dict[Collective, list[Range]]


def convert(parsed: ParsedFile, release: str) -> Written:
    """Return a classic file for `release` that says what `parsed` does.

    The notes tell what cannot be kept, each with its line.

    Raises
    ------
    LibraryError
        If the file is none with rules for coll/tuned.
    """
    converter = _Converter(release)
    found = converter.ranges(parsed)
    blocks = {
        collective: converter.blocks(collective, ranges)
        for collective, ranges in sorted(found.items())
    }
    kept = {c: b for c, b in blocks.items() if any(_chooses(block) for block in b)}
    heading = (f"Open MPI coll_tuned rules, converted from {parsed.format} for release {release}",)
    text = writing.render(converter.catalogue, heading, kept)
    return Written(NAME, release, {"": text}, tuple(dict.fromkeys(converter.notes)))


class _Converter:
    """Converts for one release, and notes what is lost."""

    def __init__(self, release: str) -> None:
        self.release, self.catalogue = release, catalogue_of(release)
        self.notes: list[str] = []

    def ranges(self, parsed: ParsedFile) -> Ranges:
        """Return what a file says, by communicator sizes.

        Raises
        ------
        LibraryError
            If it is no file with rules for coll/tuned.
        """
        if not isinstance(parsed, RangedFile):
            raise LibraryError(
                f"{parsed.source}: what a file of {parsed.format} says cannot be said in {NAME}"
            )
        return {
            collective: list(self._ranges(self._any_layout(entries)))
            for collective, entries in parsed.ranges.items()
            if collective in self.catalogue.collectives
        }

    def _any_layout(self, entries: Sequence[CommunicatorRange]) -> list[CommunicatorRange]:
        found = [entry for entry in entries if entry.distribution is Distribution.ANY]
        for entry in entries:
            if entry not in found:
                what = f"rules for {entry.distribution} cannot be told from others, left out"
                self._note(entry.line, what)
        return found

    def _ranges(self, entries: Sequence[CommunicatorRange]) -> Iterator[Range]:
        sizes = [(entry.first_size, _end(entry.last_size, LARGEST_COMM_SIZE)) for entry in entries]
        for first, last, owner in ranged(sizes).pieces():
            if owner is not None and (last is None or last >= 0):
                yield Range(max(0, first), last, tuple(self._steps(entries[owner])))

    def _steps(self, entry: CommunicatorRange) -> Iterator[Step]:
        rules = [rule for rule in entry.rules if rule.known]
        for rule in entry.rules:
            if not rule.known:
                self._note(rule.rule.line, f"'{rule.rule.text}' names no algorithm, left out")
        sizes = [(rule.first, _end(rule.last, LARGEST_SIZE)) for rule in rules]
        for first, last, owner in ranged(sizes).pieces():
            if last is None or last >= 0:
                held = None if owner is None else rules[owner].rule
                told = (None, entry.line) if held is None else (held.configuration, held.line)
                yield Step(max(0, first), *told)

    def blocks(self, collective: Collective, ranges: Sequence[Range]) -> list[Block]:
        """Return what is to be written for one collective."""
        entry = self.catalogue.collectives[collective]
        found = [writing.left(0, collective, LIBRARY)]
        for communicators in ranges:
            self._put(found, Block(communicators.first, self._lines(entry, communicators)))
            if communicators.last is not None:
                after = communicators.last + 1
                self._put(found, writing.left(after, collective, LIBRARY))
        merged = found[:1]
        for block in found[1:]:
            if _said(block) != _said(merged[-1]):
                merged.append(block)
        return merged

    def _put(self, blocks: list[Block], block: Block) -> None:
        if blocks[-1].comm_size == block.comm_size:
            blocks.pop()
        blocks.append(block)

    def _lines(self, entry: CollectiveEntry, communicators: Range) -> tuple[Line, ...]:
        default = Configuration.default(LIBRARY, entry.collective)
        lines = [Line(0, default)]
        for step in communicators.steps:
            chosen = self._target(entry, communicators, step) or default
            if lines[-1].first == step.first:
                lines.pop()
            if not lines or chosen != lines[-1].configuration:
                comment = "" if chosen.is_default else chosen.id.partition(".")[2]
                lines.append(Line(step.first, chosen, comment))
        if entry.one_rule and len(lines) > 1:
            self._note(
                communicators.steps[0].line,
                f"left to the library: only one rule for all sizes is safe for {entry.collective}",
            )
            return (Line(0, default),)
        return tuple(lines)

    def _target(
        self, entry: CollectiveEntry, communicators: Range, step: Step
    ) -> Configuration | None:
        """Return the configuration in this release; None for the library's own decision."""
        if step.configuration is None or step.configuration.is_default:
            return None
        try:
            found = portfolio.canonical(self.release, self._renamed(entry, step))
        except LibraryError as error:
            self._note(step.line, f"left to the library: {error}")
            return None
        algorithm = portfolio.algorithm_of(self.release, found)
        why = self._refusal(algorithm, communicators, found)
        if why:
            self._note(step.line, f"left to the library: {why}")
            return None
        return found

    def _renamed(self, entry: CollectiveEntry, step: Step) -> Configuration:
        """Return the configuration; one that became the case of a radix keeps meaning radix 2."""
        assert step.configuration is not None  # only such steps get here
        given = step.configuration
        algorithm = entry.named(given.algorithm)
        if algorithm is None or not algorithm.minimums or given.parameters:
            return given
        parameters = algorithm.minimums
        self._note(
            step.line, f"{given.algorithm} is {algorithm.name} with a fan-out of {parameters[0][1]}"
        )
        return Configuration(LIBRARY, given.collective, algorithm.name, parameters)

    def _refusal(self, algorithm: Algorithm, communicators: Range, found: Configuration) -> str:
        if algorithm.wrong:
            return f"{algorithm.name}: {algorithm.wrong}"
        sizes = (max(2, communicators.first), communicators.last)
        if Limit.TWO_PROCESSES in algorithm.limits and sizes != (2, 2):
            return f"{algorithm.name} ends the program unless there are 2 processes"
        limited = "requests" in dict(found.parameters)
        if limited and not reads_version_header(self.release):
            return f"no file of {self.release} can tell the limit of requests"
        return ""

    def _note(self, line: int, what: str) -> None:
        self.notes.append(f"line {line}: {what}")


def _end(last: int, largest: int) -> int | None:
    return None if last >= largest else last


def _said(block: Block) -> tuple[tuple[int, Configuration], ...]:
    return tuple((line.first, line.configuration) for line in block.lines)


def _chooses(block: Block) -> bool:
    return any(not line.configuration.is_default for line in block.lines)
