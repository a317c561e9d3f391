"""Everything that the catalogues know of a collective in a release, in words and numbers.

This is what `colltune rules catalog` prints; nothing is decided here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from colltune.domain import Collective, Configuration, parse_collective
from colltune.errors import DataError, LibraryError
from colltune.mpi import LIBRARIES, catalogue
from colltune.mpi.catalogue import Algorithm, Catalogue, CollectiveEntry, Limit
from colltune.mpi.file_format import Format
from colltune.mpi.formats import FORMATS
from colltune.mpi.of_libraries import OfLibraries
from colltune.mpi.offer import Offer
from colltune.mpi.protocol import MpiLibrary

_NEEDS: dict[Limit, str] = {
    Limit.TWO_PROCESSES: "exactly 2 processes",
    Limit.EVEN_PROCESSES: "an even number of processes",
    Limit.POWER_OF_TWO_PROCESSES: "a power of two of processes",
    Limit.COMMUTATIVE: "a commutative operation",
    Limit.COMMUTATIVE_OR_FALLBACK: "a commutative operation",
    Limit.COMMUTATIVE_OR_FALLBACK: "a commutative operation",
    Limit.SEGMENTED: "a segment size above 0",
    Limit.ELEMENT_PER_PROCESS: "count >= processes",
    Limit.ELEMENT_PER_POWER_OF_TWO: "count >= the largest power of two <= processes",
    Limit.SEGMENT_PER_PROCESS: "a message of a segment per process or more",
    Limit.TWO_SEGMENTS: "a message of two segments or more",
    Limit.BUILTIN_OPERATION: "one of MPI's own operations",
    Limit.EQUAL_COUNTS: "the same count for all processes",
}
_CHECKED = "MPICH decides (what a JSON file chooses is not checked)"
_OTHERWISE: dict[tuple[str, Limit], str] = {
    ("openmpi", Limit.TWO_PROCESSES): "the call fails, which ends the program",
    ("openmpi", Limit.COMMUTATIVE): "wrong numbers, without a word",
    ("mpich", Limit.EQUAL_COUNTS): "the program ends",
    # the restrictions in src/mpi/coll/coll_algorithms.txt
    ("mpich", Limit.BUILTIN_OPERATION): _CHECKED,
    ("mpich", Limit.COMMUTATIVE): _CHECKED,
    ("mpich", Limit.ELEMENT_PER_POWER_OF_TWO): _CHECKED,
    ("mpich", Limit.POWER_OF_TWO_PROCESSES): _CHECKED,
}
# what sets a parameter for a launch, where the catalogue names nothing else
_TUNED_NAMES = {
    "segsize": "segmentsize",
    "fanout": "chain_fanout",
    "requests": "max_requests",
}
_NO_RULES = "it has no rules for this collective"


@dataclass(frozen=True)
class Parameter:
    """A parameter of an algorithm: its default and range, and the variable that sets it."""

    name: str
    default: int
    low: int
    high: int
    variable: str = ""


@dataclass(frozen=True)
class Condition:
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
    parameters: tuple[Parameter, ...]
    settings: Mapping[str, int | str]
    conditions: tuple[Condition, ...]
    wrong: str
    symbol: str


@dataclass(frozen=True)
class CollectiveFacts:
    """A collective in a release.

    Parameters
    ----------
    id
        Its number in the library's rules file; None where there are no numbers.
    sizes
        What each format of files compares with its message sizes.
    variable
        By which variable of the library its algorithm is chosen.
    one_rule
        Only one rule for all message sizes is safe.
    runtime
        A running program can be told to use another algorithm (MPI_T).
    one_node, across_nodes
        Who decides by default on communicators within a node, and on those that span nodes.
    han
        Algorithms of Open MPI's coll/han, counted from 0; empty where it has none of its own.
    example, forced
        One of its algorithms, and the environment of a launch in which all calls use it.
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


