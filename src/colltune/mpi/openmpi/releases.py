"""Which Open MPI releases are supported, and by which catalogue."""

from __future__ import annotations

import re
from functools import lru_cache

from colltune.errors import say
from colltune.mpi import catalogue
from colltune.mpi.catalogue import Catalogue

LIBRARY, TITLE = "openmpi", "Open MPI"
_SERIES = ("4.1", "5.0", "6.0")
_RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)\S*")


# clients of a service may name any release of a series
@lru_cache(maxsize=128)
def catalogue_of(release: str) -> Catalogue:
    """Return the catalogue for `release`, such as ``4.1.6``."""
    match = _RELEASE.fullmatch(release.strip())
    if match is None:
        raise say("not-a-release", value=release)
    numbers = tuple(int(part) for part in match.groups())
    # nothing of what is described here differs between 6.0 and what is to become 6.1
    series = "6.0" if numbers[0] == 6 else f"{numbers[0]}.{numbers[1]}"
    if series not in _SERIES:
        raise say("release-unsupported", what=_unsupported(release, numbers))
    found = catalogue.load(LIBRARY, series)
    if numbers < tuple(int(part) for part in found.first_release.split(".")):
        raise say("release-unsupported", what=_unsupported(release, numbers))
    return found


def numbers_of(release: str) -> tuple[int, int, int]:
    catalogue_of(release)
    match = _RELEASE.fullmatch(release.strip())
    assert match is not None  # the catalogue was found
    return int(match[1]), int(match[2]), int(match[3])


def reads_version_header(release: str) -> bool:
    """Tell whether `release` understands ``rule-file-version-2`` in a classic rules file."""
    numbers = numbers_of(release)
    return (4, 1, 8) <= numbers < (5, 0, 0) or numbers >= (5, 0, 7)


def _unsupported(release: str, numbers: tuple[int, ...]) -> str:
    if numbers < (4, 1, 4):
        why = "before 4.1.4 several algorithms give wrong results or hang"
    else:
        why = "no such release was tested"
    return (
        f"Open MPI {release} is not supported: {why}; supported: 4.1.4 and later 4.1.x, 5.0.x, 6.x"
    )
