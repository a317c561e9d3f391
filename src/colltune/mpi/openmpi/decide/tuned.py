"""coll/tuned: what rules and variables name, and what becomes of an algorithm it is told to run.

Element counts and segments are those of ``ompi/mca/coll/base`` (``coll_base_functions.h``,
COLL_BASE_COMPUTED_SEGCOUNT; ``coll_base_bcast.c``, ``coll_base_allreduce.c`` and so on).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Algorithm, CollectiveEntry, Limit, SizeUnit
from colltune.mpi.openmpi.library import MAX_FANOUT
from colltune.mpi.openmpi.mca import Variables, as_int, forcing_name, whole_number
from colltune.mpi.openmpi.releases import LIBRARY
from colltune.mpi.rules import Call, Numbers

C = Collective
IN_PLACE_FORGOTTEN = (C.ALLGATHER, C.ALLGATHERV, C.ALLTOALL)
NO_SIZE = frozenset({C.ALLTOALLV, C.BARRIER})
"""Collectives that are always looked up with 0 bytes."""
_BY_CHAINS = (C.BCAST, C.REDUCE)
_WITH_REQUESTS = (C.ALLTOALL, C.REDUCE, C.SCATTER)
_ONLY_ALGORITHM = (C.ALLTOALLV, C.BARRIER, C.SCAN, C.EXSCAN)
_DEFAULT_FANOUT = 4


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


def counted_bytes(entry: CollectiveEntry, call: Call) -> int:
    """Return the size that coll/tuned compares with a rule's thresholds.

    Of in-place calls of allgather, allgatherv and alltoall it is taken from the send arguments,
    which MPI ignores, and so is 0 where those are empty; scan and exscan count the size of the type
    times the processes, whatever the count.
    """
    if call.collective in NO_SIZE:
        return 0
    if entry.size is SizeUnit.CONSTANT:
        return call.comm_size * call.element_bytes
    size = call.msize_bytes
    if call.in_place and call.collective in IN_PLACE_FORGOTTEN:
        size = call.ignored_send_bytes or 0
    return call.comm_size * size if entry.size is SizeUnit.MSIZE_TIMES_NPROCS else size


# ---- the variables that force one algorithm for all calls ----


def fanout_name(collective: Collective) -> str:
    """Return the end of the variable's name from which `collective` takes its fan-out."""
    return "chain_fanout" if collective in _BY_CHAINS else "tree_fanout"


def parameter_names(collective: Collective) -> tuple[str, ...]:
    """Return the ends of the names of all variables beside the algorithm."""
    if collective in _ONLY_ALGORITHM:
        return ()
    names = ("segmentsize", "tree_fanout", "chain_fanout")
    return (*names, "max_requests") if collective in _WITH_REQUESTS else names


def library_name(name: str) -> str:
    """Return how the library spells an algorithm of the catalogue."""
    # "default" is our word for the library's own decision
    return "default" if name == "basic_default" else name


def number_of(entry: CollectiveEntry, text: str) -> int | None:
    """Return the number of an algorithm that is given by number or name, in any case.

    None where the release has none: it prints a help text and goes on without
    (``mca_base_var_enum.c``).
    """
    if not text:
        return 0
    word = text.lower()
    names = {"ignore": 0} | {library_name(a.name): a.number for a in entry.algorithms}
    if word in names:
        return names[word]
    number = whole_number(text)
    return number if number is not None and 0 <= number <= len(entry.algorithms) else None


def forced_numbers(entry: CollectiveEntry, variables: Variables) -> Numbers:
    """Return the forced algorithm with its parameters; algorithm 0 where none is forced."""
    name = forcing_name(entry.collective)
    number = number_of(entry, variables.text(name) or "")
    if not number:
        return Numbers(0)
    chains = fanout_name(entry.collective)
    initial = variables.integer(f"coll_tuned_init_{chains}", _DEFAULT_FANOUT)
    limited = entry.collective in _WITH_REQUESTS
    return Numbers(
        number,
        variables.integer(f"{name}_{chains}", initial),
        variables.integer(f"{name}_segmentsize", 0),
        variables.integer(f"{name}_max_requests", 0) if limited else 0,
    )


# ---- what runs in the end ----


@dataclass(frozen=True)
class Running:
    """What runs in the end, by which sentences, and why it fails if it does."""

    configuration: Configuration
    reasons: tuple[str, ...] = ()
    ends_program: str = ""


def returns_at_once(call: Call) -> bool:
    """Tell whether the library returns before anything runs, as it does where it sees no data."""
    return not call.msize_bytes and call.collective not in NO_SIZE


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
            why = f"{algorithm.name} needs {need}, and otherwise never ends"
            return Running(configuration, (*reasons, f"{why}."), why)
        need = _unmet(algorithm, configuration, call)
        if not need:
            break
        if not algorithm.fallback:
            why = f"{algorithm.name} needs {need}, and otherwise fails with an error"
            return Running(configuration, (*reasons, f"{why}."), why)
        configuration = _fallback(entry, algorithm, configuration)
        reasons.append(
            f"{algorithm.name} needs {need}, so the library silently runs "
            f"{configuration.algorithm} instead."
        )
    return Running(configuration, tuple(reasons))


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


# what a limit asks of a call, its elements and segment size, and how that is told
_NEEDS: dict[Limit, tuple[Callable[[Call, int, int], bool], str]] = {
    Limit.TWO_PROCESSES: (lambda call, *_: call.comm_size == 2, "exactly 2 processes, not {n}"),
    Limit.EVEN_PROCESSES: (
        lambda call, *_: call.comm_size % 2 == 0,
        "an even number of processes, not {n}",
    ),
    Limit.POWER_OF_TWO_PROCESSES: (
        lambda call, *_: call.comm_size == _power_of_two_below(call.comm_size),
        "a power of two of processes, not {n}",
    ),
    Limit.COMMUTATIVE_OR_FALLBACK: (
        lambda call, *_: call.commutative,
        "a commutative operation",
    ),
    Limit.ELEMENT_PER_PROCESS: (
        lambda call, count, _: count >= call.comm_size,
        "one element of {element} bytes for each of the {n} processes",
    ),
    Limit.ELEMENT_PER_POWER_OF_TWO: (
        lambda call, count, _: call.commutative and count >= _power_of_two_below(call.comm_size),
        "a commutative operation, and one element of {element} bytes per process "
        "for the largest power of two up to {n} processes",
    ),
    Limit.SEGMENT_PER_PROCESS: (
        lambda call, count, segsize: (
            count >= call.comm_size * _segment(count, call.element_bytes, segsize)
        ),
        "a segment for each of the {n} processes",
    ),
    Limit.TWO_SEGMENTS: (_halves_hold_a_segment, "a segment in each half of the message"),
}
