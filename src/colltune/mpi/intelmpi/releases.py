"""Which Intel MPI releases are supported, and by which catalogue."""

from __future__ import annotations

import re
from functools import lru_cache

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi import catalogue
from colltune.mpi.catalogue import Catalogue, CollectiveEntry

LIBRARY, TITLE = "intelmpi", "Intel MPI"
# presets were only ever added within 2021, so that the catalogue before a release holds for it
_SERIES = ("2019", "2021.6", "2021.11", "2021.15", "2021.18")
_RELEASE = re.compile(r"(\d{4})(?:\.(\d+))?(?:\.\d+)*")


# clients of a service may name any release of a series
@lru_cache(maxsize=128)
def catalogue_of(release: str) -> Catalogue:
    """Return the catalogue for `release`, such as ``2021.6`` or ``2019.9`` (2019 Update 9)."""
    match = _RELEASE.fullmatch(release.strip())
    if match is None:
        raise LibraryError(
            f"{release!r} is no supported release of Intel MPI; one looks like 2021.6"
        )
    wanted = _numbers(match[1], match[2])
    fitting = [
        series
        for series in _SERIES
        if (numbers := _numbers(*series.partition(".")[::2])) <= wanted and numbers[0] == wanted[0]
    ]
    if not fitting:
        raise LibraryError(
            f"Intel MPI {release} is not supported: the numbers of its presets are not known, and"
            " it takes a wrong one for preset 1; supported: 2019.x, 2021.6 and later 2021.x"
        )
    return catalogue.load(LIBRARY, fitting[-1])


def entry_of(release: str, collective: Collective) -> CollectiveEntry:
    """Return the algorithms of `collective`."""
    entries = catalogue_of(release).collectives
    return entries.get(collective) or CollectiveEntry(
        collective, catalogue.NO_ID, catalogue.SizeUnit.MSIZE, (), runtime=False
    )


def _numbers(year: str, update: str | None) -> tuple[int, int]:
    return int(year), int(update or 0)
