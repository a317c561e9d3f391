"""What verbs print: JSON for machines, aligned columns and progress for people."""

from __future__ import annotations

from colltune.cli.console.live import Progress, progress
from colltune.cli.console.printing import (
    Mark,
    bytes_text,
    columns,
    marked,
    painted,
    parse_pairs,
    printable,
    range_text,
    show,
    show_activation,
    show_json,
    time_text,
    warn,
)

__all__ = [
    "Mark",
    "Progress",
    "bytes_text",
    "columns",
    "marked",
    "painted",
    "parse_pairs",
    "printable",
    "progress",
    "range_text",
    "show",
    "show_activation",
    "show_json",
    "time_text",
    "warn",
]
