"""The format ``openmpi-classic``: a stream of numbers with rules for coll/tuned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from colltune.decisions import DecisionTable, Status
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Catalogue, CollectiveEntry, SizeUnit
from colltune.mpi.choosing import Chosen, Steps
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
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of, reads_version_header
from colltune.mpi.openmpi.tuned_format import TunedFile, TunedFormat
from colltune.mpi.openmpi.writing import Converter, TunedChooser, steering
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.text import counted


@dataclass(frozen=True)
class Line:
    """A rule: from ``first`` on, as the library counts, ``configuration``; what to say of it."""

    first: int
    configuration: Configuration
    comment: str = ""


@dataclass(frozen=True)
class Block:
    """The rules for communicators of ``comm_size`` processes and more, up to the next block."""

    comm_size: int
    lines: tuple[Line, ...]
    comment: str = ""

    @property
    def said(self) -> list[tuple[int, Configuration]]:
        return [(line.first, line.configuration) for line in self.lines]


Blocks = Mapping[Collective, Sequence[Block]]


def _left(comm_size: int, collective: Collective) -> Block:
    """Return the block that leaves communicators from `comm_size` on to the library."""
    default = Configuration.default(LIBRARY, collective)
    return Block(comm_size, (Line(0, default),), "left to the library")


def render(catalogue: Catalogue, heading: Sequence[str], blocks: Blocks) -> str:
    """Return the text of a file; every collective's first block has to be for 0 processes.

    It has a version header if a rule limits requests, which no release reads without one. For 6.x
    every bound between blocks is written twice, with the rules before and after it: that release
    takes a size for the end of the entries before, other ones for a start, and so it means the same
    to all.
    """
    every = (line for found in blocks.values() for block in found for line in block.lines)
    requests = any("requests" in line.configuration.numbers for line in every)
    lines = [f"{HEADER}2"] if requests else []
    lines += [*(f"# {text}" for text in heading), f"{len(blocks)} # collectives"]
    for collective, found in blocks.items():
        entry = catalogue.collectives[collective]
        written = list(found[:1])
        for before, block in pairwise(found):
            if catalogue.series.startswith("6"):
                until = f"up to {block.comm_size - 1} processes for Open MPI 6"
                written.append(Block(block.comm_size, before.lines, until))
            written.append(block)
        lines += [f"{entry.id} # {collective}", f"{len(written)} # communicator sizes"]
        for block in written:
            lines.append(_commented(f"{block.comm_size} {len(block.lines)}", block.comment))
            lines += [
                _commented(_written_numbers(entry, line), line.comment) for line in block.lines
            ]
    return "\n".join(lines) + "\n"


def _commented(text: str, comment: str) -> str:
    return f"{text} # {comment}" if comment else text


def _written_numbers(entry: CollectiveEntry, line: Line) -> str:
    algorithm = entry.named(line.configuration.algorithm)
    if line.configuration.is_default or algorithm is None:
        return f"{line.first} 0 0 0"
    given = line.configuration.numbers
    requests = f" {given['requests']}" if "requests" in given else ""
    values = f"{given.get('fanout', 0)} {given.get('segsize', 0)}{requests}"
    return f"{line.first} {algorithm.number} {values}"


def write(table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL) -> Written:
    chooser = TunedChooser(
        release,
        programs=programs,
        requests=reads_version_header(release),
    )
    chosen = chooser.by_size(table)
    heading = (
        f"Open MPI coll_tuned rules for {table.shape} (nodes x processes per node), release"
        f" {release}",
        f"Written by colltune for {programs.phrase}. All ranks must read the same file.",
        *table.warnings,
    )
    by_collective: dict[Collective, dict[int, Steps]] = {}
    for (collective, comm_size), steps in sorted(chosen.items(), key=lambda item: item[0]):
        by_collective.setdefault(collective, {})[comm_size] = steps
    blocks = {
        collective: _blocks(chooser.catalogue.collectives[collective], table.shape, by_size)
        for collective, by_size in by_collective.items()
    }
    layouts = (
        f"{collective} on {shape} processes: this format cannot tell layouts apart, so the "
        f"rules for {shape.nprocs} processes in any layout hold"
        for collective, shape in sorted(table.by_layout)
    )
    beside, notes = steering(chooser.catalogue, table.shape, chosen)
    texts = {"": render(chooser.catalogue, heading, blocks)} | beside
    return Written(NAME, release, texts, (*chooser.notes, *layouts, *notes))


def _blocks(entry: CollectiveEntry, job: Shape, by_size: Mapping[int, Steps]) -> list[Block]:
    """Return the blocks of one collective: all sizes that are not listed are the library's."""
    found = [_left(0, entry.collective)]
    for comm_size, steps in by_size.items():
        where = str(job) if comm_size == job.nprocs else f"{comm_size} processes"
        factor = {SizeUnit.MSIZE: 1, SizeUnit.MSIZE_TIMES_NPROCS: comm_size}.get(entry.size, 0)
        lines = (
            Line(
                step.first_bytes * factor,
                step.configuration,
                f"{entry.collective}, {where}: {_what(step)}",
            )
            for step in steps
        )
        found.append(Block(comm_size, tuple(lines)))
        if comm_size + 1 not in by_size:
            found.append(_left(comm_size + 1, entry.collective))
    return found


