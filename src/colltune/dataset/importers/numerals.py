"""Reads numbers as C programs print them, and nothing else."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"[0-9]{1,18}")
_REAL = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][+-]?[0-9]{1,2})?|nan|inf)")


def whole(text: str) -> int | None:
    """Return the number of at least 0 that `text` is (it fits 64 bits), or None if it is none."""
    return int(text) if _WHOLE.fullmatch(text) else None


def real(text: str) -> float | None:
    """Return the number that `text` is, such as ``-1.5``, ``2e-06`` or ``nan``, or None."""
    return float(text) if _REAL.fullmatch(text) else None
