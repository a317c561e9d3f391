"""The things colltune speaks of, as frozen types; standard library only.

Times are seconds (``time_s``), the maximum over ranks. ``msize_bytes`` is what the caller of the
collective passes: the whole buffer for bcast, reduce, allreduce, reduce_scatter and scan, the block
per peer for allgather, alltoall, gather, scatter and reduce_scatter_block.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Self

from colltune.errors import DataError, say, unknown

DEFAULT_ALGORITHM = "default"
INTERPOSED = "colltune"
"""The library of configurations that our own library runs, over any MPI library."""
_CONFIGURATION_ID = re.compile(
    r"(?P<library>[a-z0-9_+-]+)\.(?P<collective>[a-z_]+)\.(?P<algorithm>[^:\s]+)(?::(?P<parameters>\S*))?"
)
_NUMBERED = ("fanout", "requests", "segsize")
_PARAMETER_VALUE = re.compile(r"-?\d+|(?P<word>[a-z][a-z0-9_]*)")


class Collective(StrEnum):
    """A collective operation of the MPI standard."""

    __hash__ = str.__hash__  # an enumeration's own is no C, and cells are looked up by millions

    ALLGATHER = "allgather"
    ALLGATHERV = "allgatherv"
    ALLREDUCE = "allreduce"
    ALLTOALL = "alltoall"
    ALLTOALLV = "alltoallv"
    BARRIER = "barrier"
    BCAST = "bcast"
    EXSCAN = "exscan"
    GATHER = "gather"
    REDUCE = "reduce"
    REDUCE_SCATTER = "reduce_scatter"
    REDUCE_SCATTER_BLOCK = "reduce_scatter_block"
    SCAN = "scan"
    SCATTER = "scatter"

    @property
    def mpi_name(self) -> str:
        """Name of the MPI function, ``MPI_Bcast``."""
        return f"MPI_{self.value.capitalize()}"

    @property
    def has_block_per_rank(self) -> bool:
        """Whether ``msize_bytes`` is the block per peer, so that a buffer holds one per process."""
        return self in _BLOCK_PER_RANK

    @property
    def reduces(self) -> bool:
        """Whether it combines numbers by an operation."""
        return self in _REDUCING


_REDUCING = frozenset(
    {
        Collective.ALLREDUCE,
        Collective.EXSCAN,
        Collective.REDUCE,
        Collective.REDUCE_SCATTER,
        Collective.REDUCE_SCATTER_BLOCK,
        Collective.SCAN,
    }
)
_BLOCK_PER_RANK = frozenset(
    {
        Collective.ALLGATHER,
        Collective.ALLGATHERV,
        Collective.ALLTOALL,
        Collective.ALLTOALLV,
        Collective.GATHER,
        Collective.SCATTER,
        Collective.REDUCE_SCATTER_BLOCK,
    }
)


class RunStatus(StrEnum):
    """What became of one cell of a campaign.

    ``abandoned``: the few repetitions that were timed prove it slower than another configuration;
    ``skipped``: predicted to be too slow for the time that was left, never timed; ``too_fast``:
    below the smallest time that the network allows, so that it did not measure the collective;
    ``no_window``: no repetition of this launch began on all processes at the time agreed upon;
    ``too_few``: timed less than three times, which learners may see, but which proves nothing.
    """

    OK = "ok"
    ABANDONED = "abandoned"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"
    CRASH = "crash"
    WRONG_RESULT = "wrong_result"
    NOT_APPLICABLE = "not_applicable"
    TOO_FAST = "too_fast"
    NO_WINDOW = "no_window"
    TOO_FEW = "too_few"

    @property
    def is_timed(self) -> bool:
        """Whether a measurement of this status has times."""
        return self in (RunStatus.OK, RunStatus.ABANDONED, RunStatus.TOO_FEW)


class Synchronisation(StrEnum):
    """How processes start a repetition together: after a barrier, or at an agreed time."""

    BARRIER = "barrier"
    WINDOW = "window"


LARGEST_NUMBER = 2**63 - 1
"""Of bytes or processes: what a signed integer of 64 bits can hold."""


@dataclass(frozen=True)
class Shape:
    """A job's shape: ``nodes`` x ``ppn`` processes; ``rails`` adapters per node where known."""

    nodes: int
    ppn: int
    rails: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.ppn < 1 or self.nprocs > LARGEST_NUMBER:
            raise say("impossible-shape", shape=self)

    @property
    def nprocs(self) -> int:
        """Number of processes."""
        return self.nodes * self.ppn

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shape that is stored as `text`, ``4x32``; a ValueError if it is none."""
        nodes, _, ppn = text.partition("x")
        return cls(int(nodes), int(ppn))

    def __lt__(self, other: Shape) -> bool:
        return (self.nodes, self.ppn) < (other.nodes, other.ppn)

    def __str__(self) -> str:
        return f"{self.nodes}x{self.ppn}"


@dataclass(frozen=True)
class Instance:
    """The problem to be solved: a collective on a shape with a message size in bytes.

    ``msize_bytes`` is what the caller passes; see `Collective.has_block_per_rank`.
    """

    collective: Collective
    shape: Shape
    msize_bytes: int

    def __post_init__(self) -> None:
        if not 0 <= self.msize_bytes <= LARGEST_NUMBER:
            raise say("impossible-size", value=self.msize_bytes)


@dataclass(frozen=True)
class Configuration:
    """One algorithm of one MPI library with its parameter values.

    ``parameters`` are (name, value) pairs sorted by name, such as ``("segsize", 65536)`` in bytes
    or ``("inner", "binomial")``.

    ``library`` is a key of ``colltune.mpi.LIBRARIES``, or ``colltune`` for an algorithm of our own
    library, which runs over any of them; ``algorithm`` a name of its catalogue, or ``default``.
    """

    library: str
    collective: Collective
    algorithm: str
    parameters: tuple[tuple[str, int | str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", _by_name(self.parameters))

    def __lt__(self, other: Configuration) -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[object, ...]:
        # numbers by value, words after them
        values = tuple((n, isinstance(v, str), v) for n, v in self.parameters)
        return (self.library, self.collective, self.algorithm, values)

    @property
    def id(self) -> str:
        """Readable, sortable name: ``openmpi.bcast.chain:fanout=4,segsize=65536``."""
        head = f"{self.library}.{self.collective}.{self.algorithm}"
        return f"{head}:{self.parameter_text}" if self.parameters else head

    @property
    def parameter_text(self) -> str:
        """The parameters alone: ``fanout=4,segsize=65536``; empty when there are none."""
        return ",".join(f"{name}={value}" for name, value in self.parameters)

    @property
    def numbers(self) -> dict[str, int]:
        """The parameters whose values are numbers, by name."""
        return {name: value for name, value in self.parameters if isinstance(value, int)}

    @property
    def segsize_bytes(self) -> int | None:
        """Segment size in bytes, or None where the algorithm has none."""
        return self.numbers.get("segsize")

    @property
    def stored_algorithm(self) -> str:
        """The algorithm as datasets name it, where the library is that of the whole context.

        One of our own library has that in front: ``colltune.hierarchical``.
        """
        own = self.library == INTERPOSED
        return f"{INTERPOSED}.{self.algorithm}" if own else self.algorithm

    @property
    def short(self) -> str:
        """What to call it where library and collective are known: ``chain segsize=65536``."""
        return " ".join(filter(None, (self.stored_algorithm, self.parameter_text)))

    @classmethod
    def stored(
        cls, library: str, collective: Collective, algorithm: str, parameters: str
    ) -> Configuration:
        """Return what a dataset of `library` names in its columns.

        `algorithm` is a `stored_algorithm`, `parameters` a `parameter_text`.

        Raises
        ------
        DataError
            If `parameters` are none.
        """
        prefix = f"{INTERPOSED}."
        own = INTERPOSED if algorithm.startswith(prefix) else library
        name = algorithm.removeprefix(prefix)
        return cls(own, collective, name, parse_parameters(parameters))

    @property
    def is_default(self) -> bool:
        """Whether this stands for the library's own decision."""
        return self.algorithm == DEFAULT_ALGORITHM

    @classmethod
    def default(cls, library: str, collective: Collective) -> Configuration:
        """Return the configuration that stands for the library's own decision."""
        return cls(library, collective, DEFAULT_ALGORITHM)

    @classmethod
    def parse(cls, text: str) -> Configuration:
        """Return the configuration whose ``id`` is `text`.

        Raises
        ------
        DataError
            If `text` is not a configuration id.
        """
        match = _CONFIGURATION_ID.fullmatch(text)
        if not match:
            like = "openmpi.bcast.chain:fanout=4,segsize=65536"
            raise say("malformed", DataError, value=text, what="a configuration id", like=like)
        collective = parse_collective(match["collective"])
        return cls(
            match["library"], collective, match["algorithm"], parse_parameters(match["parameters"])
        )

    def matches(self, pattern: str) -> bool:
        """Tell whether the id matches a shell glob, ``*.bcast.chain:*``.

        `pattern` is a glob over ids, as ``*.bcast.chain*``.
        """
        return fnmatch.fnmatchcase(self.id, pattern)


