"""What verbs print: results, and meanwhile progress."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from colltune.cli.console.printing import (
    Mark,
    bytes_text,
    columns,
    marked,
    painted,
    printable,
    range_text,
    show,
    show_activation,
    show_json,
    time_text,
    warn,
)

if TYPE_CHECKING:
    from colltune.cli.console.live import Progress

__all__ = [
    "Mark",
    "Progress",
    "bytes_text",
    "columns",
    "marked",
    "painted",
    "printable",
    "progress",
    "range_text",
    "show",
    "show_activation",
    "show_json",
    "time_text",
    "warn",
]


def progress(
    title: str, *, quiet: bool, interrupted: str = "nothing was written"
) -> AbstractContextManager[Progress]:
    """Show the progress that is told to what this yields; see `console.live.progress`."""
    # cold starts of verbs that show none are to stay quick
    from colltune.cli.console import live

    return live.progress(title, quiet=quiet, interrupted=interrupted)
