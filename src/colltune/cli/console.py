"""What verbs print, JSON for machines and aligned columns for people, and where.

NO_COLOR (no-color.org) wins over FORCE_COLOR (force-color.org) and CLICOLOR_FORCE
(bixense.com/clicolors), these over what the stream is.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO

from colltune.domain import Collective, Configuration
from colltune.text import bytes_text, printable

_NO_TERMINAL = ("", "dumb", "unknown")
_LEAST_WRAPPED = 16
_NUMBER = re.compile(r"(above |from |[<>~+-])?\s*\d[\d.:_]*([x%\s]|$)")
_FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")


class Mark(StrEnum):
    """What a status means to its reader; on terminals it has a colour (ANSI escape code)."""

    GOOD = "32"
    DOUBTFUL = "33"
    BAD = "31"
    REMARK = "36"
    UNCHANGED = "2"


class _Marked(str):
    """Text with a mark."""

    __slots__ = ("mark",)
    mark: Mark


class Verbatim(str):
    """Lines to be copied, which are never wrapped: a command, a script, a secret."""

    __slots__ = ()


@dataclass(frozen=True)
class TextTable:
    """Rows of cells below a header, columns aligned (numbers to the right).

    Where the terminal is too narrow, the columns titled ``wrap`` are wrapped at words, then those
    titled ``drop`` are left out in that order, and at last every column is wrapped. No terminal
    shows columns without any value.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    wrap: Sequence[str] = ()
    drop: Sequence[str] = ()

    def __str__(self) -> str:
        return self.fitted(None)[0]

    def fitted(self, width: int | None) -> tuple[str, list[str]]:
        """Return the text, of at most `width` characters a line, and what columns it leaves out."""
        columns = [
            [title, *(_cell(row[at]) for row in self.rows)] for at, title in enumerate(self.header)
        ]
        if width is not None and self.rows:
            columns = [column for column in columns if any(column[1:])]
        room = width or sys.maxsize
        for most in range(len(self.drop) + 1):
            shown = [column for column in columns if column[0] not in self.drop[:most]]
            widths = [max(map(len, column)) for column in shown]
            wrapped = [column[0] in self.wrap for column in shown]
            least = [_LEAST_WRAPPED if w else n for w, n in zip(wrapped, widths, strict=True)]
            if _squeezed(widths, least, room):
                break
        else:
            _squeezed(widths, [1] * len(shown), room)
        return _laid_out(shown, widths), [c[0] for c in columns if c[0] in self.drop[:most]]


def _squeezed(widths: list[int], least: Sequence[int], width: int) -> bool:
    """Narrow the widest columns until all fit into `width`; tell whether `least` allows it."""
    while sum(widths) + 2 * (len(widths) - 1) > width:
        loose = [(w, at) for at, w in enumerate(widths) if w > least[at]]
        if not loose:
            return False
        widths[max(loose)[1]] -= 1
    return True


def _laid_out(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    numeric = [_is_numeric(column[1:]) for column in columns]
    lines = []
    for number, row in enumerate(zip(*columns, strict=True)):
        parts = [_broken(cell, width) for cell, width in zip(row, widths, strict=True)]
        for at in range(max(map(len, parts))):
            cells = (
                _aligned(part[at] if at < len(part) else "", width, cell, right=right)
                for part, width, cell, right in zip(parts, widths, row, numeric, strict=True)
            )
            lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _is_numeric(cells: Sequence[str]) -> bool:
    """Tell whether most of the cells that are not empty begin with a number (an id is none)."""
    filled = [cell for cell in cells if cell.strip("-")]
    return 2 * sum(bool(_NUMBER.match(cell)) for cell in filled) > len(filled)


def _broken(text: str, width: int) -> list[str]:
    """Return `text` in lines of at most `width` characters, parted at blanks where possible."""
    if len(text) <= width:
        return [text]
    from textwrap import wrap

    return wrap(text, width, break_on_hyphens=False)


def show_json(value: object) -> None:
    """Print `value` as one JSON document."""
    from colltune.json_text import encoded

    sys.stdout.write(encoded(value, indent=1) + "\n")


def output(
    facts: object, lines: Iterable[str | TextTable], *, json: bool, warnings: Iterable[str] = ()
) -> None:
    """Print `facts` as one JSON document, or else for people `warnings` and `lines`."""
    if json:
        show_json(facts)
        return
    for warning in warnings:
        warn(warning)
    width = terminal_width()
    left_out: dict[str, None] = {}
    for line in lines:
        if isinstance(line, TextTable):
            text, dropped = line.fitted(width)
            left_out |= dict.fromkeys(dropped)
            sys.stdout.write(f"{text}\n")
        else:
            show(line)
    if left_out:
        names = ", ".join(left_out)
        show(f"not shown for want of width: {names}; --json or a wider terminal has them")


def show(text: str = "") -> None:
    """Print a line, wrapped at words where a terminal is narrower than it."""
    sys.stdout.write(_wrapped(text, terminal_width()) + "\n")


def warn(text: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(_wrapped(f"colltune: {text}", terminal_width(sys.stderr)) + "\n")


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return how many characters a line of `stream` (default: stdout) holds; None for no terminal.

    COLUMNS says another number, as for most programs.
    """
    stream, asked = stream or sys.stdout, os.environ.get("COLUMNS", "")
    if not stream.isatty():
        return None
    if asked.isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def can_show_bars() -> bool:
    """Tell whether standard output is a terminal that has block characters."""
    return terminal_width() is not None and sys.stdout.encoding.lower().startswith("utf")


def _wrapped(text: str, width: int | None) -> str:
    """Return `text` in lines that fit into `width`; words are whole, continued lines indented."""
    if width is None or isinstance(text, Verbatim) or len(text) <= width:
        return text
    from textwrap import fill

    indents = (" " * (len(line) - len(line.lstrip()) + 2) for line in text.split("\n"))
    return "\n".join(
        fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line, indent in zip(text.split("\n"), indents, strict=True)
    )


def activation_lines(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a job that put a configuration file into effect, if any."""
    if variables:
        yield "to put it into effect, add to the job:"
    for name, value in variables.items():
        yield Verbatim(printable(f"  export {name}={shlex.quote(value)}"))


def _cell(value: object) -> str:
    return value if isinstance(value, _Marked) else printable(str(value))


def _aligned(text: str, width: int, cell: str, *, right: bool) -> str:
    shown = painted(text, cell.mark) if isinstance(cell, _Marked) else text
    blanks = " " * (width - len(text))
    return blanks + shown if right else shown + blanks


def marked(text: str, mark: Mark | None) -> str:
    """Return `text` as a cell of a `TextTable` that has a colour on terminals."""
    if mark is None:
        return text
    found = _Marked(text)
    found.mark = mark
    return found


def configuration_cell(configuration: Configuration, default: str = "default") -> str:
    """Return a configuration as a cell, dim where it is the library's own decision."""
    if configuration.is_default:
        return marked(default, Mark.UNCHANGED)
    return configuration.short


def painted(text: str, mark: Mark | None, stream: TextIO | None = None) -> str:
    """Return `text` in the colour of `mark` if `stream` (default: stdout) takes colours."""
    words = text.rstrip()
    if mark is None or not words or not takes_colours(stream or sys.stdout):
        return text
    return f"\x1b[{mark}m{words}\x1b[0m{text[len(words) :]}"


def message_text(collective: Collective, msize_bytes: int) -> str:
    """Return the size of a message for people: ``64 KiB per process``, ``100 B``."""
    size = bytes_text(msize_bytes)
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
