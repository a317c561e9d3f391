"""Our own library, ``libcolltune``: preloaded, it runs collectives over any MPI library."""

from __future__ import annotations

import shlex

from colltune.domain import INTERPOSED, Configuration

PRELOAD = "LD_PRELOAD"


def is_libcolltune(configuration: Configuration) -> bool:
    return configuration.library == INTERPOSED


def assignment(name: str, value: str) -> str:
    """Return ``NAME=value`` for a shell; what is preloaded stands behind what the user preloads."""
    kept = f'"${{{PRELOAD}:+${PRELOAD}:}}"' if name == PRELOAD else ""
    return f"{name}={kept}{shlex.quote(value)}"
