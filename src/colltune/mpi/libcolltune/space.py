"""The algorithms that libcolltune brings along, alike with every MPI library.

The structs ``ct_algorithm_t`` of ``libcolltune/src/*.c`` say the same; a test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from colltune.domain import INTERPOSED, Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi.configuration_space import (
    ConfigurationSpace,
)
from colltune.mpi.libcolltune import is_libcolltune

Values = Mapping[str, int | str]
_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class Parameter:
    """A parameter of an algorithm: a number from ``low`` to ``high``, or one of ``words``.

    ``usual`` is what it is where a configuration does not tell, ``offered`` the values that are
    worth measuring.
    """

    name: str
    usual: int | str
    offered: tuple[int | str, ...]
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()

    def why_not(self, value: int | str) -> str:
        """Return what is wrong with a value; empty if nothing is."""
        if self.words:
            known = ", ".join(self.words)
            return "" if value in self.words else f"{self.name} must be one of {known}"
        fits = isinstance(value, int) and self.low <= value <= self.high
        return "" if fits else f"{self.name} must be from {self.low} to {self.high}"


def _as_they_are(values: Values, _nprocs: int) -> Values:
    return values


def _anywhere(_values: Values, _shape: Shape) -> str:
    return ""


def _all(_values: Values) -> bool:
    return True


@dataclass(frozen=True)
class OwnAlgorithm:
    """One algorithm of libcolltune, with its ``parameters`` in the order of the C side.

    ``reduced`` maps parameter values and processes to the plainest values that run in the same way,
    ``limit_on`` values and a shape to why they make no difference there; ``offers`` tells whether a
    combination of offered values is worth measuring at all.
    """

    collective: Collective
    name: str
    parameters: tuple[Parameter, ...]
    reduced: Callable[[Values, int], Values] = _as_they_are
    limit_on: Callable[[Values, Shape], str] = _anywhere
    offers: Callable[[Values], bool] = _all

    def configuration(self, values: Values) -> Configuration:
        return Configuration(INTERPOSED, self.collective, self.name, tuple(values.items()))

    def offered(self) -> tuple[Configuration, ...]:
        """Return the configurations that are worth measuring, on some number of processes."""
        names = [parameter.name for parameter in self.parameters]
        combinations = product(*(parameter.offered for parameter in self.parameters))
        found = (dict(zip(names, values, strict=True)) for values in combinations)
        return tuple(self.configuration(values) for values in found if self.offers(values))


# ---- bcast: Hasanov et al. 2015, algorithm 1 ----

USUAL_SEGMENT_BYTES = 32768
_BROADCASTS = (
    *("library", "flat", "chain", "pipeline"),
    *("binary", "binomial", "scatter_ring_allgather"),
)
_ROOT = 0
"""So many groups as the square root of the processes, where eq. 2, 4 and 7 are least."""


def _plainest_broadcast(values: Values, nprocs: int) -> Values:
    """Return the values with which a broadcast in groups runs in the same way.

    A level of one process sends nothing, so that groups of 1 or of all are a flat broadcast; the
    square root of the processes is told by 0; only pipelines have segments.
    """
    groups, root = int(values["groups"]), square_root(nprocs)
    groups = min(groups or root, nprocs)
    inner, outer = values["inner"], values["outer"]
    if groups == nprocs and nprocs > 1:
        inner, outer, groups = (inner if outer == "same" else outer), "same", 1
    elif groups == 1 or outer == inner:
        outer = "same"
    if groups == root and groups > 1:
        groups = _ROOT
    cuts = "pipeline" in (inner, outer)
    segsize = values["segsize"] if cuts else USUAL_SEGMENT_BYTES
    return {"groups": groups, "inner": inner, "outer": outer, "segsize": segsize}


def square_root(nprocs: int) -> int:
    """Return the number of groups for 0: the nearest whole number to the square root."""
    return math.floor(math.sqrt(nprocs) + 0.5)


def _worth_broadcasting(values: Values) -> bool:
    if values["groups"] == 1 and values["inner"] == "library":
        return False  # that is the library's own decision
    return values["inner"] == "pipeline" or values["segsize"] == USUAL_SEGMENT_BYTES


# ---- allgather and allreduce: Tran et al. 2023, sec. 3 ----


def _on_nodes(values: Values, shape: Shape) -> str:
    """Return why leaders or their exchange make no difference there."""
    if shape.nodes == 1 and (values["exchange"], values["leaders"]) != ("ring", 1):
        return "within a node leaders exchange nothing"
    if int(values["leaders"]) > shape.ppn:
        return f"{values['leaders']} leaders are all {shape.ppn} processes of a node"
    return ""


def _within_a_node(_values: Values, shape: Shape) -> str:
    """Return why it runs on one node alone."""
    return "" if shape.nodes == 1 else "between nodes the MPI library reduces"


_EXCHANGES = ("ring", "recursive_doubling")
_BY_LEADERS = (
    Parameter("exchange", "ring", _EXCHANGES, words=_EXCHANGES),
    Parameter("leaders", 1, (1, 2, 4), 1, 64),
    Parameter("chunk", 0, (0,), 0, _INT_MAX),
    Parameter("overlap", "yes", ("yes",), words=("no", "yes")),
)

ALGORITHMS: tuple[OwnAlgorithm, ...] = (
    # a portfolio does not know the processes: powers of two around their square root
    OwnAlgorithm(
        Collective.BCAST,
        "hierarchical",
        (
            Parameter("groups", _ROOT, (_ROOT, 1, 2, 4, 8, 16, 32, 64), 0, 1 << 24),
            Parameter(
                "inner",
                "binomial",
                ("library", "pipeline", "binomial", "scatter_ring_allgather"),
                words=_BROADCASTS,
            ),
            Parameter("outer", "same", ("same",), words=("same", *_BROADCASTS)),
            Parameter("segsize", USUAL_SEGMENT_BYTES, (8192, USUAL_SEGMENT_BYTES), 1, 1 << 30),
        ),
        reduced=_plainest_broadcast,
        offers=_worth_broadcasting,
    ),
    OwnAlgorithm(Collective.ALLGATHER, "hierarchical", _BY_LEADERS, limit_on=_on_nodes),
    OwnAlgorithm(Collective.ALLREDUCE, "ring", _BY_LEADERS, limit_on=_on_nodes),
    OwnAlgorithm(Collective.ALLREDUCE, "doubling", (), limit_on=_within_a_node),
    # Fagg et al. 2006, sec. 6.2
    OwnAlgorithm(
        Collective.ALLTOALLV,
        "eager_pairwise",
        (Parameter("threshold", 32768, (0, 1024, 8192, 32768, 131072), 0, _LONG_MAX),),
    ),
    OwnAlgorithm(
        Collective.ALLTOALLV,
        "adaptive",
        (
            Parameter("every", 5, (5,), 2, 1000000),
            Parameter("start", 32768, (32768,), 0, _LONG_MAX),
            Parameter("tests", 3, (3,), 1, 5),
        ),
    ),
)


def algorithm_of(collective: Collective, name: str) -> OwnAlgorithm | None:
    found = (a for a in ALGORITHMS if (a.collective, a.name) == (collective, name))
    return next(found, None)


TITLE = "libcolltune"
FORCE = "COLLTUNE_FORCE"
FORCED_PREFIX = "colltune."
"""Begins the name by which `Release.force` tells the benchmark to call ``colltune_force``."""


class LibcolltuneSpace(ConfigurationSpace):
    """The algorithms of libcolltune, which are the same with all releases."""

    release = ""

    def owns(self, configuration: Configuration) -> bool:
        return is_libcolltune(configuration)

    def offered(
        self,
        collective: Collective,
        segsizes_bytes: Sequence[int] = (),
        fanouts: Sequence[int] = (),
    ) -> tuple[Configuration, ...]:
        """Return the configurations of a collective that are worth measuring."""
        own = (algorithm for algorithm in ALGORITHMS if algorithm.collective is collective)
        return tuple(configuration for algorithm in own for configuration in algorithm.offered())

    @lru_cache(maxsize=4096)  # noqa: B019 (there is one)
    def canonical(self, configuration: Configuration) -> Configuration:
        algorithm = _algorithm(configuration)
        given = dict(configuration.parameters)
        known = [parameter.name for parameter in algorithm.parameters]
        for name in given:
            if name not in known:
                of, names = configuration.id, ", ".join(known) or "none"
                raise say("no-parameter", configuration=of, parameter=name, known=names)
        values = {p.name: given.get(p.name, p.usual) for p in algorithm.parameters}
        for parameter in algorithm.parameters:
            wrong = parameter.why_not(values[parameter.name])
            if wrong:
                raise say("wrong-parameter", configuration=configuration.id, wrong=wrong)
        return algorithm.configuration(values)

    def effective(
        self, configuration: Configuration, nprocs: int, msize_bytes: int = 0
    ) -> Configuration:
        """Return the configuration with the plainest parameters that runs in the same way."""
        values = dict(self.canonical(configuration).parameters)
        algorithm = _algorithm(configuration)
        return algorithm.configuration(algorithm.reduced(values, nprocs))

    def limit_on(self, configuration: Configuration, shape: Shape) -> str:
        """Return why it runs as another one would on `shape`; empty if it does not."""
        values = dict(self.canonical(configuration).parameters)
        return _algorithm(configuration).limit_on(values, shape)

    def force(self, configuration: Configuration) -> dict[str, int | str]:
        """Return what the benchmark hands to colltune_force: collective and configuration's id."""
        spelled = self.canonical(configuration)
        return {f"{FORCED_PREFIX}{spelled.collective}": spelled.id}

    def settable_at_runtime(self, configuration: Configuration) -> bool:
        """Return True: `force` works for all of them."""
        self.canonical(configuration)
        return True

    def forced_environment(self, configuration: Configuration) -> dict[str, str]:
        """Return ``COLLTUNE_FORCE``; libcolltune must be preloaded besides."""
        return {FORCE: self.canonical(configuration).id}

    def expected_symbols(self, configuration: Configuration) -> frozenset[str]:
        """Return the id, by which libcolltune tells what it ran."""
        return frozenset({self.canonical(configuration).id})


def _algorithm(configuration: Configuration) -> OwnAlgorithm:
    found = algorithm_of(configuration.collective, configuration.algorithm)
    if found is None:
        names = [a.name for a in ALGORITHMS if a.collective is configuration.collective]
        known = ", ".join(names) or "none"
        what, name = configuration.collective, configuration.algorithm
        raise say("no-algorithm", library=TITLE, collective=what, algorithm=name, known=known)
    return found


LIBCOLLTUNE = LibcolltuneSpace()