@dataclass(frozen=True)
class Reference:
    """The catalogues of one library."""

    mpi: MpiLibrary

    @property
    def library(self) -> str:
        """First word of its configurations' ids."""
        return self.mpi.name

    @property
    def title(self) -> str:
        """What people call it."""
        return self.mpi.title

    @property
    def offer(self) -> Offer:
        """What its catalogues offer."""
        return self.mpi.offer

    @property
    def series(self) -> tuple[str, ...]:
        """All release series, the oldest first."""
        return catalogue.all_series(self.library, self.mpi.catalogues)

    def catalogue_of(self, release: str) -> Catalogue:
        """Return the catalogue of a release's series.

        Raises
        ------
        LibraryError
            If the release is not supported.
        """
        return self.mpi.catalogue_of(release)

    def at(self, release: str | None) -> tuple[str, Catalogue]:
        """Return a release and its catalogue: `release`, a series, or the newest series.

        Raises
        ------
        LibraryError
            If the release is not supported; the message names the series that are.
        """
        if release is None or release in self.series:
            series = release or self.series[-1]
            found = catalogue.load(self.library, series, self.mpi.catalogues)
            return found.first_release, found
        try:
            return release, self.catalogue_of(release)
        except LibraryError as error:
            known = ", ".join(f"{self.library}@{series}" for series in self.series)
            raise LibraryError(f"{error}; known: {known}") from error

    def formats(self, release: str) -> dict[str, str]:
        """Return the titles of the formats of configuration files that `release` reads, by name.

        Raises
        ------
        LibraryError
            If the release is not supported.
        """
        return {known.name: known.title for known in self._readable(release)}

    def _readable(self, release: str) -> tuple[Format, ...]:
        own = (FORMATS[name] for name in self.mpi.formats)
        return tuple(known for known in own if not known.unreadable_by(release))

    def facts(self, release: str, collective: Collective) -> CollectiveFacts:
        """Return what is known of `collective`.

        Raises
        ------
        LibraryError
            If the release is not supported, or has no algorithms of it to choose from.
        """
        found = self.catalogue_of(release)
        if collective not in found.collectives:
            raise LibraryError(
                f"{self.title} {release} has no {collective} algorithms to choose from; it has"
                f" them for {', '.join(found.collectives)}"
            )
        entry = found.collectives[collective]
        one_node, across_nodes = _deciding(self.title, found, collective)
        example = self._example(release, entry)
        return CollectiveFacts(
            collective=collective,
            id=None if entry.id == catalogue.NO_ID else entry.id,
            variable=self.mpi.chosen_by(collective),
            sizes=_sizes(found, self._readable(release), collective),
            one_rule=entry.one_rule,
            runtime=entry.runtime,
            note=entry.note,
            one_node=one_node,
            across_nodes=across_nodes,
            han=entry.han,
            example=example.id,
            forced=self.mpi.forced_environment(release, example),
            algorithms=tuple(self._algorithm(entry, algorithm) for algorithm in entry.algorithms),
        )

    def _example(self, release: str, entry: CollectiveEntry) -> Configuration:
        """Return one of the configurations that run wherever they are called, if there is any."""
        offered = self.mpi.portfolio(release, entry.collective).configurations
        limited = {algorithm.name for algorithm in entry.algorithms if algorithm.limits}
        return next((c for c in reversed(offered) if c.algorithm not in limited), offered[-1])

    def _algorithm(self, entry: CollectiveEntry, algorithm: Algorithm) -> AlgorithmFacts:
        unsaid = dict(self.offer.defaults) | dict(algorithm.defaults)
        variables = _variables(self.library, entry.collective, algorithm)
        stem, least = _stem(self.library, entry.collective), dict(algorithm.minimums)
        return AlgorithmFacts(
            number=algorithm.number,
            name=algorithm.name,
            value=algorithm.value,
            aliases=algorithm.aliases,
            parameters=tuple(
                Parameter(
                    name,
                    default=unsaid.get(name, 0),
                    low=least.get(name, self.offer.ranges[name][0]),
                    high=self.offer.ranges[name][1],
                    variable=variables.get(name, ""),
                )
                for name in algorithm.parameters
            ),
            settings={f"{stem}{name}": value for name, value in algorithm.settings},
            conditions=tuple(
                Condition(limit, needs(limit), _otherwise(self.library, algorithm, limit))
                for limit in sorted(algorithm.limits)
            ),
            wrong=algorithm.wrong,
            symbol=algorithm.symbol,
        )


