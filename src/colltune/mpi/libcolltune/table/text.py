"""What a decision table of libcolltune holds, how it is spelled and read: as a whole or not.

docs/reference/configuration-files.md tells the grammar; ``libcolltune/src/table.c`` is the
reader that counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError, LibraryError, say
from colltune.mpi.rules import LARGEST_SIZE, Entry, Layout, Numbers, Rule

VERSION = 1
HEAD = "colltune-table"
LIBRARY_CHOICE = 0
AGAIN = "select again from the bundle"
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_64_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class TableConfiguration:
    """A configuration of a table: its number, and the control variables if it is steered."""

    number: int
    configuration: Configuration
    settings: tuple[tuple[str, str], ...] = ()
    line: int = 0


def where(entry: Entry) -> str:
    """Return which communicators an entry is for, as the table spells it."""
    named = isinstance(entry.layout, Shape)
    return f"layout {entry.layout}" if named else f"size {entry.first_size}"


@dataclass(frozen=True)
class Content:
    library: str
    release: str
    shape: Shape
    unless: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    choices: Mapping[int, TableConfiguration] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()


def rendered(content: Content) -> str:
    body = "".join(f"{line}\n" for line in _lines(content))
    return f"{body}end {checksum(body.encode()):016x}\n"


def _lines(content: Content) -> Iterator[str]:
    yield f"{HEAD} {VERSION}"
    yield f"library {content.library} {content.release}"
    yield f"shape {content.shape}"
    yield from (f"unless {pattern}" for pattern in content.unless)
    yield from (f"but {pattern}" for pattern in content.but)
    for choice in content.choices.values():
        settings = "".join(f" {name}={value}" for name, value in choice.settings)
        yield f"configuration {choice.number} {choice.configuration.id}{settings}"
    for entry in content.entries:
        yield f"rules {entry.collective} {where(entry)}"
        yield from (f"{rule.first} {rule.numbers.algorithm}" for rule in entry.rules)


def checksum(content: bytes) -> int:
    """Return the FNV-1a hash of `content`, 64 bits."""
    found = _FNV_OFFSET
    for byte in content:
        found = (found ^ byte) * _FNV_PRIME & _64_BITS
    return found


MOST_PROCESSES = 2**31 - 1
_LONGEST_ID = 127
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_PATTERN = re.compile(r"[A-Za-z0-9_*?]+")
_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([\x21-\x7e]*)")
_SHAPE = re.compile(r"([1-9][0-9]{0,9})x([1-9][0-9]{0,9})")
_SUM = re.compile(r"[0-9a-f]{16}")
_BUNDLE = re.compile(r"sha256:[0-9a-f]{4,64}")


class Broken(Exception):  # noqa: N818 (no error: libcolltune ignores such a table and goes on)
    """Why libcolltune ignores a table, and on which line; 0 for the whole of it."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


def looks_like(text: str, library: str) -> bool:
    """Tell whether `text` begins as a table for `library` does, or as one for no library known."""
    lines = [line.rstrip("\r") for line in text.split("\n", 2)[:2]]
    words = lines[1].split(" ") if len(lines) > 1 else []
    return lines[0].startswith(f"{HEAD} ") and words[:2] == ["library", library]


def version_of(text: str, source: str) -> None:
    """Refuse what is no table of this version."""
    head = text.split("\n", 1)[0].rstrip("\r")
    if not head.startswith(f"{HEAD} "):
        what = "a decision table of libcolltune"
        raise say("begins-otherwise", file=source, what=what, start=HEAD)
    if head != f"{HEAD} {VERSION}":
        known = f"{HEAD} {VERSION}"
        raise say("format-version", LibraryError, place=source, version=head[:60], known=known)


def read(text: str) -> Content:
    """Return what a table says; see `version_of` for its first line."""
    lines = text.split("\n")
    if lines[-1] or len(lines) < 3:
        raise Broken(len(lines), "the last line has no end: the table was cut off")
    last = len(lines) - 1
    word, _, value = lines[last - 1].partition(" ")
    if word != "end" or not _SUM.fullmatch(value):
        raise Broken(last, "the checksum at the end is missing: the table was cut off")
    body = text[: len(text) - len(lines[last - 1]) - 1]
    if int(value, 16) != checksum(body.encode("utf-8", errors="surrogateescape")):
        raise Broken(last, "the checksum is wrong: the table was changed or damaged")
    reader = _Reader()
    for number, line in enumerate(lines[1 : last - 1], 2):
        reader.take(number, line)
    return reader.content(last)


