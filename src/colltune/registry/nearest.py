"""Which measured release stands for one that was not measured."""

from __future__ import annotations

import re
from collections.abc import Iterable


def nearest_release(wanted: str, known: Iterable[str]) -> str | None:
    """Return `wanted` if it is known, else the newest of its series (4.1.x), None if none is."""
    releases = list(known)
    if wanted in releases:
        return wanted
    same = [release for release in releases if _series(release) == _series(wanted)]
    return max(same, key=_numbers, default=None)


def _series(release: str) -> str:
    return release.rpartition(".")[0] or release


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release))
