"""What becomes of an algorithm that coll/tuned is told to run: itself, another one, or an error.

Element counts and segments are those of ``ompi/mca/coll/base`` (``coll_base_functions.h``,
COLL_BASE_COMPUTED_SEGCOUNT; ``coll_base_bcast.c``, ``coll_base_allreduce.c`` and so on).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Algorithm, CollectiveEntry, Limit
from colltune.mpi.file_format import Call
from colltune.mpi.openmpi.library import MAX_FANOUT
from colltune.mpi.openmpi.releases import LIBRARY
from colltune.mpi.openmpi.variables import as_int


@dataclass(frozen=True)
class Numbers:
    """An algorithm by its number, with what a rule or variables say beside it.

    ``requests`` is None where nothing was said.
    """

    algorithm: int
    fanout: int = 0
    segsize_bytes: int = 0
    requests: int | None = None


@dataclass(frozen=True)
class Running:
    """What runs in the end, by which sentences, and why it fails if it does."""

    configuration: Configuration
    reasons: tuple[str, ...] = ()
    ends_program: str = ""


def configuration_of(entry: CollectiveEntry, numbers: Numbers) -> Configuration | None:
    """Return the configuration that `numbers` stand for; None if there is no such algorithm.

    Values are those in effect: a fan-out below 1 counts as 1, there are at most 32 chains, no
    segment size and no limit of requests are 0 or less, and only what the algorithm honours is
    told.
    """
    number = as_int(numbers.algorithm)
    if not number:
        return Configuration.default(LIBRARY, entry.collective)
    algorithm = entry.numbered(number)
    if algorithm is None:
        return None
    fanout = as_int(numbers.fanout)
    values = {
        "fanout": fanout if algorithm.minimums else min(max(1, fanout), MAX_FANOUT),
        "segsize": max(0, as_int(numbers.segsize_bytes)),
        "requests": max(0, as_int(numbers.requests or 0)),
    }
    return _configuration(entry, algorithm, values)


def returns_at_once(call: Call) -> bool:
    """Tell whether the library returns before anything runs, as it does where there is no data.

    It knows no size of an alltoallv.
    """
    return not call.msize_bytes and call.collective not in (
        Collective.ALLTOALLV,
        Collective.BARRIER,
    )


def running(entry: CollectiveEntry, chosen: Configuration, call: Call) -> Running:
    """Return what the library runs when it is told `chosen`, a canonical configuration."""
    configuration, reasons = chosen, list[str]()
    if returns_at_once(call):
        return Running(chosen)
    while not configuration.is_default:
        algorithm = entry.named(configuration.algorithm)
        assert algorithm is not None  # (canonical configurations are in the catalogue)
        need = _too_small(algorithm, configuration)
        if need:
            why = f"{algorithm.name} needs {need} and never ends otherwise"
            return Running(configuration, (*reasons, f"{why}."), why)
        need = _unmet(algorithm, configuration, call)
        if not need:
            break
        if not algorithm.fallback:
            why = f"{algorithm.name} needs {need} and fails with an error otherwise"
            return Running(configuration, (*reasons, f"{why}."), why)
        configuration = _fallback(entry, algorithm, configuration)
        reasons.append(
            f"{algorithm.name} needs {need}, so that the library silently runs"
            f" {configuration.algorithm} instead."
        )
    return Running(configuration, tuple(reasons))


def _configuration(
    entry: CollectiveEntry, algorithm: Algorithm, values: dict[str, int]
) -> Configuration:
    # no limit is what holds when none is given: there is one spelling for it
    parameters = tuple(
        (name, values[name])
        for name in algorithm.parameters
        if name in values and (name != "requests" or values[name])
    )
    return Configuration(LIBRARY, entry.collective, algorithm.name, parameters)


def _fallback(
    entry: CollectiveEntry, algorithm: Algorithm, configuration: Configuration
) -> Configuration:
    other = entry.named(algorithm.fallback)
    assert other is not None  # (checked when the catalogue is read)
    # split_binary_tree hands its segments to a chain of one, recursive doubling of 6 takes radix 2
    fanout = dict(other.minimums).get("fanout", 1)
    values = {"segsize": 0, "requests": 0} | configuration.numbers | {"fanout": fanout}
    return _configuration(entry, other, values)


def _too_small(algorithm: Algorithm, configuration: Configuration) -> str:
    given = configuration.numbers
    for name, least in algorithm.minimums:
        if given.get(name, least) < least:
            return f"a {name} of {least} or more, not {given[name]}"
    return ""


def _unmet(algorithm: Algorithm, configuration: Configuration, call: Call) -> str:
    """Return what `algorithm` needs and the call does not have; empty if nothing."""
    segsize = configuration.numbers.get("segsize", 0)
    count = call.msize_bytes // call.element_bytes
    for limit in sorted(algorithm.limits):
        if limit in _NEEDS:
            met, need = _NEEDS[limit]
            if not met(call, count, segsize):
                return need.format(n=call.comm_size, element=call.element_bytes)
    return ""


def _segment(count: int, element_bytes: int, segsize: int) -> int:
    """Return the elements of a segment, as COLL_BASE_COMPUTED_SEGCOUNT does."""
    if not element_bytes <= segsize < element_bytes * count:
        return count
    elements, residual = divmod(segsize, element_bytes)
    return elements + (residual > element_bytes >> 1)


def _halves_hold_a_segment(call: Call, count: int, segsize: int) -> bool:
    smaller = count // 2 * call.element_bytes
    return bool(smaller) and (not segsize or max(segsize, call.element_bytes) <= smaller)


def _power_of_two_below(nprocs: int) -> int:
    return 1 << (nprocs.bit_length() - 1)


def _power_of_two(call: Call, _count: int, _segsize: int) -> bool:
    return call.comm_size == _power_of_two_below(call.comm_size)


_Met = Callable[[Call, int, int], bool]
_NEEDS: dict[Limit, tuple[_Met, str]] = {
    Limit.TWO_PROCESSES: (lambda call, *_: call.comm_size == 2, "exactly 2 processes, not {n}"),
    Limit.EVEN_PROCESSES: (
        lambda call, *_: call.comm_size % 2 == 0,
        "an even number of processes, not {n}",
    ),
    Limit.POWER_OF_TWO_PROCESSES: (_power_of_two, "a power of two of processes, not {n}"),
    Limit.COMMUTATIVE_OR_FALLBACK: (
        lambda call, *_: call.commutative,
        "an operation that commutes",
    ),
    Limit.ELEMENT_PER_PROCESS: (
        lambda call, count, _: count >= call.comm_size,
        "an element of {element} bytes for each of the {n} processes",
    ),
    Limit.ELEMENT_PER_POWER_OF_TWO: (
        lambda call, count, _: call.commutative and count >= _power_of_two_below(call.comm_size),
        "an operation that commutes, and an element of {element} bytes for nearly each of the {n}"
        " processes (the power of two below)",
    ),
    Limit.SEGMENT_PER_PROCESS: (
        lambda call, count, segsize: (
            count >= call.comm_size * _segment(count, call.element_bytes, segsize)
        ),
        "a segment for each of the {n} processes",
    ),
    Limit.TWO_SEGMENTS: (_halves_hold_a_segment, "a segment in either half of the message"),
}
