"""Finds numbers and words in rules files as the library's reader does (``coll_base_util.c``).

It reads with C's ``fscanf("%li")``; where that finds no number it skips one byte, and from a ``#``
on the rest of the line. So a sign alone is skipped, ``0x10`` is hexadecimal, ``010`` octal, ``9.5``
two numbers, ``089`` the numbers 0 and 89, and what exceeds a long is the largest one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from colltune.mpi.openmpi.mca import as_int, bounded

_LARGEST = 2**63 - 1


def _next(number: str) -> re.Pattern[str]:
    return re.compile(
        rf"[ \t\n\v\f\r]*(?:(?P<number>[+-]?(?:{number}))"
        r"|[+-]?(?P<comment>\#[^\n]*\n?)|[+-]?(?P<skipped>.)|\Z)",
        re.DOTALL,
    )


_LONG, _DECIMAL = _next("0[xX][0-9a-fA-F]*|0[0-7]*|[1-9][0-9]*"), _next("[0-9]+")
_WORD = re.compile(r"(?:\s|#[^\n]*)*+([^\s#]\S{0,31})", re.ASCII)
_BETWEEN = re.compile(r"(?:[ \n\t]|#[^\n]*)*+")
_SURELY_FITS = 19
_HEADER = "rule-file-version-"
_VERSION = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]*)")
_MOST_SHOWN = 40


class Number(NamedTuple):
    """A number of the file, its line (from 1 on), and whether it is the first one of that line.

    ``clamped`` tells that it was too large for a C long.
    """

    value: int
    clamped: bool
    line: int
    starts_line: bool


class Scanner:
    """A place in a text.

    ``line`` is where the last number or word began, ``skipped`` what stood before the last number.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at, self.line = text, 0, 1
        self.skipped = ""
        self._counted_to = 0

    def version(self) -> int:
        """Consume a version header at the very start; return its version, 1 without one."""
        while self.at < len(_HEADER) and self.text[self.at : self.at + 1] == _HEADER[self.at]:
            self.at += 1
        if self.at < len(_HEADER):
            return 1
        match = _VERSION.match(self.text, self.at)
        assert match is not None  # it matches the empty string
        self.at = match.end()
        if not match[2]:
            return 1
        # an unsigned int that is kept in a signed one
        return as_int(bounded(match[2], 10, 2**64 - 1) * (-1 if match[1] == "-" else 1))

    def number(self) -> Number | None:
        """Return the next ``long``; None at the end."""
        plain = _PLAIN.match(self.text, self.at)
        if plain is not None:
            blanks, number = plain.groups()
            starts_line = "\n" in blanks or not self.at or self.text[self.at - 1] == "\n"
            self.at, self.skipped = plain.end(), ""
            self._mark(plain.start(2))
            return Number(int(number), False, self.line, starts_line)
        match = self._numeric(_LONG)
        if match is None:
            return None
        before, start = match.start(), match.start("number")
        starts_line = not before or "\n" in self.text[before - 1 : start]
        return Number(*_value(match["number"]), self.line, starts_line)

    def plain_line(self) -> tuple[int, int, int, int] | None:
        """Return the next four numbers if they are all that stands on their line, ``line``."""
        match = _PLAIN_LINE.match(self.text, self.at)
        if match is None or (self.at and "\n" not in match[1] and self.text[self.at - 1] != "\n"):
            return None
        self.at, self.skipped = match.end(), ""
        self._mark(match.start(2))
        return int(match[2]), int(match[3]), int(match[4]), int(match[5])

    def size(self) -> int | None:
        """Return the next decimal number, a negative one as 64 bits without a sign take it."""
        match = self._numeric(_DECIMAL)
        if match is None:
            return None
        value = bounded(match["number"].lstrip("+-"), 10, 2**64 - 1)
        return (2**64 - value) % 2**64 if match["number"].startswith("-") else value

    def word(self) -> str | None:
        """Return the next word, of at most 32 characters; None at the end."""
        match = _WORD.match(self.text, self.at)
        if match is None:
            return None
        self._mark(match.start(1))
        self.at = match.end()
        return match[1]

    def takes(self, mark: str) -> bool:
        """Take `mark` if it is the next character after blanks, line feeds and comments."""
        match = _BETWEEN.match(self.text, self.at)
        self.at = match.end() if match is not None else self.at
        if not self.text.startswith(mark, self.at):
            return False
        self.at += 1
        return True

    def digit_follows(self) -> bool:
        """Tell whether a digit follows on this line, after blanks and tabs, which it skips."""
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        following = self.text[self.at : self.at + 1]
        return following.isascii() and following.isdigit()

    @property
    def last_line(self) -> int:
        return self.text.count("\n") + 1

    def _numeric(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.skipped = ""
        while match := pattern.match(self.text, self.at):
            self.at = match.end()
            if match["number"] is not None:
                self._mark(match.start("number"))
                return match
            if match["skipped"] is not None and len(self.skipped) < _MOST_SHOWN:
                self.skipped += match[0].strip()
            elif match["comment"] is None and match["skipped"] is None:
                break
        return None

    def _mark(self, at: int) -> None:
        self.line += self.text.count("\n", self._counted_to, at)
        self._counted_to = at


# what nearly all numbers of a file are, which need no more than this
_PLAIN_NUMBER = "([1-9][0-9]{0,17}|0)"
_PLAIN = re.compile(rf"([ \t\n]*){_PLAIN_NUMBER}(?=[ \t\n])")
_PLAIN_LINE = re.compile(
    rf"([ \t\n]*){_PLAIN_NUMBER}[ \t]+{_PLAIN_NUMBER}[ \t]+{_PLAIN_NUMBER}[ \t]+{_PLAIN_NUMBER}"
    r"(?=[ \t]*\n)"
)


def _value(text: str) -> tuple[int, bool]:
    """Return what a C long keeps of a number, and whether that was too large for it."""
    if len(text) < _SURELY_FITS and text[0] in "123456789":
        return int(text), False
    digits = text.lstrip("+-")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    limit = _LARGEST + (text[0] == "-")
    value = bounded(digits[2:] if base == 16 else digits, base, limit + 1)
    kept = min(value, limit)
    return (-kept if text[0] == "-" else kept), value > limit
