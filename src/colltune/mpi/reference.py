"""Everything that the catalogues know of a collective in a release, in words and numbers.

This is what `colltune rules catalog` prints; nothing is decided here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
    """A parameter of an algorithm."""

    name: str
    """name"""
    default: int
    """value by default"""
    low: int
    """lowest value"""
    high: int
    """highest value"""
    variable: str = ""
    """variable that sets it, if any"""


@dataclass(frozen=True)
class Requirement:
    """What an algorithm needs."""

    limit: Limit
    """name of the condition"""
    needs: str
    """what the algorithm needs"""
    otherwise: str
    """what happens instead; empty: not known"""


@dataclass(frozen=True)
class AlgorithmFacts:
    """One line of the catalogue."""

    number: int
    """the library's own number"""
    name: str
    """name in the catalogue"""
    value: str
    """the library's own word, if it has one"""
    aliases: tuple[str, ...]
    """other names"""
    parameters: tuple[AlgorithmParameter, ...]
    """its parameters"""
    settings: Mapping[str, int | str]
    """fixed settings, by variable"""
    conditions: tuple[Requirement, ...]
    """what it needs"""
    wrong: str
    """why it is never used, else empty"""
    symbol: str
    """function that runs it, if known"""


@dataclass(frozen=True)
class CollectiveFacts:
    """A collective in a release."""

    collective: Collective
    id: int | None
    """its number in the library's rules files"""
    variable: str
    """variable that chooses the algorithm"""
    sizes: Mapping[str, str]
    """by format: what it compares with its message sizes"""
    one_rule: bool
    """whether a rules file can have one rule only"""
    runtime: bool
    """whether a running program can be told to change"""
    note: str
    """a remark"""
    one_node: str
    """who decides on one node by default"""
    across_nodes: str
    """who decides across nodes by default"""
    han: tuple[str, ...]
    """algorithms of coll/han, counted from 0"""
    example: str
    """id of a configuration, one of its algorithms"""
    forced: Mapping[str, str]
    """environment of a launch in which all calls use the example"""
    algorithms: tuple[AlgorithmFacts, ...] = ()
    """all algorithms"""


@dataclass(frozen=True)
class ReleaseFacts:
    """A release of a library."""

    library: str
    """name"""
    title: str
    """title"""
    release: str
    """release"""
    series: str
    """its series"""
    first_release: str
    """first release of the series that the catalogue knows"""
    priorities: Mapping[str, int]
    """components with their priorities; the highest decides"""
    formats: Mapping[str, str]
    """titles of the formats of its files"""
    collectives: tuple[CollectiveFacts, ...]
    """every collective, or the one that was asked for"""


@dataclass(frozen=True)
class LibraryFacts:
    """A library."""

    library: str
    """name"""
    title: str
    """title"""
    series: Mapping[str, str]
    """release series with a catalogue, and the first release that it knows"""


def library_facts(mpi: MpiLibrary) -> LibraryFacts:
    first = {series: release_of(mpi, series).catalogue.first_release for series in mpi.series}
    return LibraryFacts(mpi.name, mpi.title, first)


def release_facts(release: Release, collective: Collective | None = None) -> ReleaseFacts:
    """Return what is known of a release, and of `collective` there; default: of all."""
    found = release.catalogue
    wanted = found.collectives if collective is None else (collective,)
    return ReleaseFacts(
        release.mpi.name,
        release.mpi.title,
        release.name,
        found.series,
        found.first_release,
        dict(sorted(found.priorities, key=lambda pair: (-pair[1], pair[0]))),
        {name: known.title for name, known in formats_of(release).items()},
        tuple(facts(release, each) for each in wanted),
    )


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
