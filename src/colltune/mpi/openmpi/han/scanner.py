"""Reads numbers and words from a text as Open MPI does (``coll_base_util.c``).

``fscanf`` reads a number wherever one begins; what is none is skipped character by character. Both
skip blanks and line ends; ``#`` starts a comment.
"""

from __future__ import annotations

import re

_BLANKS = re.compile(r"[ \t\n\v\f\r]*")
_LONG = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)")
_DECIMAL = re.compile(r"[+-]?[0-9]+")
_WORD = re.compile(r"[^ \t\n\v\f\r]{1,32}")
_LARGEST, _LARGEST_SIZE = 2**63 - 1, 2**64 - 1


class Scanner:
    """A place in a text; ``line`` is where the last number or word began."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.line = text, 0, 1
        self._counted = 0
        self._line_here = 1
        self.skipped = ""

    def number(self) -> int | None:
        """Return the next ``long``, decimal, octal or hexadecimal; None at the end."""
        found = self._numeric(_LONG)
        if found is None:
            return None
        digits = found.lstrip("+-")
        base = 16 if digits[:2].lower() == "0x" else 8 if digits.startswith("0") else 10
        if base == 8 and re.search("[89]", digits):
            # the octal number ends before such a digit, where the next one begins
            end = re.search("[89]", digits)
            assert end is not None  # (just found)
            self.at -= len(digits) - end.start()
            digits = digits[: end.start()]
        value = _limited(digits, base)
        return -value if found.startswith("-") else value

    def size(self) -> int | None:
        """Return the next decimal number, a negative one as 64 bits without a sign take it."""
        found = self._numeric(_DECIMAL)
        if found is None:
            return None
        value = min(_limited(found.lstrip("+-"), 10, 2**64), _LARGEST_SIZE)
        return (2**64 - value) % 2**64 if found.startswith("-") else value

    def word(self) -> str | None:
        """Return the next word, of at most 32 characters; None at the end."""
        while True:
            self.at = self._after(_BLANKS)
            match = _WORD.match(self.text, self.at)
            if match is None:
                return None
            self._mark(self.at)
            self.at = match.end()
            if not match[0].startswith("#"):
                return match[0]
            self._skip_line()

    def takes(self, mark: str) -> bool:
        """Take `mark` if it is the next character after blanks, line feeds and comments."""
        while self.at < len(self.text):
            character = self.text[self.at]
            self.at += 1
            if character == "#":
                self._skip_line()
            elif character == mark:
                return True
            elif character not in "\n \t":
                self.at -= 1
                return False
        return False

    @property
    def last_line(self) -> int:
        """The last line of the text."""
        return self.text.count("\n") + 1

    def _numeric(self, pattern: re.Pattern[str]) -> str | None:
        self.skipped = ""
        while True:
            self.at = self._after(_BLANKS)
            if self.at >= len(self.text):
                return None
            match = pattern.match(self.text, self.at)
            if match is not None:
                self._mark(self.at)
                self.at = match.end()
                return match[0]
            character = self.text[self.at]
            self.at += 1
            if character == "#":
                self._skip_line()
            elif len(self.skipped) < 40:
                self.skipped += character

    def _after(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        return match.end() if match is not None else self.at

    def _skip_line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end + 1

    def _mark(self, at: int) -> None:
        if at < self._counted:
            self._counted, self._line_here = 0, 1
        self._line_here += self.text.count("\n", self._counted, at)
        self._counted = at
        self.line = self._line_here


def _limited(digits: str, base: int, limit: int = _LARGEST) -> int:
    # digits by the thousand are as good as the limit
    return limit if len(digits) > 400 and digits.strip("0") else min(int(digits, base), limit)
