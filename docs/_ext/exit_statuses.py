"""The exit statuses of the command line."""

from __future__ import annotations

from colltune.errors import EXIT_STATUSES
from docs._ext.markdown import table, text


def markdown(_argument: str) -> str:
    """Return a table of all exit statuses."""
    rows = ((str(status), text(meaning)) for status, meaning in EXIT_STATUSES.items())
    return table(("status", "meaning"), rows)
