"""What errors say, by their codes."""

from __future__ import annotations

from itertools import groupby

from colltune.errors import EXIT_STATUSES, complaints
from docs._ext.markdown import code, heading, table, text


def markdown(_argument: str) -> str:
    """Return a table for each status that a command ends with."""
    told = sorted((c.error.exit_status, name, c) for name, c in complaints().items())
    parts = []
    for status, rows in groupby(told, key=lambda each: each[0]):
        cells = [(code(name), text(said.finding), text(said.mend)) for _, name, said in rows]
        title = "Any status" if status == 1 else f"Status {status}: {EXIT_STATUSES[status]}"
        parts.append(heading(2, title) + table(("code", "what it says", "mend"), cells))
    return "".join(parts)
