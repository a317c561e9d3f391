"""What a classic rules file holds, as a release of Open MPI reads it.

The library reads with C's ``fscanf("%li")``; where that finds no number it skips one byte, and from
a ``#`` on the rest of the line (``ompi_coll_base_file_getnext_long``). So a sign alone is skipped,
``0x10`` is hexadecimal, ``010`` octal, ``9.5`` two numbers, ``089`` the numbers 0 and 89, and what
exceeds a long is the largest one. Counts say what follows
(``ompi_coll_tuned_read_rules_config_file``). The first thing that the library does not like makes
it drop the file; here reading goes on, so that everything can be told at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from colltune.mpi.openmpi.mca import as_int, bounded

LARGEST = 2**63 - 1
_NEXT = re.compile(
    r"[ \t\n\v\f\r]*"
    r"(?:(?P<number>[+-]?(?:0[xX][0-9a-fA-F]*|0[0-7]*|[1-9][0-9]*))"
    r"|[+-]?(?P<comment>\#[^\n]*\n?)"
    r"|[+-]?(?P<skipped>.)"
    r"|\Z)",
    re.DOTALL,
)
_SURELY_FITS = 19
_HEADER = "rule-file-version-"
_VERSION = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]*)")


@dataclass(frozen=True)
class Number:
    """A number of the file, its line (from 1 on), and whether it is the first one of that line.

    ``clamped`` tells that it was too large for a C long.
    """

    value: int
    line: int
    starts_line: bool
    clamped: bool


class Numbers:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        # up to where lines were counted, and the line of the number that was read last
        self._counted_to, self.line = 0, 1

    def version(self) -> int:
        """Consume a version header at the very start; return its version, 1 without one."""
        expected = 0
        while expected < len(_HEADER) and self._text[expected : expected + 1] == _HEADER[expected]:
            expected += 1
        self._at = expected
        if expected < len(_HEADER):
            return 1
        match = _VERSION.match(self._text, self._at)
        assert match is not None  # it matches the empty string
        self._at = match.end()
        if not match[2]:
            return 1
        # an unsigned int that is kept in a signed one
        return as_int(bounded(match[2], 10, 2**64 - 1) * (-1 if match[1] == "-" else 1))

    def next(self) -> Number | None:
        """Return the next number; None at the end."""
        while match := _NEXT.match(self._text, self._at):
            before, self._at = self._at, match.end()
            if match["number"] is not None:
                return self._number(match, before)
            if match["comment"] is None and match["skipped"] is None:
                break
        return None

    def digit_follows(self) -> bool:
        """Tell whether a digit follows on this line, after blanks and tabs, which it skips."""
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        following = self._text[self._at : self._at + 1]
        return following.isascii() and following.isdigit()

    def _number(self, match: re.Match[str], before: int) -> Number:
        start = match.start("number")
        self.line += self._text.count("\n", self._counted_to, start)
        self._counted_to = start
        value, clamped = _value(match["number"])
        starts_line = not before or "\n" in self._text[before - 1 : start]
        return Number(value, self.line, starts_line, clamped)


def _value(text: str) -> tuple[int, bool]:
    if len(text) < _SURELY_FITS and text[0] in "123456789":
        return int(text), False
    digits = text.lstrip("+-")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    limit = LARGEST + (text[0] == "-")
    value = bounded(digits[2:] if base == 16 else digits, base, limit + 1)
    kept = min(value, limit)
    return (-kept if text[0] == "-" else kept), value > limit


_LAST_ID = 21


@dataclass(frozen=True)
class MessageRule:
    """From ``size`` on, in the unit of the file: an algorithm with its values.

    ``requests`` is None where the rule has no such number; ``shifted`` tells that it starts in the
    middle of a line and runs on into the next one.
    """

    size: Number
    algorithm: Number
    fanout: Number
    segsize: Number
    requests: Number | None = None
    shifted: bool = False

    @property
    def line(self) -> int:
        return self.size.line

    @property
    def numbers(self) -> tuple[Number, ...]:
        found = (self.size, self.algorithm, self.fanout, self.segsize)
        return found if self.requests is None else (*found, self.requests)

    @property
    def text(self) -> str:
        return " ".join(str(number.value) for number in self.numbers)


@dataclass(frozen=True)
class Entry:
    """The rules for communicators of about ``comm_size`` processes."""

    comm_size: Number
    count: Number
    rules: list[MessageRule] = field(default_factory=list)


@dataclass(frozen=True)
class Section:
    """The rules of one collective, which is known by its number."""

    id: Number
    count: Number
    entries: list[Entry] = field(default_factory=list)


@dataclass
class Content:
    """All that a file holds.

    ``drops`` are lines and reasons for which the library drops the file; it stops at the first one.
    ``rest`` is the first number that stands behind the end and is never read, ``last_line`` where
    the last one stands that is read.
    """

    sections: list[Section] = field(default_factory=list)
    version: int = 1
    drops: list[tuple[int, str]] = field(default_factory=list)
    rest: Number | None = None
    last_line: int = 1


class _EndError(Exception):
    pass


def read(text: str, *, knows_header: bool) -> Content:
    """Return what `text` holds for a release that does or does not know the version header."""
    reader = _Reader(text)
    if knows_header:
        reader.found.version = reader.numbers.version()
    return reader.content()


class _Reader:
    def __init__(self, text: str) -> None:
        self.numbers, self.found = Numbers(text), Content()

    def drop(self, line: int, why: str) -> None:
        self.found.drops.append((line, why))

    def content(self) -> Content:
        try:
            count = self._next("the number of collectives")
            if count.value > _LAST_ID + 1:
                why = f"{count.value} collectives, but there are only {_LAST_ID + 1}"
                self.drop(count.line, why)
            for _ in range(count.value):
                self._section()
            self.found.last_line = self.numbers.line
            self.found.rest = self.numbers.next()
        except _EndError:
            self.found.last_line = self.numbers.line
        return self.found

    def _next(self, what: str, *, count: bool = False) -> Number:
        """Return the next number, which is `what` and must not be negative."""
        number = self.numbers.next()
        if number is None:
            mend = "a count before is too high or the file was cut"
            self.drop(self.numbers.line, f"the file ends where {what} should follow; {mend}")
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
        entry = Entry(size, self._next(what, count=True))
        section.entries.append(entry)
        for at in range(entry.count.value):
            rule = self._rule()
            entry.rules.append(rule)
            if not at and rule.size.value:
                why = f"the first message size is {rule.size.value}; start with a rule for 0"
                self.drop(rule.line, why)

    def _rule(self) -> MessageRule:
        size = self._next("a rule's message size")
        algorithm = self._next("a rule's algorithm")
        fanout = self._next("a rule's fan-out")
        segsize = last = self._next("a rule's segment size")
        requests = None
        if self.found.version > 1 and self.numbers.digit_follows():
            requests = last = self._next("a rule's limit of requests")
        shifted = not size.starts_line and last.line != size.line
        return MessageRule(size, algorithm, fanout, segsize, requests, shifted)