def parse_collective(text: str) -> Collective:
    """Return the collective named `text` (``bcast`` or ``MPI_Bcast``).

    Raises
    ------
    DataError
        If there is no such collective.
    """
    name = text.strip().lower().removeprefix("mpi_")
    try:
        return Collective(name)
    except ValueError:
        raise unknown("collective", text, Collective, DataError) from None


def parse_parameters(text: str | None) -> tuple[tuple[str, int | str], ...]:
    """Return the pairs of ``fanout=4,segsize=65536`` or ``groups=16,inner=binomial``.

    `text` is written ``fanout=4,segsize=0``; None and an empty one mean none.

    Raises
    ------
    DataError
        If a part is neither ``name=integer`` nor ``name=word``, or a number is said in words.
    """
    pairs: list[tuple[str, int | str]] = []
    for part in filter(None, (text or "").split(",")):
        name, _, value = part.partition("=")
        match = _PARAMETER_VALUE.fullmatch(value)
        if not name or not match or (match["word"] and name in _NUMBERED):
            like = "segsize=65536 or inner=binomial"
            raise say("malformed", DataError, value=part, what="a parameter", like=like)
        pairs.append((name, value if match["word"] else int(value)))
    return _by_name(pairs)


def _by_name(pairs: Iterable[tuple[str, int | str]]) -> tuple[tuple[str, int | str], ...]:
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


