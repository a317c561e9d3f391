"""Reads the small files of ``/proc`` and ``/sys``, which may be missing, empty or unreadable."""

from __future__ import annotations

import re
from pathlib import Path

_MOST_BYTES = 65536
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


def text(path: Path) -> str:
    """Return the beginning of a file, stripped; empty where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode(errors="replace").strip()
    except OSError:
        # some files of /sys exist and cannot be read, such as the speed of a link that is down
        return ""


def entries(folder: Path) -> list[Path]:
    """Return what a folder holds, sorted by name; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def exists(path: Path) -> bool:
    """Tell whether something is there; what cannot be looked at is not."""
    try:
        return path.exists()
    except OSError:
        return False


def link_name(path: Path) -> str:
    """Return the last part of where a symbolic link points to; empty where there is none."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def numbers(listed: str) -> frozenset[int]:
    """Return the numbers of a kernel list such as ``0-3,8``; none where it is malformed."""
    found: set[int] = set()
    for part in listed.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return frozenset()
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)
