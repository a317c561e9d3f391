"""What a program printed, without what launchers, terminals and mails put before its lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from colltune.errors import say

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_DATE = r"[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d"
_KINDS = (
    r"\[(?:[^\]\s]*@)?\d+,(?P<rank>\d+)\]<std(?:out|err)>: ?",
    r"(?:[A-Z][a-z]{2} )?" + _DATE + r"(?: [A-Z]{3,4})? \d{4}(?:<std(?:out|err)>:)?[: ]?",
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?:[ \t]|$)",
    _DATE + r" [A-Za-z][\w.-]*(?:\[\d+\])?:(?:[ \t]|$)",
    _DATE + r":?(?:[ \t]|$)",
    r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?:?(?:[ \t]|$)",
    r"\[ *\d+\.\d+\]:?(?:[ \t]|$)",
    r" *(?P<rank>\d+):(?: |$)",
    r"\[(?P<rank>\d+)\](?: |$)",
    r"[A-Za-z][\w.-]*\d[\w.-]*: ",
    r">(?: |$)",
    r"[|](?: |$)",
    r"[ \t]+",
)
_PREFIXES = tuple(re.compile(kind) for kind in _KINDS)
TITLES = ("#", "START mpiBench")
"""What lines begin with that tell a benchmark."""
_LAST_LINE = 20_000
"""A prefix begins before it, or never."""
_SHORT, _MOST_TITLES = 20, 1000


def without_prefixes(lines: Iterable[str], name: str) -> Iterator[str]:
    """Yield the lines of the file `name` as the program printed them, which are as many.

    The prefixes before the first comment are those of the whole file: ranks and times of launchers,
    marks of mails, indentation. Colours of a terminal are left out everywhere.

    Raises
    ------
    DataError
        If several processes printed the same titles: each ran alone.
    """
    kinds: tuple[re.Pattern[str], ...] = ()
    titles: dict[str, str] = {}
    for number, raw in enumerate(lines, start=1):
        line = _COLOUR.sub("", raw) if "\x1b" in raw else raw
        if not kinds and number <= _LAST_LINE and not line.startswith(TITLES):
            kinds = _before_comment(line)
        if not kinds:
            yield line
            continue
        bare, rank = _stripped(line, kinds)
        if rank and bare.startswith(TITLES) and len(bare) > _SHORT and len(titles) < _MOST_TITLES:
            first = titles.setdefault(bare, rank)
            if first != rank:
                raise say("each-alone", name=name, number=number, rank=rank, first=first)
        yield bare


def without_common_prefixes(lines: Sequence[str]) -> list[str]:
    """Return the lines of a table, which has no comments, without what is before all of them."""
    found = list(lines)
    while kind := next((k for k in _PREFIXES if found and all(map(k.match, found))), None):
        rest = [_stripped(line, [kind])[0] for line in found]
        if rest == found:
            break
        found = rest
    return found


def _before_comment(line: str) -> tuple[re.Pattern[str], ...]:
    """Return the kinds of prefixes between the begin of a line and a ``#``; none otherwise."""
    found, at = list[re.Pattern[str]](), 0
    while not line.startswith(TITLES, at):
        kind = next((kind for kind in _PREFIXES if kind.match(line[at:])), None)
        match = kind.match(line[at:]) if kind else None
        if kind is None or match is None or not match.end():
            return ()
        found.append(kind)
        at += match.end()
    return tuple(dict.fromkeys(found))


def _stripped(line: str, kinds: Iterable[re.Pattern[str]]) -> tuple[str, str]:
    """Return a line without its prefixes, in the order of `kinds`, and the process they name."""
    end = "\n" if line.endswith("\n") else ""
    text, rank = line.removesuffix("\n").removesuffix("\r"), ""
    for kind in kinds:
        if match := kind.match(text):
            rank = match.groupdict().get("rank") or rank
            text = text[match.end() :]
    return text + end, rank
