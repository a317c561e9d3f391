"""What errors say, by their codes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from colltune.errors import Complaint
from docs._ext.markdown import code, heading, table, text

_ROOMS = {
    "Settings": ("colltune.errors", "colltune.files.reading", "colltune.files.settings"),
    "Sites": ("colltune.retraining.complaints", "colltune.site.complaints"),
    "Measurements": ("colltune.dataset.complaints",),
    "Measuring": ("colltune.bench.complaints",),
    "MPI libraries and their files": ("colltune.mpi.complaints",),
    "Bundles and learning": ("colltune.models.complaints",),
    "Registries": ("colltune.registry.complaints",),
    "Tokens": ("colltune.server.auth.complaints",),
    "Task times of coll/han": ("colltune.han.complaints",),
}


def markdown(_argument: str) -> str:
    """Return a table for each room."""
    parts = []
    for title, modules in _ROOMS.items():
        rows = sorted(_rows(modules))
        parts.append(heading(2, title) + table(("code", "status", "what it says", "mend"), rows))
    return "".join(parts)


def _rows(modules: tuple[str, ...]) -> Iterator[tuple[str, str, str, str]]:
    for module in modules:
        for each in vars(importlib.import_module(module)).values():
            if isinstance(each, Complaint):
                # a kind that several rooms share ends with the status of each
                status = "" if each.error.exit_status == 1 else str(each.error.exit_status)
                yield code(each.code), status, text(each.finding), text(each.mend)
