"""Our own library, ``libcolltune``: preloaded, it runs collectives over any MPI library."""

from __future__ import annotations

import shlex
from pathlib import Path

from colltune.domain import INTERPOSED, Configuration

PRELOAD = "LD_PRELOAD"
_HERE = Path(__file__)
_HOMES = (_HERE.parent / "native", _HERE.parents[4] / "libcolltune")
NATIVE = next((home for home in _HOMES if (home / "src").is_dir()), _HOMES[0])
"""libcolltune's ``include`` and ``src``: in a wheel in this package, in a checkout at the top."""


def is_libcolltune(configuration: Configuration) -> bool:
    return configuration.library == INTERPOSED


def assignment(name: str, value: str) -> str:
    """Return ``NAME=value`` for a shell; what is preloaded stands behind what the user preloads."""
    kept = f'"${{{PRELOAD}:+${PRELOAD}:}}"' if name == PRELOAD else ""
    return f"{name}={kept}{shlex.quote(value)}"
