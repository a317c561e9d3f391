"""What a classic rules file holds, as a release of Open MPI reads it.

Counts say what follows (``ompi_coll_tuned_read_rules_config_file``). The first thing that the
library does not like makes it drop the file; here reading goes on, so that everything can be told
at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import CollectiveEntry
from colltune.mpi.openmpi.decide.tuned import configuration_of
from colltune.mpi.openmpi.mca import as_int
from colltune.mpi.openmpi.releases import reads_version_header
from colltune.mpi.openmpi.scanner import Number, Scanner
from colltune.mpi.openmpi.tuned_format import TunedRules
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Call,
    Entries,
    Entry,
    Fault,
    Finding,
    Numbers,
    Piece,
    Rule,
    ranged,
    scanned,
)
from colltune.text import counted

NAME = "openmpi-classic"
HEADER = "rule-file-version-"

_LAST_ID = 21


@dataclass(frozen=True)
class Block:
    """The rules for communicators of about ``comm_size`` processes, each from its first size on.

    ``findings`` tell how their numbers are written.
    """

    comm_size: Number
    count: Number
    rules: list[Rule] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class Section:
    """The rules of one collective, which is known by its number."""

    id: Number
    count: Number
    blocks: list[Block] = field(default_factory=list)


@dataclass
class Content:
    """All that a file holds.

    ``drops`` are lines and reasons for which the library drops the file; it stops at the first one.
    ``rest`` is the first number that stands behind the end and is never read, ``last_line`` where
    the last one stands that is read. ``by_lines`` tells that each rule, and each other number, has
    a line of its own.
    """

    sections: list[Section] = field(default_factory=list)
    version: int = 1
    drops: list[tuple[int, str]] = field(default_factory=list)
    rest: Number | None = None
    last_line: int = 1
    by_lines: bool = True


class _EndError(Exception):
    pass


_NAMES = ("message size", "algorithm", "fan-out", "segment size", "limit of requests")
_LARGEST_INT = 2**31 - 1


class _Reader:
    def __init__(self, text: str, by_id: Mapping[int, CollectiveEntry]) -> None:
        self.scanner, self.found, self.by_id = Scanner(text), Content(), by_id
        self.chosen: dict[tuple[int, Numbers], Configuration | None] = {}

    def drop(self, line: int, why: str) -> None:
        self.found.drops.append((line, why))

    def content(self) -> Content:
        try:
            count = self._next("the number of collectives")
            if count.value > _LAST_ID + 1:
                why = f"{count.value} collectives are announced, but there are only {_LAST_ID + 1}"
                self.drop(count.line, why)
            for _ in range(count.value):
                self._section()
            self.found.last_line = self.scanner.line
            self.found.rest = self.scanner.number()
        except _EndError:
            self.found.last_line = self.scanner.line
        return self.found

    def _next(self, what: str, *, count: bool = False, of_rule: bool = False) -> Number:
        """Return the next number, which is `what` and must not be negative."""
        number = self.scanner.number()
        alone = of_rule or (number is not None and number.starts_line)
        self.found.by_lines &= alone and not self.scanner.skipped
        if number is None:
            mend = "An earlier count is too high, or the file was cut"
            self.drop(self.scanner.line, f"the file ends where {what} should follow. {mend}")
            raise _EndError
        if number.value < 0:
            self.drop(number.line, f"{what} is negative: {number.value}")
            if count:
                raise _EndError
        return number

    def _section(self) -> None:
        name = self._next("a collective's id")
        if name.value > _LAST_ID:
            self.drop(name.line, f"there is no collective with the id {name.value}")
        what = f"the number of communicator sizes of collective {name.value}"
        section = Section(name, self._next(what, count=True))
        self.found.sections.append(section)
        for _ in range(section.count.value):
            self._entry(section)

    def _entry(self, section: Section) -> None:
        size = self._next(f"a communicator size of collective {section.id.value}")
        what = f"the number of rules for communicator size {size.value}"
        entry = Block(size, self._next(what, count=True))
        section.blocks.append(entry)
        for at in range(entry.count.value):
            rule = self._rule(section.id.value, entry)
            entry.rules.append(rule)
            if not at and rule.first:
                why = f"the first message size is {rule.first}, but the first rule must be for 0"
                self.drop(rule.line, why)

    def _rule(self, of: int, block: Block) -> Rule:
        plain = self.scanner.plain_line()
        if plain is not None:
            line, values = self.scanner.line, plain
            if max(plain) > _LARGEST_INT:
                block.findings.extend(_too_large([Number(v, False, line, False) for v in plain]))
            return self._named(of, line, Numbers(*values[1:]), values[0])
        size = self._next("a rule's message size")
        numbers = [size, *(self._next(f"a rule's {w}", of_rule=True) for w in _NAMES[1:4])]
        if self.found.version > 1 and self.scanner.digit_follows():
            numbers.append(self._next("a rule's limit of requests", of_rule=True))
        block.findings.extend(_too_large(numbers))
        one_line = numbers[-1].line == size.line
        self.found.by_lines &= one_line
        if not one_line and not size.starts_line:
            what = "a rule starts in the middle of this line and continues on the next one"
            mend = (
                "write the four numbers of a rule on one line: message size, algorithm, fan-out, "
                "segment size"
            )
            block.findings.append(Finding(size.line, Fault.MALFORMED, what, mend))
        return self._named(of, size.line, Numbers(*(n.value for n in numbers[1:])), size.value)

    def _named(self, of: int, line: int, told: Numbers, size: int) -> Rule:
        entry, key = self.by_id.get(of), (of, told)
        if entry is None:
            return Rule(line, "", Collective.BARRIER, None, size, numbers=told)
        if key not in self.chosen:
            self.chosen[key] = configuration_of(entry, told)
        algorithm, fanout, segsize, requests = told
        more = "" if requests is None else f" {requests}"
        text = f"{size} {algorithm} {fanout} {segsize}{more}"
        return Rule(line, text, entry.collective, self.chosen[key], size, LARGEST_SIZE, told)


def _too_large(numbers: Sequence[Number]) -> Iterator[Finding]:
    for at, (name, number) in enumerate(zip(_NAMES, numbers, strict=False)):
        if number.clamped or (at and number.value > _LARGEST_INT):
            yield Finding(
                number.line,
                Fault.MALFORMED,
                f"the {name} of this rule is too large; the library keeps "
                f"{as_int(number.value) if at else number.value}",
                f"write a number up to {_LARGEST_INT if at else LARGEST_SIZE - 1}",
            )


class ClassicFile(TunedRules):
    format = NAME
    least_comm_size = 2

    def __init__(self, text: str, source: str, release: str) -> None:
        super().__init__(source, release)
        self.text = text
        # 6.x takes what is written for the ends of ranges
        self.by_ranges = self.catalogue.series.startswith("6")
        self.by_id = {entry.id: entry for entry in self.catalogue.collectives.values()}
        reader = _Reader(text, self.by_id)
        if reads_version_header(release):
            reader.found.version = reader.scanner.version()
        self.content = reader.content()
        known = [s for s in self.content.sections if s.id.value in self.by_id]
        # a collective that stands twice keeps its last section
        self.sections = {self.by_id[s.id.value].collective: s for s in known}
        self.rules = tuple(rule for s in known for block in s.blocks for rule in block.rules)
        if self.by_ranges and text.lstrip().startswith("{"):
            self.dropped = "this is JSON, which this release cannot read as a classic file"
        elif self.content.drops:
            line, why = self.content.drops[0]
            self.dropped = f"line {line}: {why}"

    @cached_property
    def entries(self) -> Entries:  # type: ignore[override]
        """The rules in effect, as ranges that do not overlap; empty for a file that is dropped."""
        return {} if self.dropped else self.entries_read

    @cached_property
    def entries_read(self) -> Entries:
        """The rules as if the file was not dropped."""
        return {
            collective: tuple(
                Entry(
                    collective,
                    block.comm_size.line,
                    first,
                    LARGEST_COMM_SIZE if last is None else last,
                    tuple(self._sized(block)),
                    named_size=block.comm_size.value,
                )
                for first, last, owner in self.communicators(section)
                if owner is not None
                for block in [section.blocks[owner]]
            )
            for collective, section in self.sections.items()
        }

    def communicators(self, section: Section) -> list[Piece]:
        """Return on which communicators each entry of a collective holds."""
        sizes = [as_int(block.comm_size.value) for block in section.blocks]
        if not self.by_ranges:
            return scanned(sizes, inherit=True)
        # 6.x takes the sizes for the ends of the entries before
        ends: list[int | None] = [*(size - 1 for size in sizes[:-1]), None]
        return ranged(list(zip([0, *sizes[:-1]], ends, strict=False))[: len(sizes)])

    def why(self, call: Call, entry: Entry, rule: Rule) -> str:
        first, last = entry.first_size, entry.last_size
        reach = f"{first} to {last} processes" if last < LARGEST_COMM_SIZE else f"{first} and more"
        return (
            f"the rule '{rule.text}' applies: it holds from "
            f"{counted(int(rule.text.split()[0]), 'byte')} on, and the library counts "
            f"{counted(self.compared(call), 'byte')} for this call. It belongs to the entry for "
            f"{counted(entry.named_size, 'process', 'es')}, which serves {reach}."
        )

    def _sized(self, block: Block) -> Iterator[Rule]:
        """Yield the rules of a block with the sizes that they are in effect for."""
        sizes = [rule.first for rule in block.rules]
        if self.by_ranges:
            ends = [size - 1 if size else None for size in sizes[1:]]
            pieces = ranged(list(zip(sizes, [*ends, None], strict=False)))
        else:
            pieces = scanned(sizes, inherit=False)
        for first, last, owner in pieces:
            if owner is not None:
                end = LARGEST_SIZE if last is None else last
                yield block.rules[owner]._replace(first=first, last=end)
