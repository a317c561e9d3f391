"""What verbs print: JSON for machines, aligned columns or rich progress for people."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from colltune.selector.report.html.wording import bytes_text, printable, time_text

__all__ = [
    "bytes_text",
    "columns",
    "counted_progress",
    "parse_pairs",
    "printable",
    "range_text",
    "show",
    "show_activation",
    "show_json",
    "time_text",
    "timed_progress",
    "warn",
]


def show_json(value: object) -> None:
    """Print `value` as one JSON document."""
    sys.stdout.write(json.dumps(value, indent=1, sort_keys=False, allow_nan=False) + "\n")


def show(text: str = "") -> None:
    """Print a line."""
    sys.stdout.write(text + "\n")


def warn(text: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(f"colltune: {text}\n")


def show_activation(variables: Mapping[str, str]) -> None:
    """Print the lines of a job that put a configuration file into effect, if any."""
    if variables:
        show("to put it into effect, add to the job:")
    for name, value in variables.items():
        show(printable(f"  export {name}={shlex.quote(value)}"))


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in plain text, columns aligned (numbers to the right)."""
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = [
        "  ".join(_aligned(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _aligned(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)


def range_text(first_bytes: int, last_bytes: int | None) -> str:
    """Return a message-size range for people: ``0 .. 4095``, ``from 1 MiB``."""
    if last_bytes is None:
        return f"from {bytes_text(first_bytes)}"
    return f"{bytes_text(first_bytes)} .. {bytes_text(last_bytes)}"


@contextmanager
def timed_progress(total_s: float, *, quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """Show a bar of the time budget; yield a function to be called with what is going on.

    Silent when `quiet` or when standard error is no terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _what, _spent_s: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    started = time.monotonic()
    text = TextColumn("{task.description}")
    with Progress(
        text, BarColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("starting", total=total_s)

        def report(what: str, _spent_s: float) -> None:
            spent_s = min(total_s, time.monotonic() - started)
            bar.update(task, completed=spent_s, description=what)

        yield report


@contextmanager
def counted_progress(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar of counted work; yield a function to be called with (done, total)."""
    if quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report


def parse_pairs(options: Sequence[str], flag: str) -> dict[str, str]:
    """Return the pairs of repeated ``NAME=VALUE`` options.

    Raises
    ------
    DataError
        If one is not of that form.
    """
    from colltune.errors import DataError

    pairs: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise DataError(f"{flag} {option!r} is not NAME=VALUE")
        pairs[name] = value
    return pairs
