"""Settings out of Open MPI's parameter files, ``--tune`` files and listings of an environment.

The library's lexer (``keyval_lex.l``) takes ``name = value`` up to the end of the line, and ``--mca
name value`` and ``-x NAME=VALUE``, several to a line, with a value up to the next blank unless it
is quoted; of three values of a line in equal quotes the first one swallows the second. Comments
begin a line with ``#`` or ``//``, or stand between ``/*`` and ``*/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from colltune.mpi.openmpi.variables import PREFIX


class Kind(StrEnum):
    """How a setting is written."""

    ASSIGNED = "name = value"
    OPTION = "--mca name value"
    SINGLE_DASH = "-mca name value"
    EXPORTED = "-x NAME=VALUE"
    VARIABLE = "export OMPI_MCA_name=value"


@dataclass(frozen=True)
class Setting:
    """A parameter, by its name without prefix, with its value and line.

    ``rest`` is what stands behind a value and is not part of it.
    """

    name: str
    value: str
    line: int
    kind: Kind
    rest: str = ""

    @property
    def text(self) -> str:
        """``name=value``, for messages."""
        return f"{self.name}={self.value}"


@dataclass
class Settings:
    """All settings of a file in their order, and the lines that are none."""

    found: list[Setting] = field(default_factory=list)
    others: list[tuple[int, str]] = field(default_factory=list)


_BLOCK_COMMENT = re.compile(r"^[ \t]*/\*.*?(?:\*/|\Z)", re.DOTALL | re.MULTILINE)
_ASSIGNED = re.compile(r"([A-Za-z0-9_.\-\[\]/\\\"~+]+)[ \t]*=[ \t]*(.*)")
_VARIABLE = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)")
_OPTION = re.compile(
    r"[ \t]*(?:(?P<dash>--?)o?mca[ \t]+(?P<name>[^ \t=]+)[ \t]+"
    # a quotation goes on to the last mark of its kind that another option follows
    r"(?P<value>'.*'(?=[ \t]+-)|\".*\"(?=[ \t]+-)|'[^']*'|\"[^\"]*\"|[^ \t]+)"
    r"|--?x[ \t]+(?P<variable>[A-Za-z_][A-Za-z0-9_]*)(?:[ \t]*=[ \t]*(?P<exported>[^ \t]*))?)"
)
_LONGEST_LINE = 100_000


def read(text: str) -> Settings:
    """Return the settings of `text`."""
    settings = Settings()
    plain = _BLOCK_COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text.removeprefix("\ufeff"))
    for number, line in enumerate(plain.split("\n"), start=1):
        stripped = line.strip(" \t\f\v")
        if not stripped.strip() or stripped.startswith(("#", "//")):
            continue
        found = list(_of_line(stripped[:_LONGEST_LINE], number))
        settings.found += found
        if not found:
            settings.others.append((number, stripped))
    return settings


def _of_line(line: str, number: int) -> Iterator[Setting]:
    if line.startswith("-"):
        yield from _options(line, number)
        return
    variable = _VARIABLE.fullmatch(line)
    exported = line.startswith("export") and line[6:7].isspace()
    if variable is not None and (exported or line.startswith(PREFIX)):
        if variable["name"].startswith(PREFIX):
            name = variable["name"].removeprefix(PREFIX)
            yield Setting(name, _unquoted(variable["value"].strip()), number, Kind.VARIABLE)
        return
    assigned = _ASSIGNED.fullmatch(line)
    if assigned is not None:
        yield Setting(assigned[1], assigned[2], number, Kind.ASSIGNED)


def _options(line: str, number: int) -> Iterator[Setting]:
    """Yield the options of a line; what follows the last one is its rest."""
    at, found = 0, list[Setting]()
    while match := _OPTION.match(line, at):
        at = match.end()
        if match["name"]:
            kind = Kind.OPTION if match["dash"] == "--" else Kind.SINGLE_DASH
            found.append(Setting(match["name"], _unquoted(match["value"]), number, kind))
        elif match["variable"].startswith(PREFIX) and match["exported"] is not None:
            name = match["variable"].removeprefix(PREFIX)
            found.append(Setting(name, match["exported"], number, Kind.EXPORTED))
        else:
            found.append(Setting("", match["variable"], number, Kind.EXPORTED))
    rest = line[at:].strip()
    if found and rest:
        last = found.pop()
        found.append(Setting(last.name, last.value, number, last.kind, rest))
    yield from found


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
