"""JSON that knows on which line everything stands, and keeps keys that stand twice.

Messages about a configuration file have to name lines, and the readers of MPI libraries take more
than the standard allows (trailing commas), which Python's own module tells neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError, loads
from typing import NamedTuple

from colltune.errors import ColltuneError

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    |(?P<mark>[{}\[\]:,])
    |(?P<string>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")
    |(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z_.+-]))
    |(?P<word>true|false|null)(?![0-9A-Za-z_])""",
    re.VERBOSE,
)
_DEEPEST = 100
_MOST_DIGITS = 300
Plain = str | int | float | bool | None


class JsonSyntaxError(ColltuneError):
    """Text that is no JSON; ``line`` is from 1 on."""

    def __init__(self, line: int, complaint: str) -> None:
        super().__init__(complaint)
        self.line = line


@dataclass(frozen=True)
class Node:
    """A value and the line where it begins: the members of an object, an array's items, or plain.

    Members are in the order written.
    """

    line: int
    plain: Plain = None
    members: tuple[Member, ...] = ()
    items: tuple[Node, ...] = ()
    is_object: bool = False
    is_array: bool = False


@dataclass(frozen=True)
class Member:
    """A key of an object, the line on which it stands, and its value."""

    key: str
    line: int
    node: Node


def parse(text: str, *, trailing_commas: bool = False) -> Node:
    """Return the value of `text`; with `trailing_commas` one may follow the last item."""
    parser = _Parser(text, trailing_commas)
    node = parser.value(0)
    if (after := parser.ahead) is not None:
        what = f"{after.text[:40]!r} follows after the end of the document"
        raise JsonSyntaxError(after.line, what)
    return node


class _Token(NamedTuple):
    kind: str
    text: str
    line: int

    def is_mark(self, mark: str) -> bool:
        return self.kind == "mark" and self.text == mark


class _Parser:
    def __init__(self, text: str, trailing_commas: bool) -> None:
        self.trailing_commas = trailing_commas
        self.last_line = text.count("\n") + 1
        self.tokens = _tokens(text)
        self.ahead = next(self.tokens, None)

    def take(self, what: str) -> _Token:
        token = self.ahead
        if token is None:
            raise JsonSyntaxError(self.last_line, f"the file ends where {what} should follow")
        self.ahead = next(self.tokens, None)
        return token

    def expect(self, mark: str) -> None:
        token = self.take(repr(mark))
        if token.text != mark:
            raise JsonSyntaxError(token.line, f"{token.text[:40]!r} in the place of {mark!r}")

    def value(self, depth: int) -> Node:
        token = self.take("a value")
        if depth > _DEEPEST:
            raise JsonSyntaxError(token.line, f"nested more than {_DEEPEST} levels deep")
        if token.is_mark("{"):
            members = tuple(self.member(depth) for _ in self.until("}"))
            return Node(token.line, members=members, is_object=True)
        if token.is_mark("["):
            items = tuple(self.value(depth + 1) for _ in self.until("]"))
            return Node(token.line, items=items, is_array=True)
        if token.kind == "mark":
            raise JsonSyntaxError(token.line, f"{token.text!r} in the place of a value")
        return Node(token.line, _plain(token))

    def member(self, depth: int) -> Member:
        key = self.take("a key")
        if key.kind != "string":
            raise JsonSyntaxError(key.line, f"{key.text[:40]!r} in the place of a key")
        self.expect(":")
        return Member(str(_plain(key)), key.line, self.value(depth + 1))

    def until(self, end: str) -> Iterator[None]:
        """Yield before each item of an object or array, and take its end."""
        while not (self.ahead and self.ahead.is_mark(end)):
            yield
            comma = self.ahead
            if comma is None or not comma.is_mark(","):
                break
            self.take("a comma")
            if self.ahead and self.ahead.is_mark(end) and not self.trailing_commas:
                raise JsonSyntaxError(comma.line, f"a comma before {end!r}")
        self.expect(end)


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            rest = text[at : at + 20].partition("\n")[0]
            raise JsonSyntaxError(line, f"{rest!r} is not JSON")
        if match.lastgroup != "blank":
            yield _Token(match.lastgroup, match[0], line)
        line += match[0].count("\n")
        at = match.end()


def _plain(token: _Token) -> Plain:
    if token.kind == "number" and len(token.text) > _MOST_DIGITS:
        raise JsonSyntaxError(token.line, f"a number of {len(token.text)} digits")
    try:
        value: Plain = loads(token.text)
    except JSONDecodeError as error:
        raise JsonSyntaxError(token.line, f"{token.text[:40]!r}: {error.msg}") from None
    return value