def _what(step: Chosen) -> str:
    what = step.configuration.algorithm
    if step.configuration.parameters:
        what += " " + step.configuration.parameter_text.replace(",", " ")
    told = "" if step.status is Status.PREDICTED else f", {step.status}"
    return f"{what} from {step.first_bytes} bytes{told}"


def convert(parsed: ParsedFile, release: str) -> Written:
    if not isinstance(parsed, TunedFile):
        raise LibraryError(
            f"{parsed.source}: {NAME} cannot express what a file of {parsed.format} says"
        )
    converter = _ToClassic(release, requests=False)
    kept = {
        collective: blocks
        for collective, blocks in converter.blocks(parsed.ranges)
        if any(not chosen.is_default for block in blocks for _, chosen in block.said)
    }
    heading = (f"Open MPI coll_tuned rules, converted from {parsed.format} for release {release}",)
    text = render(converter.catalogue, heading, kept)
    return Written(NAME, release, {"": text}, tuple(dict.fromkeys(converter.notes)))


class _ToClassic(Converter):
    def blocks(self, ranges: Ranges) -> Iterator[tuple[Collective, list[Block]]]:
        for collective, entries in sorted(ranges.items()):
            if collective in self.catalogue.collectives:
                yield collective, self._of_collective(collective, entries)

    def _of_collective(
        self, collective: Collective, entries: Sequence[CommunicatorRange]
    ) -> list[Block]:
        for entry in entries:
            if entry.distribution is not Distribution.ANY:
                what = (
                    f"the rules for {entry.distribution} are left out, because this format cannot "
                    "tell distributions apart"
                )
                self.note(entry.line, what)
        told = [entry for entry in entries if entry.distribution is Distribution.ANY]
        sizes = [(entry.first_size, _end(entry.last_size, LARGEST_COMM_SIZE)) for entry in told]
        found = {0: _left(0, collective)}
        for first, last, owner in ranged(sizes):
            if owner is not None and (last is None or last >= 0):
                lines = self._lines(told[owner], max(0, first), last)
                found[max(0, first)] = Block(max(0, first), lines)
                if last is not None:
                    found[last + 1] = _left(last + 1, collective)
        merged = [found.pop(0)]
        for _, block in sorted(found.items()):
            if block.said != merged[-1].said:
                merged.append(block)
        return merged

    def _lines(
        self, communicators: CommunicatorRange, first_size: int, last_size: int | None
    ) -> tuple[Line, ...]:
        entry = self.catalogue.collectives[communicators.collective]
        default = Configuration.default(LIBRARY, entry.collective)
        rules = list(self.known(communicators.rules))
        pieces = ranged([(rule.first, _end(rule.last, LARGEST_SIZE)) for rule in rules])
        lines = {0: Line(0, default)}
        first_line = None
        for first, last, owner in pieces:
            if last is not None and last < 0:
                continue
            rule = None if owner is None else rules[owner].rule
            first_line = first_line or (rule.line if rule else communicators.line)
            chosen = self.target(rule, first_size, last_size) if rule is not None else default
            comment = "" if chosen.is_default else chosen.id.partition(".")[2]
            lines[max(0, first)] = Line(max(0, first), chosen, comment)
        kept = [lines.pop(0)]
        for line in lines.values():
            if line.configuration != kept[-1].configuration:
                kept.append(line)
        if entry.one_rule and len(kept) > 1:
            what = (
                f"left to the library: for {entry.collective} only one rule for all sizes is safe"
            )
            self.note(first_line or communicators.line, what)
            return (Line(0, default),)
        return tuple(kept)


def _end(last: int, largest: int) -> int | None:
    return None if last >= largest else last


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
        return write(table, release, programs=programs)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        catalogue_of(release)
        refuse_dropped(parsed)
        return convert(parsed, release)