@dataclass(frozen=True)
class Portfolio:
    """The configurations of one collective of one library release that can be chosen from.

    All ``configurations`` are of the ``library`` in one ``release``.
    """

    library: str
    release: str
    collective: Collective
    configurations: tuple[Configuration, ...]

    @property
    def default(self) -> Configuration:
        """The library's own decision, always a member."""
        return Configuration.default(self.library, self.collective)

    def filtered(self, only: Iterable[str] = (), skip: Iterable[str] = ()) -> Portfolio:
        """Keep what matches a glob of `only` (all if empty) and none of `skip`, and the default."""
        only, skip = tuple(only), tuple(skip)
        kept = tuple(
            c
            for c in self.configurations
            if c.is_default
            or (
                (not only or any(c.matches(p) for p in only))
                and not any(c.matches(p) for p in skip)
            )
        )
        return Portfolio(self.library, self.release, self.collective, kept)


@dataclass(frozen=True)
class LaunchStatistics:
    """Statistics of one launch's repetitions, in seconds; NaN where a source does not tell.

    ``n_reps`` is how many there were; ``time_s`` is the median, ``time_mean_s`` the mean,
    ``time_min_s``, ``time_p90_s`` and ``time_max_s`` the smallest, the 90 % quantile and the
    largest. ``time_rank_mean_s`` and ``time_rank_min_s`` are of other benchmarks, which print the
    mean and the smallest over ranks of each rank's mean.
    """

    n_reps: int
    time_s: float
    time_mean_s: float
    time_min_s: float
    time_p90_s: float
    time_max_s: float
    time_rank_mean_s: float = field(default=math.nan, compare=False)
    time_rank_min_s: float = field(default=math.nan, compare=False)

    @classmethod
    def of(cls, times_s: Iterable[float]) -> LaunchStatistics:
        """Summarise raw repetition times (at least one).

        `times_s` are in seconds.
        """
        ordered = sorted(times_s)
        n = len(ordered)
        p90 = ordered[round(0.9 * (n - 1))]
        return cls(
            n_reps=n,
            time_s=(ordered[(n - 1) // 2] + ordered[n // 2]) / 2,
            time_mean_s=math.fsum(ordered) / n,
            time_min_s=ordered[0],
            time_p90_s=p90,
            time_max_s=ordered[-1],
        )


@dataclass(frozen=True)
class Measurement:
    """One launch's repetitions of one configuration on one instance.

    ``times_s`` holds the raw repetitions; it is empty for imported data that has only a ``summary``
    and for a `status` that is not timed.

    ``launch`` is the name of the launch.
    """

    instance: Instance
    configuration: Configuration
    launch: str
    status: RunStatus = RunStatus.OK
    times_s: tuple[float, ...] = ()
    summary: LaunchStatistics | None = None

    def __post_init__(self) -> None:
        if self.summary is None and self.times_s:
            object.__setattr__(self, "summary", LaunchStatistics.of(self.times_s))
        if self.status.is_timed and self.summary is None:
            raise say("needs-times", configuration=self.configuration.id, status=self.status)


@dataclass(frozen=True)
class Context:
    """Where measurements come from; measurements of different contexts are never joined."""

    machine: str
    """name of the machine, which the user gives"""
    library: str
    """MPI library: openmpi, mpich, intelmpi"""
    library_version: str
    """its release"""
    fabric: str = ""
    """the network, which the user names; empty if the machine has one only"""
    cores_shared: str = ""
    """``4 processes on 2 cores per node`` where processes shared cores, else empty"""

    def __str__(self) -> str:
        fabric = f" over {self.fabric}" if self.fabric else ""
        shared = f" (cores shared: {self.cores_shared})" if self.cores_shared else ""
        return f"{self.machine}, {self.library} {self.library_version}{fabric}{shared}"

    def as_json(self) -> dict[str, str]:
        """Return the fields as files store them; ``cores_shared``, which came later, if it is."""
        fields = asdict(self)
        return (
            fields if self.cores_shared else {n: fields[n] for n in fields if n != "cores_shared"}
        )
