"""Configurations of coll/tuned: their names, where they run as themselves, which are safe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from colltune.domain import Collective, Configuration, Portfolio
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm, Limit
from colltune.mpi.openmpi.releases import LIBRARY, entry_of

MAX_FANOUT = 32
MAX_SEGSIZE_BYTES = 2**31 - 1
_FORCED_DEFAULTS = {"fanout": 4, "segsize": 0}


@dataclass(frozen=True)
class Range:
    """Where a configuration runs as itself: from ``first_bytes`` on, or never (None)."""

    first_bytes: int | None
    reason: str = ""


def portfolio(
    release: str, collective: Collective, segsizes_bytes: Sequence[int], fanouts: Sequence[int]
) -> Portfolio:
    """Return the default and every algorithm with every combination of its parameters."""
    grids = {"fanout": fanouts, "segsize": segsizes_bytes}
    found = [Configuration.default(LIBRARY, collective)]
    for algorithm in entry_of(release, collective).algorithms:
        if algorithm.wrong:
            continue
        values = [grids[name] for name in algorithm.parameters]
        for combination in product(*values):
            parameters = dict(zip(algorithm.parameters, combination, strict=True))
            if Limit.SEGMENTED in algorithm.limits and not parameters["segsize"]:
                continue
            found.append(_configuration(collective, algorithm, parameters))
    return Portfolio(LIBRARY, release, collective, tuple(found))


def algorithm_of(release: str, configuration: Configuration) -> Algorithm:
    """Return the algorithm of a configuration that is not the default.

    Raises
    ------
    LibraryError
        If it is another library's, or unknown in this release.
    """
    if configuration.library != LIBRARY:
        raise LibraryError(
            f"{configuration.id} is a configuration of {configuration.library}, not of {LIBRARY}"
        )
    entry = entry_of(release, configuration.collective)
    algorithm = entry.named(configuration.algorithm)
    if algorithm is None:
        known = ", ".join(a.name for a in entry.algorithms)
        raise LibraryError(
            f"{configuration.id}: Open MPI {release} has no {configuration.collective} algorithm"
            f" {configuration.algorithm!r}; known: {known}"
        )
    return algorithm


def canonical(release: str, configuration: Configuration) -> Configuration:
    """Return the spelling with the library's name and every honoured parameter written out.

    A parameter that is not given gets the value that coll/tuned uses then; a segment size that the
    algorithm ignores is dropped.

    Raises
    ------
    LibraryError
        If algorithm or parameter are unknown or a value is out of range.
    """
    if configuration.is_default:
        return Configuration.default(LIBRARY, configuration.collective)
    algorithm = algorithm_of(release, configuration)
    given = dict(configuration.parameters)
    unknown = [name for name in given if name not in (*algorithm.parameters, "segsize")]
    if unknown:
        known = ", ".join(algorithm.parameters) or "none"
        raise LibraryError(
            f"{configuration.id}: {algorithm.name} has no parameter {unknown[0]!r}; known: {known}"
        )
    parameters = {name: given.get(name, _FORCED_DEFAULTS[name]) for name in algorithm.parameters}
    _check_values(configuration, parameters)
    return _configuration(configuration.collective, algorithm, parameters)


def effective(
    release: str, configuration: Configuration, nprocs: int, msize_bytes: int
) -> Configuration:
    """Return the configuration with the smallest parameters that runs in the same way.

    A message that fits one segment is not segmented, and there are no more chains than other
    processes (``coll_base_functions.h``, COLL_BASE_COMPUTED_SEGCOUNT; ``coll_base_topo.c``). One
    that would not run as itself is returned as it is.
    """
    spelled = canonical(release, configuration)
    if why_not(release, spelled, nprocs, msize_bytes):
        return spelled
    parameters = dict(spelled.parameters)
    if "fanout" in parameters:
        parameters["fanout"] = max(1, min(parameters["fanout"], nprocs - 1))
    segmented = configuration.collective in (Collective.BCAST, Collective.REDUCE)
    if segmented and "segsize" in parameters and parameters["segsize"] >= msize_bytes:
        parameters["segsize"] = 0
    return Configuration(LIBRARY, spelled.collective, spelled.algorithm, tuple(parameters.items()))


def running_range(
    release: str, configuration: Configuration, nprocs: int, element_bytes: int
) -> Range:
    """Return from which message size on `configuration` runs as itself on `nprocs` processes.

    `element_bytes` is the size of the datatype of the calls: some algorithms need an element per
    process.
    """
    if configuration.is_default:
        return Range(0)
    algorithm = algorithm_of(release, configuration)
    if algorithm.wrong:
        return Range(None, f"{algorithm.name}: {algorithm.wrong}")
    segsize = dict(canonical(release, configuration).parameters).get("segsize", 0)
    first, reason = 0, ""
    for limit in sorted(algorithm.limits):
        if limit in _PROCESS_LIMITS:
            fits, need = _PROCESS_LIMITS[limit]
            if not fits(nprocs):
                return Range(None, f"{algorithm.name} needs {need}, not {nprocs}")
        elif limit is Limit.SEGMENTED and not segsize:
            return Range(None, f"{algorithm.name} needs a segment size above 0")
        elif limit in _SIZE_LIMITS:
            smallest = _SIZE_LIMITS[limit](nprocs, element_bytes, segsize)
            if smallest > first:
                other = f"; {algorithm.fallback} runs instead" if algorithm.fallback else ""
                first = smallest
                reason = (
                    f"{algorithm.name} on {nprocs} processes needs {smallest} bytes or more{other}"
                )
    return Range(first, reason)


def why_not(
    release: str,
    configuration: Configuration,
    nprocs: int,
    msize_bytes: int,
    *,
    element_bytes: int = 1,
) -> str:
    """Return why `configuration` would not run as itself there; empty if it would."""
    runs = running_range(release, configuration, nprocs, element_bytes)
    return runs.reason if runs.first_bytes is None or msize_bytes < runs.first_bytes else ""


def why_unsafe(
    release: str,
    configuration: Configuration,
    *,
    builtin_operations_only: bool,
    nprocs: int | None = None,
) -> str:
    """Return which legal program `configuration` would break; empty if none.

    Without `nprocs` an algorithm for two processes only counts as safe.
    """
    if configuration.is_default:
        return ""
    algorithm = algorithm_of(release, configuration)
    if algorithm.wrong:
        return f"{algorithm.name}: {algorithm.wrong}"
    if Limit.COMMUTATIVE in algorithm.limits and not builtin_operations_only:
        return f"{algorithm.name} gives wrong results with operations that do not commute"
    if Limit.TWO_PROCESSES in algorithm.limits and nprocs not in (None, 2):
        return f"{algorithm.name} ends the program unless there are 2 processes"
    return ""


def _configuration(
    collective: Collective, algorithm: Algorithm, parameters: dict[str, int]
) -> Configuration:
    return Configuration(LIBRARY, collective, algorithm.name, tuple(parameters.items()))


def _check_values(configuration: Configuration, parameters: dict[str, int]) -> None:
    ranges = {"fanout": (1, MAX_FANOUT), "segsize": (0, MAX_SEGSIZE_BYTES)}
    for name, value in parameters.items():
        low, high = ranges[name]
        if not low <= value <= high:
            raise LibraryError(f"{configuration.id}: {name} must be from {low} to {high}")


def _power_of_two_below(nprocs: int) -> int:
    return 1 << (nprocs.bit_length() - 1)


_PROCESS_LIMITS: dict[Limit, tuple[Callable[[int], bool], str]] = {
    Limit.TWO_PROCESSES: (lambda n: n == 2, "exactly 2 processes"),
    Limit.EVEN_PROCESSES: (lambda n: n % 2 == 0, "an even number of processes"),
    Limit.POWER_OF_TWO_PROCESSES: (
        lambda n: n == _power_of_two_below(n),
        "a power of two of processes",
    ),
}
# smallest message in bytes, from processes, element size and segment size
_SIZE_LIMITS: dict[Limit, Callable[[int, int, int], int]] = {
    Limit.ELEMENT_PER_PROCESS: lambda n, element, _: n * element,
    Limit.ELEMENT_PER_POWER_OF_TWO: lambda n, element, _: _power_of_two_below(n) * element,
    Limit.SEGMENT_PER_PROCESS: lambda n, element, segsize: n * max(segsize, element),
    Limit.TWO_SEGMENTS: lambda _, element, segsize: 2 * max(segsize, element),
}
