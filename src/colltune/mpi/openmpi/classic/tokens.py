"""Numbers out of a classic rules file, exactly as Open MPI finds them.

The library reads with C's ``fscanf("%li")``; where that finds no number it skips one byte, and from
a ``#`` on the rest of the line (``ompi_coll_base_file_getnext_long``). So a sign alone is skipped,
``0x10`` is hexadecimal, ``010`` octal, ``9.5`` two numbers, ``089`` the numbers 0 and 89, and what
exceeds a long is the largest one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from colltune.mpi.openmpi.variables import bounded

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
    """The numbers of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted_to, self._line = 0, 1
        self.line = 1
        """Line of the number that was read last."""

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
        value = bounded(match[2], 10, 2**64 - 1) * (-1 if match[1] == "-" else 1) & 0xFFFFFFFF
        return value - (1 << 32) if value >> 31 else value

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
        self._line += self._text.count("\n", self._counted_to, start)
        self._counted_to = start
        self.line = self._line
        value, clamped = _value(match["number"])
        starts_line = not before or "\n" in self._text[before - 1 : start]
        return Number(value, self._line, starts_line, clamped)


def _value(text: str) -> tuple[int, bool]:
    if len(text) < _SURELY_FITS and text[0] in "123456789":
        return int(text), False
    digits = text.lstrip("+-")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    limit = LARGEST + (text[0] == "-")
    value = bounded(digits[2:] if base == 16 else digits, base, limit + 1)
    kept = min(value, limit)
    return (-kept if text[0] == "-" else kept), value > limit
