"""What verbs print, JSON for machines and aligned columns for people, and where.

NO_COLOR (no-color.org) wins over FORCE_COLOR (force-color.org) and CLICOLOR_FORCE
(bixense.com/clicolors), these over what the stream is.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TextIO

from colltune.domain import Collective, Configuration, Shape
from colltune.text import bytes_text, printable

_NO_TERMINAL = ("", "dumb", "unknown")
_FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")


class Mark(StrEnum):
    """What a status means to its reader; on terminals it has a colour (ANSI escape code)."""

    GOOD = "32"
    DOUBTFUL = "33"
    BAD = "31"
    REMARK = "36"


class _Marked(str):
    """Text with a mark."""

    __slots__ = ("mark",)
    mark: Mark


def show_json(value: object) -> None:
    """Print `value` as one JSON document."""
    sys.stdout.write(json.dumps(value, indent=1, allow_nan=False, default=_plain) + "\n")


def _plain(value: object) -> object:
    """Return what stands for a value of ours in JSON."""
    if isinstance(value, Configuration):
        return value.id
    if isinstance(value, Shape | Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    return dict(vars(value))


def output(
    facts: object, lines: Iterable[str], *, json: bool, warnings: Iterable[str] = ()
) -> None:
    """Print `facts` as one JSON document, or else for people `warnings` and `lines`."""
    if json:
        show_json(facts)
        return
    for warning in warnings:
        warn(warning)
    for line in lines:
        show(line)


def show(text: str = "") -> None:
    """Print a line."""
    sys.stdout.write(text + "\n")


def warn(text: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(f"colltune: {text}\n")


def activation_lines(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a job that put a configuration file into effect, if any."""
    if variables:
        yield "to put it into effect, add to the job:"
    for name, value in variables.items():
        yield printable(f"  export {name}={shlex.quote(value)}")


def columns(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in plain text, columns aligned (numbers to the right)."""
    table = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(_aligned(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _cell(value: object) -> str:
    return value if isinstance(value, _Marked) else printable(str(value))


def _aligned(cell: str, width: int) -> str:
    text = cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
    return painted(text, cell.mark) if isinstance(cell, _Marked) else text


def marked(text: str, mark: Mark | None) -> str:
    """Return `text` as a cell for `columns` that has a colour on terminals."""
    if mark is None:
        return text
    found = _Marked(text)
    found.mark = mark
    return found


def painted(text: str, mark: Mark | None, stream: TextIO | None = None) -> str:
    """Return `text` in the colour of `mark` if `stream` (default: stdout) takes colours."""
    words = text.rstrip()
    if mark is None or not words or not takes_colours(stream or sys.stdout):
        return text
    return f"\x1b[{mark}m{words}\x1b[0m{text[len(words) :]}"


def range_text(first_bytes: int, last_bytes: int | None) -> str:
    """Return a message-size range for people: ``0 .. 4095``, ``from 1 MiB``."""
    if last_bytes is None:
        return f"from {bytes_text(first_bytes)}"
    return f"{bytes_text(first_bytes)} .. {bytes_text(last_bytes)}"


def message_text(collective: Collective, msize_bytes: int) -> str:
    """Return the size of a message for people: ``64 KiB per process``, ``100 bytes``."""
    text = bytes_text(msize_bytes)
    size = f"{text} bytes" if text.isdigit() else text
    return f"{size} per process" if collective.has_block_per_rank else size


def can_redraw(stream: TextIO) -> bool:
    """Tell whether `stream` is a terminal on which lines can be replaced by others."""
    return stream.isatty() and os.environ.get("TERM", "") not in _NO_TERMINAL


def takes_colours(stream: TextIO) -> bool:
    """Tell whether text on `stream` is to be coloured."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = [os.environ[name] for name in _FORCING if os.environ.get(name)]
    if forced:
        return any(value != "0" for value in forced)
    return os.environ.get("CLICOLOR") != "0" and can_redraw(stream)


def in_background(stream: TextIO) -> bool:
    """Tell whether the shell has given `stream`'s terminal to another job meanwhile."""
    try:
        return os.tcgetpgrp(stream.fileno()) != os.getpgrp()
    except (OSError, ValueError):
        return False
