"""Time of ``import colltune`` over that of an empty program."""

from __future__ import annotations

import sys

from figures.figure import Figure, start_up_ratio


def run() -> Figure:
    """Return ``python -c 'import colltune'`` over ``python -c pass``, wall time."""
    ours = [sys.executable, "-c", "import colltune"]
    return start_up_ratio("import_colltune", ours, [sys.executable, "-c", "pass"], rounds=25)
