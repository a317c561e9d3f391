"""What a release of MPICH has for its selection trees: functions, variables, and trees of its own.

The trees in ``data`` are our own, smaller ones that decide as those of MPICH do. They say ``<=``
everywhere: MPICH takes a ``<`` of a communicator's size for ``<=`` once a test of the call went
before, so that alltoall's own ``comm_size<8`` holds for 8 processes.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Algorithm, Limit
from colltune.mpi.mpich.library import LIBRARY, MPICH, MpichSpace
from colltune.mpi.mpich.tree import Branch, Leaf, Tree, as_c_int, test

_DATA = Path(__file__).parent / "data"
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
TREE_TYPES = ("kary", "knomial_1", "knomial_2")
LEAST_CHUNK = 64
"""Bytes below which chunks of messages make no sense."""
_NAMED = {"fanout": "k", "segsize": "chunk_size"}
_TELLING = ("tree_type", "k", "chunk_size")
_GUARDS = (
    (Limit.COMMUTATIVE, "is_commutative=yes"),
    (Limit.BUILTIN_OPERATION, "is_op_built_in=yes"),
    (Limit.EQUAL_COUNTS, "is_block_regular=yes"),
)
_FLAT = frozenset(
    {"bcast_gamma", "allreduce_beta", "reduce_gamma", "barrier_beta", "scan_beta"}
    | {"allgather_beta", "alltoall_beta", "exscan_alpha"}
    | {f"{name}_alpha" for name in ("allgatherv", "alltoallv", "alltoallw", "gather", "gatherv")}
    | {f"{name}_alpha" for name in ("scatter", "scatterv", "reduce_scatter")}
    | {"reduce_scatter_block_alpha"}
)


@cache
def _data(file: str) -> Any:
    text = (_DATA / file).read_text(encoding="utf-8")
    return tomllib.loads(text) if file.endswith(".toml") else json.loads(text)


class _Word(NamedTuple):
    """A name with the series that have it: ``tree>=4.1``, ``dissemination<=4.0``."""

    name: str
    since: str
    until: str

    @classmethod
    def of(cls, text: str) -> _Word:
        name, _, since = text.partition(">=")
        name, _, until = name.partition("<=")
        return cls(name, since, until)

    def is_in(self, series: str) -> bool:
        since, own, until = (
            tuple(map(int, each.split(".")))
            for each in (self.since or series, series, self.until or series)
        )
        return since <= own <= until


class Functions:
    """The functions of one release, by which leaves and configurations stand for each other.

    ``by_collective`` has all collectives that a tree must have. ``parameters`` are what each
    function takes from its leaf, ``unread`` what it takes but no leaf can give, ``needs`` what it
    needs and the library does not check (words of MPICH's ``coll_algorithms.txt``).
    ``knows_parts`` tells that communicators know whether they are a part of one by nodes,
    ``few_tests`` that the release lacks tests of uneven layouts, and most tests for any value.
    """

    def __init__(self, release: str) -> None:
        self.release, self.space = release, MPICH.at(release).space
        self.series = self.space.catalogue.series
        self.knows_parts, self.few_tests = (
            self.series.startswith("4."),
            self.series in ("4.0", "4.1"),
        )
        known = _data("functions.toml")
        self.by_collective: Mapping[str, tuple[str, ...]] = {
            collective: tuple(
                f"MPIR_{collective.capitalize()}_{kind}_{word.name}"
                for kind, words in kinds.items()
                for word in map(_Word.of, words)
                if word.is_in(self.series)
            )
            for collective, kinds in known["functions"].items()
        }
        self.all = frozenset(name for names in self.by_collective.values() for name in names)
        self.parameters: Mapping[str, list[str]] = known["parameters"]
        self.unread: Mapping[str, list[str]] = known["unread"]
        self.needs: Mapping[str, list[str]] = known["needs"]

    def leaf_of(self, configuration: Configuration) -> Leaf:
        """Return the leaf that stands for a configuration other than the default.

        Every parameter that the function takes is given a value: MPICH does not.
        """
        spelled = self.space.canonical(configuration)
        return self._leaf(spelled, self.space.algorithm_of(spelled))

    def _leaf(self, spelled: Configuration, algorithm: Algorithm) -> Leaf:
        function = function_of(spelled.collective, algorithm)
        said = {_NAMED[name]: str(value) for name, value in spelled.parameters}
        settings = dict(algorithm.settings)
        if "TREE_KVAL" in settings:
            said["k"] = str(settings["TREE_KVAL"])
        own = _TREE_TYPE.get(spelled.collective, "kary")
        said["tree_type"] = str(settings.get("TREE_TYPE", own))
        wanted = self.parameters.get(function, ())
        return Leaf(function, tuple((n, said.get(n, _UNSAID.get(n, ""))) for n in wanted))

    def configuration_of(self, collective: Collective, leaf: Leaf) -> Configuration | None:
        """Return the configuration that a leaf stands for; None if there is no such algorithm.

        Parameters of a leaf that only bear on how messages are posted are not told apart.
        """
        found: Configuration | None = None
        for algorithm in self.space.entry_of(collective).algorithms:
            candidate = self._candidate(collective, algorithm, leaf)
            if candidate is not None:
                found = found or candidate
                if _telling(self._leaf(candidate, algorithm)) == _telling(leaf):
                    return candidate
        return found

    def _candidate(
        self, collective: Collective, algorithm: Algorithm, leaf: Leaf
    ) -> Configuration | None:
        if function_of(collective, algorithm) != leaf.function:
            return None
        said, defaults = dict(leaf.parameters), dict(algorithm.defaults)
        numbers = {
            name: as_c_int(said.get(_NAMED.get(name, ""), str(defaults.get(name, 0))))
            for name in algorithm.parameters
        }
        for name, value in numbers.items():
            low, high = MpichSpace.ranges[name]
            if not low <= value <= high:
                return None
        return Configuration(LIBRARY, collective, algorithm.name, tuple(numbers.items()))

    def running_as(
        self, configuration: Configuration, comm_size: int, msize_bytes: int
    ) -> Configuration:
        """Return what runs where an algorithm is told to: in one piece where there is no second.

        Limits that MPICH checks, or that end the program, are not looked at here.
        """
        if configuration.is_default:
            return configuration
        fallback = self.space.algorithm_of(configuration).fallback
        runs = self.space.running_range(configuration, comm_size, 1)
        if not fallback or not runs.why_not(msize_bytes):
            return configuration
        other = self.space.entry_of(configuration.collective).named(fallback)
        kept = other.parameters if other is not None else ()
        pairs = tuple((name, value) for name, value in configuration.parameters if name in kept)
        return Configuration(LIBRARY, configuration.collective, fallback, pairs)

    def guards_of(self, spelled: Configuration) -> list[str]:
        """Return the tests that have to hold where a configuration stands, beside its path's."""
        limits = self.space.algorithm_of(spelled).limits
        found = [key for limit, key in _GUARDS if limit in limits]
        if spelled.collective in (Collective.ALLTOALL, Collective.ALLTOALLV):
            found.append("is_sendbuf_inplace=no")
        return found

    def is_flat(self, function: str) -> bool:
        """Tell whether a composition of the device hands the call on as it is."""
        collective, _, kind = function.removeprefix("MPIDI_").partition("_intra_composition_")
        if self.series == "4.0" and collective.lower() in ("allgather", "alltoall"):
            return True
        return f"{collective.lower()}_{kind}" in _FLAT

    @cached_property
    def own_trees(self) -> dict[str, Tree]:
        """The tree of every collective that a file must have, each leaf left to the library."""
        return self._trees("builtin.json", "MPIR")

    @cached_property
    def compositions(self) -> dict[str, Tree]:
        """By which composition the device (ch4) runs each blocking collective."""
        return self._trees("compositions.json", "MPIDI")

    def _trees(self, file: str, prefix: str) -> dict[str, Tree]:
        trees: dict[str, Tree] = {}
        for group in _data(file):
            for collective, stem in group["of"].items():
                between = group.get("inter", {}).get(collective, "")
                words = f"{prefix}_{collective.capitalize()}_", stem, between
                trees[collective] = self._own(group["is"], group.get("let", {}), *words)
        return {name: trees[name] for name in self.by_collective if name in trees}

    def _own(self, node: Any, parts: dict[str, Any], prefix: str, stem: str, between: str) -> Tree:
        """Return the tree that a node of a data file stands for.

        A text is a leaf: ``+`` stands for the stem of the collective's functions, ``@`` for its
        function between groups of processes, ``$`` for a part of the group; ``|`` divides names of
        which the first one that the release has is meant.
        """
        words = prefix, stem, between
        if isinstance(node, dict):
            steps = ((test(key), self._own(then, parts, *words)) for key, then in node.items())
            return Branch(tuple(steps))
        if node.startswith("$"):
            return self._own(parts[node[1:]], parts, *words)
        choices = (choice.split() for choice in node.split("|"))
        name, *pairs = next(each for each in choices if _Word.of(each[0]).is_in(self.series))
        function = prefix + _Word.of(name).name.replace("+", stem).replace("@", between)
        said = tuple((n, v) for n, _, v in (pair.partition("=") for pair in pairs))
        return Leaf(function, said, left_to_library=True)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The release's control variables without prefix, with what kind of value each takes.

        The words of a choice follow its kind, unless they are the release's algorithms.
        Of series between those whose names are known it is taken to have what either has.
        """
        return {name: kind for name, kind, *_ in self._of_series("variables.txt")}

    @cached_property
    def of_device(self) -> frozenset[str]:
        """The compositions and algorithms that trees of the device's layer can name."""
        return frozenset(name for name, *_ in self._of_series("device_functions.txt"))

    def _of_series(self, name: str) -> Iterator[list[str]]:
        """Yield the words of the lines of a list that hold for the release, series at their end."""
        text = (_DATA / name).read_text(encoding="utf-8")
        near = {self.series} if self.series in ("4.0", "4.3", "5.0") else {"4.0", "4.3"}
        lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
        return (words for words in lines if near & set(words[1:]))

    def parameters_of(self, collective: Collective) -> Iterator[tuple[str, Algorithm]]:
        """Yield the bare names of variables that are parameters, with who uses them."""
        for algorithm in self.space.entry_of(collective).algorithms:
            settings = [name for name, _ in algorithm.settings]
            for variable in (*(name for _, name in algorithm.variables), *settings):
                yield f"{collective.upper()}_{variable}", algorithm


# clients of a service may name any release of a series
@lru_cache(maxsize=128)
def functions_of(release: str) -> Functions:
    return Functions(release)


def function_of(collective: Collective, algorithm: Algorithm) -> str:
    """Return the function that runs an algorithm of the catalogue."""
    word = algorithm.value or algorithm.name
    kind = "allcomm" if word == "nb" else "intra"
    return f"MPIR_{collective.capitalize()}_{kind}_{word}"


def _telling(leaf: Leaf) -> dict[str, str]:
    said = {
        name: value if name == "tree_type" else str(as_c_int(value))
        for name, value in leaf.parameters
        if name in _TELLING
    }
    if said.get("tree_type", "kary") not in TREE_TYPES:
        said["tree_type"] = "kary"
    return said
