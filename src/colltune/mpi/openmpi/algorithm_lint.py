"""What can be said of one algorithm in a rule for coll/tuned, whatever the format of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm, CollectiveEntry, Limit, SizeUnit
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.running import Numbers, configuration_of

_PARTLY: dict[Limit, tuple[str, Callable[[int], bool]]] = {
    Limit.EVEN_PROCESSES: ("an even number of processes", lambda n: n % 2 == 0),
    Limit.POWER_OF_TWO_PROCESSES: ("a power of two of processes", lambda n: not n & (n - 1)),
}
_WORDS = {"fanout": "fan-out", "segsize": "segment size", "requests": "limit of requests"}
_FEW_SIZES = 4096
_LEAST_SEGMENT = 64


@dataclass(frozen=True)
class Place:
    """Where a rule stands, and which communicator and compared sizes reach it (both inclusive).

    `last_size` and `last_compared` are None where there is no end.
    """

    line: int
    release: str
    first_size: int
    last_size: int | None
    last_compared: int | None


def of_algorithm(entry: CollectiveEntry, numbers: Numbers, place: Place) -> Iterator[Finding]:
    """Yield what is wrong with an algorithm that the release has, at that place."""
    algorithm = entry.numbered(numbers.algorithm)
    if algorithm is None:
        return
    name = f"{entry.collective} {algorithm.name}"
    if algorithm.wrong:
        yield Finding(
            place.line,
            Fault.WRONG_RESULT,
            f"{name}: {algorithm.wrong}",
            "choose another algorithm",
        )
    if Limit.COMMUTATIVE in algorithm.limits:
        yield Finding(
            place.line,
            Fault.COMMUTATIVE_ONLY,
            f"{name} gives wrong results with operations that do not commute",
            "keep it only if no program reduces with such operations of its own",
        )
    least = dict(algorithm.minimums).get("fanout", 0)
    if numbers.fanout < least:
        yield Finding(
            place.line,
            Fault.HANGS,
            f"{name} takes the fan-out as its radix and never ends with {numbers.fanout}",
            f"give a fan-out of {least} or more",
        )
    yield from _of_processes(name, algorithm, place)
    yield from _of_sizes(entry, numbers, place)
    yield from _without_effect(name, algorithm, numbers, place)
    yield from tiny_segment(name, algorithm, numbers.segsize_bytes, place.line)


def tiny_segment(name: str, algorithm: Algorithm, segsize: int, line: int) -> Iterator[Finding]:
    """Yield a finding if a segment size is that of an element, or looks like KiB."""
    if "segsize" in algorithm.parameters and 0 < segsize < _LEAST_SEGMENT:
        yield Finding(
            line,
            Fault.WRONG_UNIT,
            f"{name} with segments of {segsize} bytes sends a message for every few elements, and"
            " does not cut messages of larger elements at all",
            "write bytes, for example 65536, or 0 for no segments",
        )


def of_thresholds(
    entry: CollectiveEntry, thresholds: dict[int, int], place: Place
) -> Iterator[Finding]:
    """Yield a finding if the sizes (with their lines) look like those of one process's block."""
    positive = {size: line for size, line in thresholds.items() if size > 0}
    if entry.size is not SizeUnit.MSIZE_TIMES_NPROCS or not positive:
        return
    n = max(2, place.first_size)
    small = [size for size in positive if size < n]
    exact = place.last_size == place.first_size and n > 2
    if not small and not (exact and all(size % n for size in positive)):
        return
    size = min(small or positive)
    yield Finding(
        positive[size],
        Fault.WRONG_UNIT,
        f"{size} looks like the bytes for one process; {entry.collective} is compared with those"
        " of all processes together",
        f"multiply the sizes by the number of processes: {size * n}",
    )


def _of_processes(name: str, algorithm: Algorithm, place: Place) -> Iterator[Finding]:
    first, last = max(2, place.first_size), place.last_size
    if Limit.TWO_PROCESSES in algorithm.limits and (first, last) != (2, 2):
        yield Finding(
            place.line,
            Fault.ENDS_PROGRAM,
            f"{name} ends the program on communicators of other than 2 processes",
            "keep the rule to communicators of exactly 2",
        )
    for limit, (need, holds) in _PARTLY.items():
        if limit not in algorithm.limits:
            continue
        sizes = range(first, min(last, first + _FEW_SIZES) + 1 if last is not None else first + 4)
        kept = [holds(n) for n in sizes]
        if all(kept):
            continue
        some = "" if any(kept) else "never "
        yield Finding(
            place.line,
            Fault.NOT_EVERYWHERE if some == "" else Fault.FALLS_BACK,
            f"{name} needs {need}; {'elsewhere' if not some else 'here'} {algorithm.fallback} runs",
            "narrow the rule, or choose another algorithm",
        )


def _of_sizes(entry: CollectiveEntry, numbers: Numbers, place: Place) -> Iterator[Finding]:
    told = configuration_of(entry, numbers)
    if told is None or place.last_compared is None or entry.size is SizeUnit.CONSTANT:
        return
    n = max(2, place.first_size)
    factor = n if entry.size is SizeUnit.MSIZE_TIMES_NPROCS else 1
    try:
        runs = OPENMPI.at(place.release).space.running_range(told, n, 1)
    except LibraryError:
        return  # values that nobody may choose have findings of their own
    if runs.first_bytes and place.last_compared < runs.first_bytes * factor:
        yield Finding(
            place.line,
            Fault.FALLS_BACK,
            f"never runs for these sizes: {runs.reason}",
            "choose another algorithm for them",
        )


def _without_effect(
    name: str, algorithm: Algorithm, numbers: Numbers, place: Place
) -> Iterator[Finding]:
    values = {
        "fanout": numbers.fanout,
        "segsize": numbers.segsize_bytes,
        "requests": numbers.requests,
    }
    ignored = [
        f"{_WORDS[key]} {value}"
        for key, value in values.items()
        if value and key not in algorithm.parameters
    ]
    if ignored:
        yield Finding(
            place.line,
            Fault.NO_EFFECT,
            f"{name} ignores its {' and '.join(ignored)}",
            "write 0 or leave it out",
        )
