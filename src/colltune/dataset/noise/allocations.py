"""Which allocation each launch belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from colltune.errors import DataError


class AllocationSource(StrEnum):
    """How a launch's allocation is known."""

    PROVENANCE = "provenance"
    PATTERN = "pattern"
    ASSUMED = "assumed"


@dataclass(frozen=True)
class Allocations:
    """The allocation of each launch, and for each source the number of launches it told.

    ``by_launch`` has their names; ``sources`` is by what told the allocation.
    """

    by_launch: Mapping[str, str]
    sources: Mapping[AllocationSource, int]


def allocations_of(
    launches: Iterable[str],
    provenance: Mapping[str, Mapping[str, str]],
    pattern: str | None = None,
) -> Allocations:
    """Tell the allocation of each of `launches`.

    `pattern`, a regular expression, comes first: its first group (or all that it matches) in the
    launch's name is the allocation. Else the launch's own `provenance` tells; that of an import
    does not count, since it is about the machine that imported. Else each launch is assumed to be
    an allocation of its own, as in tidy CSV files, whose column ``launch`` says which job measured.

    Raises
    ------
    DataError
        If `pattern` is malformed or does not match a launch.
    """
    by_launch: dict[str, str] = {}
    sources: dict[AllocationSource, int] = {}
    for launch in sorted(set(launches)):
        facts = provenance.get(launch, {})
        source, name = AllocationSource.ASSUMED, f"launch {launch}"
        if pattern is not None:
            source, name = AllocationSource.PATTERN, _matched(pattern, launch)
        elif "allocation" in facts and "imported_from" not in facts:
            source, name = AllocationSource.PROVENANCE, facts["allocation"]
        by_launch[launch] = name
        sources[source] = sources.get(source, 0) + 1
    return Allocations(by_launch, sources)


def _matched(pattern: str, launch: str) -> str:
    try:
        match = re.search(pattern, launch)
    except re.error as error:
        raise DataError(
            f"--allocation {pattern!r} is not a regular expression ({error}); one looks like"
            " '([^/]*)/'"
        ) from error
    if match is None:
        raise DataError(
            f"--allocation {pattern!r} does not match the launch {launch!r}; give a pattern that"
            " matches every launch"
        )
    return str(match[1] if match.re.groups and match[1] is not None else match[0])
