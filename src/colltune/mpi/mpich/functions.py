"""Which functions a leaf of MPICH's tree may name, and which of them stands for what."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Algorithm, Limit
from colltune.mpi.mpich.library import MPICH, MpichSpace
from colltune.mpi.mpich.releases import LIBRARY, catalogue_of, entry_of
from colltune.mpi.mpich.tree import Leaf, as_c_int

DATA = Path(__file__).parent / "data"
# what the control variables of these parameters say by default, as when an algorithm is measured
_UNSAID = {
    "is_non_blocking": "1",
    "recv_pre_posted": "0",
    "buffer_per_child": "0",
    "single_phase_recv": "0",
    "chunk_size": "0",
    "k": "2",
}
_TREE_TYPE = {Collective.BCAST: "kary", Collective.ALLREDUCE: "knomial_1"}
_TREE_TYPES = ("kary", "knomial_1", "knomial_2")
_NAMED = {"fanout": "k", "segsize": "chunk_size"}
_TELLING = ("tree_type", "k", "chunk_size")


@dataclass(frozen=True)
class Functions:
    """The functions of one release.

    Parameters
    ----------
    by_collective
        Their names by the name of the collective; all collectives that a tree must have.
    parameters, unread
        What each takes from its leaf, and what it takes but no leaf can give.
    needs
        What each needs and the library does not check (words of MPICH's ``coll_algorithms.txt``).
    """

    by_collective: Mapping[str, tuple[str, ...]]
    parameters: Mapping[str, tuple[str, ...]]
    unread: Mapping[str, tuple[str, ...]]
    needs: Mapping[str, tuple[str, ...]]

    @cached_property
    def all(self) -> frozenset[str]:
        return frozenset(name for names in self.by_collective.values() for name in names)


def functions_of(release: str) -> Functions:
    return _functions(catalogue_of(release).series)


@cache
def _functions(series: str) -> Functions:
    known = tomllib.loads((DATA / "functions.toml").read_text(encoding="utf-8"))
    return Functions(
        by_collective={
            collective: tuple(
                f"MPIR_{collective.capitalize()}_{kind}_{word.name}"
                for kind, words in kinds.items()
                for word in map(Word.of, words)
                if word.is_in(series)
            )
            for collective, kinds in known["functions"].items()
        },
        parameters={name: tuple(of) for name, of in known["parameters"].items()},
        unread={name: tuple(of) for name, of in known["unread"].items()},
        needs={name: tuple(of) for name, of in known["needs"].items()},
    )


@dataclass(frozen=True)
class Word:
    """A name with the releases that have it: ``tree>=4.1``, ``dissemination<=4.0``."""

    name: str
    since: str = ""
    until: str = ""

    @classmethod
    def of(cls, text: str) -> Word:
        name, _, since = text.partition(">=")
        name, _, until = name.partition("<=")
        return cls(name, since, until)

    def is_in(self, series: str) -> bool:
        return _number(self.since or series) <= _number(series) <= _number(self.until or series)


def _number(series: str) -> tuple[int, ...]:
    return tuple(int(part) for part in series.split("."))


def function_of(collective: Collective, algorithm: Algorithm) -> str:
    """Return the function that runs an algorithm of the catalogue."""
    word = algorithm.value or algorithm.name
    kind = "allcomm" if word == "nb" else "intra"
    return f"MPIR_{collective.capitalize()}_{kind}_{word}"


def leaf_of(release: str, configuration: Configuration) -> Leaf:
    """Return the leaf that stands for a configuration other than the default.

    Every parameter that the function takes is given a value: MPICH does not.
    """
    space = MPICH.at(release).space
    spelled = space.canonical(configuration)
    algorithm = space.algorithm_of(spelled)
    return _leaf(release, spelled, algorithm)


def _leaf(release: str, spelled: Configuration, algorithm: Algorithm) -> Leaf:
    collective = spelled.collective
    function = function_of(collective, algorithm)
    said = {_NAMED[name]: str(value) for name, value in spelled.parameters}
    settings = dict(algorithm.settings)
    if "TREE_KVAL" in settings:
        said["k"] = str(settings["TREE_KVAL"])
    said["tree_type"] = str(settings.get("TREE_TYPE", _TREE_TYPE.get(collective, "kary")))
    wanted = functions_of(release).parameters.get(function, ())
    return Leaf(function, tuple((name, said.get(name, _UNSAID.get(name, ""))) for name in wanted))


def configuration_of(release: str, collective: Collective, leaf: Leaf) -> Configuration | None:
    """Return the configuration that a leaf stands for; None if the release has no such algorithm.

    Parameters of a leaf that only bear on how messages are posted are not told apart.
    """
    found: Configuration | None = None
    for algorithm in entry_of(release, collective).algorithms:
        if function_of(collective, algorithm) != leaf.function:
            continue
        for candidate in _candidates(collective, algorithm, dict(leaf.parameters)):
            found = found or candidate
            if _telling(_leaf(release, candidate, algorithm)) == _telling(leaf):
                return candidate
    return found


def _candidates(
    collective: Collective, algorithm: Algorithm, said: Mapping[str, str]
) -> Iterator[Configuration]:
    given = {name: said[key] for name, key in _NAMED.items() if key in said}
    numbers = {
        name: as_c_int(given.get(name, str(dict(algorithm.defaults).get(name, 0))))
        for name in algorithm.parameters
    }
    for name, value in numbers.items():
        low, high = MpichSpace.ranges[name]
        if not low <= value <= high:
            return
    yield Configuration(LIBRARY, collective, algorithm.name, tuple(numbers.items()))


def _telling(leaf: Leaf) -> dict[str, str]:
    said = {
        name: value if name == "tree_type" else str(as_c_int(value))
        for name, value in leaf.parameters
        if name in _TELLING
    }
    if said.get("tree_type", "kary") not in _TREE_TYPES:
        said["tree_type"] = "kary"
    return said


def running_as(
    release: str, configuration: Configuration, comm_size: int, msize_bytes: int
) -> Configuration:
    """Return what runs where an algorithm is told to: a tree in one piece where there is no second.

    Limits that MPICH checks, or that end the program, are not looked at here.
    """
    if configuration.is_default:
        return configuration
    space = MPICH.at(release).space
    algorithm = space.algorithm_of(configuration)
    if not algorithm.fallback:
        return configuration
    if not space.why_not(configuration, comm_size, msize_bytes):
        return configuration
    other = entry_of(release, configuration.collective).named(algorithm.fallback)
    kept = other.parameters if other is not None else ()
    pairs = tuple((name, value) for name, value in configuration.parameters if name in kept)
    return Configuration(LIBRARY, configuration.collective, algorithm.fallback, pairs)


def guards_of(release: str, configuration: Configuration) -> tuple[str, ...]:
    """Return the tests that have to hold where a configuration stands, beside those of its path."""
    space = MPICH.at(release).space
    spelled = space.canonical(configuration)
    algorithm = space.algorithm_of(spelled)
    found = [key for limit, key in _GUARDS if limit in algorithm.limits]
    if spelled.collective in (Collective.ALLTOALL, Collective.ALLTOALLV):
        found.append("is_sendbuf_inplace=no")
    return tuple(found)


_GUARDS = (
    (Limit.COMMUTATIVE, "is_commutative=yes"),
    (Limit.BUILTIN_OPERATION, "is_op_built_in=yes"),
    (Limit.EQUAL_COUNTS, "is_block_regular=yes"),
)
