"""JSON that knows on which line everything stands, and keeps keys that stand twice.

Messages about a configuration file have to name lines, and the readers of MPI libraries take more
than the standard allows (trailing commas), which Python's own module tells neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError, loads

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
_WORDS = {"true": True, "false": False, "null": None}
Plain = str | int | float | bool | None


class JsonSyntaxError(ColltuneError):
    """Text that is no JSON; ``line`` is from 1 on."""

    def __init__(self, line: int, complaint: str) -> None:
        super().__init__(complaint)
        self.line = line


@dataclass(frozen=True)
class Node:
    """A value: an object's `Member` tuple, an array's `Node` tuple, or a plain value.

    ``line`` is where it begins, ``end_line`` where an object or array ends.
    """

    value: tuple[Member, ...] | tuple[Node, ...] | Plain
    line: int
    end_line: int
    is_object: bool = False

    @property
    def is_array(self) -> bool:
        return isinstance(self.value, tuple) and not self.is_object

    @property
    def members(self) -> tuple[Member, ...]:
        """The members of an object, in the order written; nothing for anything else."""
        if not self.is_object or not isinstance(self.value, tuple):
            return ()
        return tuple(m for m in self.value if isinstance(m, Member))

    @property
    def items(self) -> tuple[Node, ...]:
        """The elements of an array; nothing for anything else."""
        if self.is_object or not isinstance(self.value, tuple):
            return ()
        return tuple(n for n in self.value if isinstance(n, Node))

    @property
    def plain(self) -> Plain:
        """The plain value; None for an object or array."""
        return None if isinstance(self.value, tuple) else self.value


@dataclass(frozen=True)
class Member:
    """A key of an object, the line on which it stands, and its value."""

    key: str
    line: int
    node: Node


def parse(text: str, *, trailing_commas: bool = False) -> Node:
    """Return the value that `text` holds.

    Parameters
    ----------
    text
        One JSON document.
    trailing_commas
        Whether a comma may follow the last member or element.
    """
    parser = _Parser(text, trailing_commas)
    node = parser.value(0)
    parser.finish()
    return node


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


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

    def expect(self, mark: str) -> _Token:
        token = self.take(repr(mark))
        if token.text != mark:
            raise JsonSyntaxError(token.line, f"{token.text[:40]!r} where {mark!r} should stand")
        return token

    def is_next(self, mark: str) -> bool:
        return self.ahead is not None and self.ahead.kind == "mark" and self.ahead.text == mark

    def finish(self) -> None:
        if self.ahead is not None:
            raise JsonSyntaxError(
                self.ahead.line, f"{self.ahead.text[:40]!r} follows after the end of the document"
            )

    def value(self, depth: int) -> Node:
        token = self.take("a value")
        if depth > _DEEPEST:
            raise JsonSyntaxError(token.line, f"nested more than {_DEEPEST} levels deep")
        if token.text == "{" and token.kind == "mark":
            return self.object(token.line, depth)
        if token.text == "[" and token.kind == "mark":
            return self.array(token.line, depth)
        if token.kind == "mark":
            raise JsonSyntaxError(token.line, f"{token.text!r} where a value should stand")
        return Node(_plain(token), token.line, token.line)

    def object(self, line: int, depth: int) -> Node:
        members: list[Member] = []
        while not self.is_next("}"):
            key = self.take("a key")
            if key.kind != "string":
                raise JsonSyntaxError(key.line, f"{key.text[:40]!r} where a key should stand")
            self.expect(":")
            members.append(Member(str(_plain(key)), key.line, self.value(depth + 1)))
            if not self.another("}"):
                break
        return Node(tuple(members), line, self.expect("}").line, is_object=True)

    def array(self, line: int, depth: int) -> Node:
        items: list[Node] = []
        while not self.is_next("]"):
            items.append(self.value(depth + 1))
            if not self.another("]"):
                break
        return Node(tuple(items), line, self.expect("]").line)

    def another(self, end: str) -> bool:
        """Take a comma, if one follows, and tell so."""
        if not self.is_next(","):
            return False
        comma = self.take("a comma")
        if self.is_next(end) and not self.trailing_commas:
            raise JsonSyntaxError(comma.line, f"a comma before {end!r}")
        return True


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            rest = text[at : at + 20].partition("\n")[0]
            raise JsonSyntaxError(line, f"{rest!r} is no JSON")
        if match.lastgroup != "blank":
            yield _Token(match.lastgroup, match[0], line)
        line += match[0].count("\n")
        at = match.end()


def _plain(token: _Token) -> Plain:
    if token.kind == "word":
        return _WORDS[token.text]
    if token.kind == "number" and len(token.text) > _MOST_DIGITS:
        raise JsonSyntaxError(token.line, f"a number of {len(token.text)} digits")
    try:
        value: Plain = loads(token.text)
    except JSONDecodeError as error:
        raise JsonSyntaxError(token.line, f"{token.text[:40]!r}: {error.msg}") from None
    return value