@dataclass
class _Reader:
    library: str = ""
    release: str = ""
    shape: Shape | None = None
    patterns: dict[str, list[str]] = field(default_factory=lambda: {"unless": [], "but": []})
    choices: dict[int, TableConfiguration] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    def take(self, number: int, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "library":
            self._library(number, rest)
        elif word == "shape":
            if self.shape is not None:
                raise Broken(number, "a second shape")
            self.shape = _layout(number, rest)
        elif word == "bundle" and not _BUNDLE.fullmatch(rest):
            raise Broken(number, f"{_shown(rest)} is not a bundle's id")
        elif word in self.patterns:
            self._pattern(number, word, rest)
        elif word == "configuration":
            self._configuration(number, rest)
        elif word == "rules":
            self._rules(number, rest)
        elif word.isascii() and word.isdigit():
            self._step(number, line)
        elif word != "bundle":
            raise Broken(number, f"{_shown(line)} is not a line of a table")

    def _pattern(self, number: int, word: str, rest: str) -> None:
        if not _PATTERN.fullmatch(rest):
            raise Broken(number, f"{_shown(rest)} is not a pattern for names of variables")
        self.patterns[word].append(rest)

    def _library(self, number: int, rest: str) -> None:
        words = rest.split(" ")
        if number != 2 or len(words) != 2 or not all(words):
            raise Broken(number, "the second line must be: library NAME RELEASE")
        self.library, self.release = words

    def content(self, last: int) -> Content:
        if not self.library or self.shape is None:
            raise Broken(last, "the library or the shape is missing")
        self._close(last)
        unless, but = map(tuple, self.patterns.values())
        entries = tuple(self.entries)
        return Content(self.library, self.release, self.shape, unless, but, self.choices, entries)

    def _configuration(self, number: int, rest: str) -> None:
        words = rest.split(" ")
        if len(words) < 2 or _whole(number, words[0], MOST_PROCESSES) != len(self.choices) + 1:
            raise Broken(number, "configurations must be numbered from 1 on, each with its id")
        try:
            configuration = Configuration.parse(words[1])
        except DataError as error:
            raise Broken(number, str(error)[:200]) from None
        if configuration.is_default or len(words[1]) > _LONGEST_ID:
            raise Broken(number, f"{_shown(words[1])} is not allowed in a table")
        settings = []
        for word in words[2:]:
            match = _SETTING.fullmatch(word)
            if match is None:
                raise Broken(number, f"{_shown(word)} is not NAME=VALUE")
            settings.append((match[1], match[2]))
        choice = TableConfiguration(len(self.choices) + 1, configuration, tuple(settings), number)
        self.choices[choice.number] = choice

    def _rules(self, number: int, rest: str) -> None:
        self._close(number)
        words = rest.split(" ")
        if len(words) != 3 or words[1] not in ("size", "layout"):
            raise Broken(number, "write: rules COLLECTIVE size N, or layout NODESxPPN")
        try:
            collective = Collective(words[0])
        except ValueError:
            raise Broken(number, f"{_shown(words[0])} is not a collective") from None
        layout = _layout(number, words[2]) if words[1] == "layout" else None
        size = layout.nprocs if layout else _whole(number, words[2], MOST_PROCESSES)
        entry = Entry(collective, number, size, size, (), layout or Layout.ANY)
        if any(
            (entry.collective, where(entry)) == (other.collective, where(other))
            for other in self.entries
        ):
            raise Broken(number, f"a second block of rules for {collective} {where(entry)}")
        self.entries.append(entry)

    def _step(self, number: int, line: str) -> None:
        words = line.split(" ")
        if not self.entries or len(words) != 2:
            raise Broken(number, f"{_shown(line)} is not a rule: write FIRST_BYTES CONFIGURATION")
        entry = self.entries[-1]
        first, chosen = _whole(number, words[0], LARGEST_SIZE), _whole(number, words[1])
        before = entry.rules[-1].first if entry.rules else -1
        if first <= before or (before < 0 and first):
            raise Broken(number, "rules must start at 0 bytes and ascend")
        choice = self.choices.get(chosen)
        if chosen != LIBRARY_CHOICE and choice is None:
            raise Broken(number, f"configuration {chosen} is not defined above")
        if choice is not None and choice.configuration.collective is not entry.collective:
            raise Broken(number, f"configuration {chosen} belongs to another collective")
        default = Configuration.default(self.library, entry.collective)
        named = choice.configuration if choice is not None else default
        rule = Rule(number, line, entry.collective, named, first, numbers=Numbers(chosen))
        ended = (*entry.rules[:-1], *(r._replace(last=first - 1) for r in entry.rules[-1:]))
        self.entries[-1] = replace(entry, rules=(*ended, rule))

    def _close(self, number: int) -> None:
        if self.entries and not self.entries[-1].rules:
            raise Broken(number, "the block before has no rules")


def _whole(number: int, word: str, most: int = MOST_PROCESSES) -> int:
    if not _NUMBER.fullmatch(word) or int(word) > most:
        raise Broken(number, f"{_shown(word)} is not a number from 0 to {most}")
    return int(word)


def _layout(number: int, text: str) -> Shape:
    match = _SHAPE.fullmatch(text)
    if match is None or int(match[1]) * int(match[2]) > MOST_PROCESSES:
        raise Broken(number, f"{_shown(text)} is not a layout such as 4x2")
    return Shape(int(match[1]), int(match[2]))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