REFERENCES: Mapping[str, Reference] = OfLibraries(lambda: LIBRARIES, Reference)
"""The catalogues of all libraries."""


def needs(limit: Limit) -> str:
    """Return the condition in plain words."""
    return _NEEDS.get(limit, limit.replace("_", " "))


def collective_named(name: str) -> Collective:
    """Return the collective `name` (``bcast`` or ``MPI_Bcast``).

    Raises
    ------
    LibraryError
        If there is none; the message names the most similar one.
    """
    try:
        return parse_collective(name)
    except DataError as error:
        meant = similar(name.lower().removeprefix("mpi_"), Collective)
        raise LibraryError(f"{error}{meant}") from error


def similar(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean bcast?)`` for the most similar of `known`; empty if none is."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _variables(library: str, collective: Collective, algorithm: Algorithm) -> dict[str, str]:
    """Return by which variable of the library each parameter is set for a launch."""
    if library != "openmpi":
        return {
            name: f"{_stem(library, collective)}{variable}"
            for name, variable in algorithm.variables
        }
    names = _TUNED_NAMES | dict(algorithm.variables)
    return {
        name: f"coll_tuned_{collective}_algorithm_{names[name]}" for name in algorithm.parameters
    }


def _stem(library: str, collective: Collective) -> str:
    return f"MPIR_CVAR_{collective.upper()}_" if library == "mpich" else ""


def _otherwise(library: str, algorithm: Algorithm, limit: Limit) -> str:
    if Limit.EQUAL_COUNTS in algorithm.limits:
        # MPICH does not check this one, nor the number of processes of the algorithm that needs it
        limit = Limit.EQUAL_COUNTS
    named = _OTHERWISE.get((library, limit))
    if named is None and algorithm.fallback:
        return f"{algorithm.fallback} runs"
    return named or ""


def _sizes(found: Catalogue, readable: Iterable[Format], collective: Collective) -> dict[str, str]:
    """Return what the readable formats compare; those of one choice say that they have no sizes."""
    told = {}
    for known in readable:
        if known.single_algorithm:
            told[known.name] = "nothing: one choice holds for all sizes"
            continue
        told[known.name] = known.compared.get(collective, _NO_RULES)
        # coll/han has them from 6.0 on
        later = collective in (Collective.ALLTOALL, Collective.ALLTOALLV)
        if known.name == "openmpi-han" and later and collective not in found.han_collectives:
            told[known.name] = _NO_RULES
    return dict(sorted(told.items()))


def _deciding(title: str, found: Catalogue, collective: Collective) -> tuple[str, str]:
    """Return who decides on one node and across nodes, in words."""
    if found.library == "openmpi":
        return _component_deciding(found, collective)
    if found.library == "intelmpi":
        tuned = "the vendor's tuning file; a preset combines algorithms within and between nodes"
        return tuned, tuned
    kinds = "variable or JSON file" if found.library == "mpich" else "variable or file"
    whole = f"{title}'s own decision, or what a {kinds} says"
    if collective not in found.device_collectives:
        return whole, whole
    return whole, (
        "the device splits it into leaders of nodes and nodes; what is chosen holds within"
        " these parts (MPIR_CVAR_DEVICE_COLLECTIVES=none keeps it whole)"
    )


def _component_deciding(found: Catalogue, collective: Collective) -> tuple[str, str]:
    """Return which of Open MPI's components decides on one node, and across nodes."""
    priorities = dict(found.priorities)
    tuned = f"coll/tuned, priority {priorities.get('tuned', '?')}"
    if found.han_priority is not None and collective in found.han_collectives:
        return tuned, (
            f"coll/han, priority {found.han_priority}; coll/tuned decides for its parts: leaders"
            " of nodes, and each node"
        )
    return tuned, tuned
