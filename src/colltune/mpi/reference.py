"""Everything that the catalogues know of a collective in a release, in words and numbers.

This is what `colltune rules catalog` prints; nothing is decided here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from colltune.domain import Collective, parse_collective
from colltune.errors import DataError, LibraryError, say
from colltune.mpi import catalogue
from colltune.mpi.catalogue import Algorithm, Catalogue, CollectiveEntry, Limit
from colltune.mpi.configuration_space import (
    CatalogueSpace,
)
from colltune.mpi.file_format import Format
from colltune.mpi.formats import FORMATS
from colltune.mpi.release import MpiLibrary, Release

_NEEDS: dict[Limit, str] = {
    Limit.TWO_PROCESSES: "exactly 2 processes",
    Limit.EVEN_PROCESSES: "an even number of processes",
    Limit.POWER_OF_TWO_PROCESSES: "a power of two of processes",
    Limit.COMMUTATIVE: "a commutative operation",
    Limit.COMMUTATIVE_OR_FALLBACK: "a commutative operation",
    Limit.SEGMENTED: "a segment size above 0",
    Limit.ELEMENT_PER_PROCESS: "count >= processes",
    Limit.ELEMENT_PER_POWER_OF_TWO: "count >= the largest power of two <= processes",
    Limit.SEGMENT_PER_PROCESS: "a message of a segment per process or more",
    Limit.TWO_SEGMENTS: "a message of two segments or more",
    Limit.BUILTIN_OPERATION: "one of MPI's own operations",
    Limit.EQUAL_COUNTS: "the same count for all processes",
}
_NO_RULES = "the library has no rules for this collective"


@dataclass(frozen=True)
class AlgorithmParameter:
    """A parameter of an algorithm: its default and range, and the variable that sets it."""

    name: str
    default: int
    low: int
    high: int
    variable: str = ""


@dataclass(frozen=True)
class Requirement:
    """What an algorithm ``needs``, and what happens ``otherwise`` (empty where it is not known)."""

    limit: Limit
    needs: str
    otherwise: str


@dataclass(frozen=True)
class AlgorithmFacts:
    """One line of the catalogue; see `catalogue` for the fields that are not explained here."""

    number: int
    name: str
    value: str
    aliases: tuple[str, ...]
    parameters: tuple[AlgorithmParameter, ...]
    settings: Mapping[str, int | str]
    conditions: tuple[Requirement, ...]
    wrong: str
    symbol: str


@dataclass(frozen=True)
class CollectiveFacts:
    """A collective in a release.

    ``id`` is its number in the library's rules file, ``sizes`` what each format compares with its
    message sizes, ``variable`` by which its algorithm is chosen, ``one_node`` and ``across_nodes``
    who decides by default, ``han`` the algorithms of coll/han, counted from 0; ``forced`` is the
    environment of a launch in which all calls use ``example``, one of its algorithms.
    """

    collective: Collective
    id: int | None
    variable: str
    sizes: Mapping[str, str]
    one_rule: bool
    runtime: bool
    note: str
    one_node: str
    across_nodes: str
    han: tuple[str, ...]
    example: str
    forced: Mapping[str, str]
    algorithms: tuple[AlgorithmFacts, ...] = field(default=())


def release_of(mpi: MpiLibrary, asked: str | None) -> Release:
    """Return a release of a library: `asked`, or the first one of a series, by default the newest.

    `LibraryError` is raised where it is not supported; the message names the series that are.
    """
    if asked is None or asked in mpi.series:
        known = catalogue.load(mpi.name, asked or mpi.series[-1], mpi.catalogues)
        return mpi.at(known.first_release)
    try:
        return mpi.at(asked)
    except LibraryError as error:
        names = ", ".join(f"{mpi.name}@{series}" for series in mpi.series)
        raise say("unknown-release", why=error, names=names) from error


def formats_of(release: Release) -> dict[str, Format]:
    """Return the formats of configuration files that `release` reads, by name."""
    own = (FORMATS[name] for name in release.mpi.formats)
    return {known.name: known for known in own if not known.unreadable_by(release.name)}


def facts(release: Release, collective: Collective) -> CollectiveFacts:
    """Return what is known of `collective`.

    `LibraryError` is raised where there are no algorithms of it to choose from.
    """
    found = release.catalogue
    if collective not in found.collectives:
        of, known = f"{release.mpi.title} {release.name}", ", ".join(found.collectives)
        raise say("no-choice-of-algorithms", library=of, collective=collective, known=known)
    entry = found.collectives[collective]
    one_node, across_nodes = release.space.deciding(collective)
    # one that runs wherever it is called, if there is any
    offered = release.portfolio(collective).configurations
    limited = {algorithm.name for algorithm in entry.algorithms if algorithm.limits}
    example = next((c for c in reversed(offered) if c.algorithm not in limited), offered[-1])
    return CollectiveFacts(
        collective=collective,
        id=None if entry.id == catalogue.NO_ID else entry.id,
        variable=release.space.chosen_by(collective),
        sizes=_sizes(found, formats_of(release).values(), collective),
        one_rule=entry.one_rule,
        runtime=entry.runtime,
        note=entry.note,
        one_node=one_node,
        across_nodes=across_nodes,
        han=entry.han,
        example=example.id,
        forced=release.forced_environment(example),
        algorithms=tuple(_algorithm(release.space, entry, each) for each in entry.algorithms),
    )


def _algorithm(
    space: CatalogueSpace, entry: CollectiveEntry, algorithm: Algorithm
) -> AlgorithmFacts:
    unsaid = dict(space.defaults) | dict(algorithm.defaults)
    variables = space.parameter_variables(entry.collective, algorithm)
    parameters = []
    for name in algorithm.parameters:
        low, high = space.ranges[name]
        low = dict(algorithm.minimums).get(name, low)
        default, variable = unsaid.get(name, 0), variables.get(name, "")
        parameters.append(AlgorithmParameter(name, default, low, high, variable))
    settings = {space.variable(entry.collective, name): value for name, value in algorithm.settings}
    conditions = (
        Requirement(limit, _NEEDS[limit], _otherwise(space, algorithm, limit))
        for limit in sorted(algorithm.limits)
    )
    return AlgorithmFacts(
        number=algorithm.number,
        name=algorithm.name,
        value=algorithm.value,
        aliases=algorithm.aliases,
        parameters=tuple(parameters),
        settings=settings,
        conditions=tuple(conditions),
        wrong=algorithm.wrong,
        symbol=algorithm.symbol,
    )


def collective_named(name: str) -> Collective:
    """Return the collective `name` (``bcast`` or ``MPI_Bcast``), or name the most similar one."""
    try:
        return parse_collective(name)
    except DataError as error:
        meant = similar(name.lower().removeprefix("mpi_"), Collective)
        raise say("unknown-algorithm", why=error, meant=meant) from error


def similar(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean bcast?)`` for the most similar of `known`; empty if none is."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _otherwise(space: CatalogueSpace, algorithm: Algorithm, limit: Limit) -> str:
    if Limit.EQUAL_COUNTS in algorithm.limits:
        # MPICH does not check this one, nor the number of processes of the algorithm that needs it
        limit = Limit.EQUAL_COUNTS
    named = space.otherwise.get(limit)
    if named is None and algorithm.fallback:
        return f"{algorithm.fallback} runs"
    return named or ""


def _sizes(found: Catalogue, readable: Iterable[Format], collective: Collective) -> dict[str, str]:
    """Return what the readable formats compare; those of one choice say that they have no sizes."""
    told = {}
    for known in readable:
        if known.single_algorithm:
            told[known.name] = "no size: one choice holds for all sizes"
            continue
        told[known.name] = known.compared.get(collective, _NO_RULES)
        # coll/han has them from 6.0 on
        later = collective in (Collective.ALLTOALL, Collective.ALLTOALLV)
        if known.name == "openmpi-han" and later and collective not in found.han_collectives:
            told[known.name] = _NO_RULES
    return dict(sorted(told.items()))
