"""The format ``openmpi-classic``: a stream of numbers with rules for coll/tuned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from colltune.decisions import DecisionTable
from colltune.domain import Configuration
from colltune.mpi.file_format import Call, Finding, ParsedFile, Rule, Written, refuse_dropped
from colltune.mpi.openmpi.classic import reading
from colltune.mpi.openmpi.classic.reading import Entry, MessageRule, Section
from colltune.mpi.openmpi.decide.tuned import Numbers, configuration_of
from colltune.mpi.openmpi.mca import as_int
from colltune.mpi.openmpi.ranges import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    Distribution,
    Piece,
    Ranges,
    SizeRule,
    ranged,
    scanned,
)
from colltune.mpi.openmpi.releases import catalogue_of, reads_version_header
from colltune.mpi.openmpi.tuned_format import TunedFile, TunedFormat
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.text import counted

NAME = "openmpi-classic"
HEADER = "rule-file-version-"
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,xXa-fA-FkKmMgG]*")
# what only the rules of coll/han have between their numbers
_OTHERS = frozenset({"self", "basic", "libnbc", "tuned", "sm", "adapt", "han", "xhc"})
_FIRST_BYTES, _ENOUGH, _MOSTLY = 65536, 0.9, 0.7


class ClassicFile(TunedFile):
    format = NAME
    least_comm_size = 2

    def __init__(self, text: str, source: str, release: str) -> None:
        super().__init__(source, release)
        self.text = text
        self.content = reading.read(text, knows_header=reads_version_header(release))
        # 6.x takes what is written for the ends of ranges
        self.by_ranges = self.catalogue.series.startswith("6")
        self.by_id = {entry.id: entry for entry in self.catalogue.collectives.values()}
        known = [s for s in self.content.sections if s.id.value in self.by_id]
        # a collective that stands twice keeps its last section
        self.sections = {self.by_id[s.id.value].collective: s for s in known}
        found = [(s, rule) for s in known for entry in s.entries for rule in entry.rules]
        self._chosen: dict[tuple[int, Numbers], Configuration | None] = {}
        self._rules = {id(rule): self._rule(section, rule) for section, rule in found}
        self.rules = tuple(self._rules.values())
        if self.by_ranges and text.lstrip().startswith("{"):
            self.dropped = "this is JSON, which this release cannot read as a classic file"
        elif self.content.drops:
            line, why = self.content.drops[0]
            self.dropped = f"line {line}: {why}"

    @cached_property
    def ranges(self) -> Ranges:  # type: ignore[override]
        """The rules in effect, as ranges that do not overlap; empty for a file that is dropped."""
        return {} if self.dropped else self.ranges_read

    @cached_property
    def ranges_read(self) -> Ranges:
        """The rules as if the file was not dropped."""
        return {
            collective: tuple(
                CommunicatorRange(
                    collective,
                    entry.comm_size.line,
                    first,
                    LARGEST_COMM_SIZE if last is None else last,
                    Distribution.ANY,
                    tuple(self._size_rules(entry)),
                    named_size=entry.comm_size.value,
                )
                for first, last, owner in self.communicators(section)
                if owner is not None
                for entry in [section.entries[owner]]
            )
            for collective, section in self.sections.items()
        }

    def communicators(self, section: Section) -> list[Piece]:
        """Return on which communicators each entry of a collective holds."""
        sizes = [as_int(entry.comm_size.value) for entry in section.entries]
        if not self.by_ranges:
            return scanned(sizes, inherit=True)
        # 6.x takes the sizes for the ends of the entries before
        ends: list[int | None] = [*(size - 1 for size in sizes[:-1]), None]
        return ranged(list(zip([0, *sizes[:-1]], ends, strict=False))[: len(sizes)])

    def reason(
        self, call: Call, communicator: CommunicatorRange, found: SizeRule, compared: int
    ) -> str:
        first, last = communicator.first_size, communicator.last_size
        reach = f"{first} to {last} processes" if last < LARGEST_COMM_SIZE else f"{first} and more"
        return (
            f"the rule '{found.rule.text}' applies: it holds from "
            f"{counted(int(found.rule.text.split()[0]), 'byte')} on, and the library counts "
            f"{counted(compared, 'byte')} for this call. It belongs to the entry for "
            f"{counted(communicator.named_size, 'process', 'es')}, which serves {reach}."
        )

    def _size_rules(self, entry: Entry) -> Iterator[SizeRule]:
        sizes = [rule.size.value for rule in entry.rules]
        if self.by_ranges:
            ends = [size - 1 if size else None for size in sizes[1:]]
            pieces = ranged(list(zip(sizes, [*ends, None], strict=False)))
        else:
            pieces = scanned(sizes, inherit=False)
        for first, last, owner in pieces:
            if owner is not None:
                rule, end = entry.rules[owner], LARGEST_SIZE if last is None else last
                yield SizeRule(self._rules[id(rule)], first, end, _numbers(rule))

    def _rule(self, section: Section, rule: MessageRule) -> Rule:
        entry, key = self.by_id[section.id.value], (section.id.value, _numbers(rule))
        if key not in self._chosen:
            self._chosen[key] = configuration_of(entry, key[1])
        return Rule(rule.line, rule.text, entry.collective, self._chosen[key])


def _numbers(rule: MessageRule) -> Numbers:
    requests = None if rule.requests is None else rule.requests.value
    return Numbers(rule.algorithm.value, rule.fanout.value, rule.segsize.value, requests)


class OpenMpiClassic(TunedFormat):
    name = NAME
    title = "Open MPI's classic rules file for coll/tuned"

    def recognises(self, text: str) -> bool:
        head = text[:_FIRST_BYTES].removeprefix("\ufeff")
        if head.startswith(HEADER):
            return True
        # the library skips words, and whole lines of them
        lines = [line.partition("#")[0].split() for line in head.split("\n")]
        counted = [any(map(_NUMBER.fullmatch, line)) for line in lines if line]
        words = [w for line in lines if any(map(_NUMBER.fullmatch, line)) for w in line]
        words = [word for word in words if not word.startswith("@")]
        numbers = sum(_NUMBER.fullmatch(word) is not None for word in words)
        if sum(counted) < _MOSTLY * len(counted):
            return False
        return numbers > _ENOUGH * len(words) and not _OTHERS & {word.lower() for word in words}

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        return ClassicFile(text, source, release)

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        from colltune.mpi.openmpi.classic.lint import lint

        assert isinstance(parsed, ClassicFile)
        return lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        from colltune.mpi.openmpi.classic import writing

        return writing.write(table, release, programs=programs)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        from colltune.mpi.openmpi.classic import writing

        catalogue_of(release)
        refuse_dropped(parsed)
        return writing.convert(parsed, release)
