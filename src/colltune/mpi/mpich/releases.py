"""Which MPICH releases are supported, and by which catalogue."""

from __future__ import annotations

import re
from functools import lru_cache

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi import catalogue
from colltune.mpi.catalogue import Catalogue, CollectiveEntry

LIBRARY, TITLE = "mpich", "MPICH"
_SERIES = ("4.0", "4.1", "4.2", "4.3", "5.0")
_RELEASE = re.compile(r"v?(\d+\.\d+)(?:[.a-z]\S*)?")


# clients of a service may name any release of a series
@lru_cache(maxsize=128)
def catalogue_of(release: str) -> Catalogue:
    """Return the catalogue for `release`, such as ``4.0.2``."""
    match = _RELEASE.fullmatch(release.strip())
    if match is None:
        raise LibraryError(f"{release!r} is not an MPICH release; one looks like 4.3.2")
    if match[1] not in _SERIES:
        raise LibraryError(
            f"MPICH {release} is not supported: no release of its series was tried; supported:"
            f" {', '.join(f'{series}.x' for series in _SERIES)}"
        )
    return catalogue.load(LIBRARY, match[1])


def entry_of(release: str, collective: Collective) -> CollectiveEntry:
    """Return the algorithms of `collective`."""
    return catalogue_of(release).collectives[collective]
