"""What is wrong with rules for coll/tuned, whatever the format of their file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from colltune.domain import Configuration
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm, Catalogue, CollectiveEntry, Limit, SizeUnit
from colltune.mpi.openmpi.decide.tuned import configuration_of
from colltune.mpi.openmpi.library import MAX_FANOUT, OPENMPI
from colltune.mpi.openmpi.mca import as_int
from colltune.mpi.openmpi.releases import LIBRARY
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Entries,
    Entry,
    Fault,
    Finding,
    Numbers,
    Rule,
    harm_findings,
)
from colltune.text import counted

_PARTLY: dict[Limit, tuple[str, Callable[[int], bool]]] = {
    Limit.EVEN_PROCESSES: ("an even number of processes", lambda n: n % 2 == 0),
    Limit.POWER_OF_TWO_PROCESSES: ("a power of two of processes", lambda n: not n & (n - 1)),
}
_FEW_SIZES = 4096
_LEAST_SEGMENT = 64


@dataclass(frozen=True)
class Place:
    """Where a rule stands, and which communicators reach it, both ends included.

    `last_size` is None where there is no end; `named_size` is the size of communicator that a
    classic file names, 0 for others.
    """

    line: int
    release: str
    named_size: int = 0
    first_size: int = 2
    last_size: int | None = None


def outranked(ranges: Entries, catalogue: Catalogue) -> Iterator[Finding]:
    """Yield a finding where coll/han decides before rules that choose something."""
    taken = sorted(
        collective
        for collective, entries in ranges.items()
        if catalogue.han_priority is not None
        and collective in catalogue.han_collectives
        and any(rule.numbers.algorithm for entry in entries for rule in entry.rules)
    )
    if taken:
        yield Finding(
            0,
            Fault.NOT_EVERYWHERE,
            f"coll/han decides {', '.join(taken)} on communicators that span nodes; these "
            "rules hold only within nodes, and for the parts that coll/han makes (one "
            "process per node; the processes of a node)",
            "set coll_han_priority=0, or pass these calls on by a rules file of coll/han",
        )


class RuleFindings:
    """What is wrong with the rules of one file for `release`, which often say the same."""

    def __init__(self, release: str) -> None:
        self.release = release
        self._found: dict[object, tuple[Finding, ...]] = {}
        self._least: dict[object, tuple[int, str]] = {}

    def found(
        self, entry: CollectiveEntry, communicators: Entry, reached: Sequence[Rule]
    ) -> Iterator[Finding]:
        """Yield what is wrong with those rules of an entry that some message reaches."""
        first, last = max(2, communicators.first_size), communicators.last_size
        named = communicators.named_size if first <= communicators.named_size <= last else 0
        place = Place(0, self.release, named, first, None if last >= LARGEST_COMM_SIZE else last)
        for rule in reached:
            numbers, algorithm = rule.numbers, entry.numbered(as_int(rule.numbers.algorithm))
            limited = algorithm is not None and algorithm.limits
            text = "" if as_int(numbers.algorithm) else rule.text
            key = (entry.collective, numbers, text, place if limited else None)
            if key not in self._found:
                self._found[key] = tuple(_of_rule(entry, rule, place))
            for each in self._found[key]:
                yield each._replace(line=rule.line)
            if limited and rule.last < LARGEST_SIZE:
                if key not in self._least:
                    self._least[key] = _least_bytes(entry, numbers, place)
                yield from _of_sizes(self._least[key], rule)
        if entry.size is SizeUnit.MSIZE_TIMES_NPROCS:
            lines = {rule.first: rule.size_line or rule.line for rule in reached}
            yield from _of_unit(entry, lines, named or first, is_exact=first == last)


def _of_rule(entry: CollectiveEntry, rule: Rule, place: Place) -> Iterator[Finding]:
    numbers = rule.numbers
    values = {
        "fan-out": ("fanout", as_int(numbers.fanout)),
        "segment size": ("segsize", as_int(numbers.segsize_bytes)),
        "limit of requests": ("requests", as_int(numbers.requests or 0)),
    }
    number = as_int(numbers.algorithm)
    algorithm = entry.numbered(number)
    if not number:
        if any(value for _, value in values.values()):
            message = f"{rule.text} leaves the decision to the library, with its own values"
            yield Finding(
                place.line, Fault.NO_EFFECT, message, "remove the other values of the rule"
            )
    elif algorithm is None:
        yield Finding(
            place.line,
            Fault.ENDS_PROGRAM,
            f"Open MPI {place.release} has no {entry.collective} algorithm {numbers.algorithm} and"
            " ends the program",
            f"use one of 0 to {max(algorithm.number for algorithm in entry.algorithms)}",
        )
    else:
        for word, (name, value) in values.items():
            if value and name not in algorithm.parameters:
                message = f"{entry.collective} {algorithm.name} ignores the {word} {value}"
                yield Finding(place.line, Fault.NO_EFFECT, message, "write 0, or leave it out")
        yield from algorithm_findings(entry, algorithm, numbers, place)


def algorithm_findings(
    entry: CollectiveEntry, algorithm: Algorithm, numbers: Numbers, place: Place
) -> Iterator[Finding]:
    """Yield what is wrong with an algorithm, with values that it honours, at that place."""
    name = f"{entry.collective} {algorithm.name}"

    def found(fault: Fault, message: str, mend: str) -> Finding:
        return Finding(place.line, fault, f"{name} {message}", mend)

    if algorithm.wrong:
        message = f"{name}: {algorithm.wrong}"
        yield Finding(place.line, Fault.WRONG_RESULT, message, "choose another algorithm")
    cut = (("segsize", max(0, as_int(numbers.segsize_bytes))),)
    named = Configuration(LIBRARY, entry.collective, algorithm.name, cut)
    yield from harm_findings(place.line, name, OPENMPI.at(place.release).harms(named))
    if Limit.TWO_PROCESSES in algorithm.limits and (place.last_size is None or place.last_size > 2):
        yield found(
            Fault.ENDS_PROGRAM,
            "ends programs unless the communicator has 2 processes",
            "use it only for communicators of exactly 2 processes",
        )
    yield from _of_fanout(algorithm, as_int(numbers.fanout), found)
    if "segsize" in algorithm.parameters and 0 < as_int(numbers.segsize_bytes) < _LEAST_SEGMENT:
        yield found(
            Fault.WRONG_UNIT,
            f"with segments of {counted(as_int(numbers.segsize_bytes), 'byte')} sends a "
            "message for every few elements, and does not split messages of larger elements",
            "write bytes, for example 65536, or 0 for no segments",
        )
    yield from _of_processes(algorithm, place, found)


_Found = Callable[[Fault, str, str], Finding]


def _of_fanout(algorithm: Algorithm, fanout: int, found: _Found) -> Iterator[Finding]:
    if "fanout" not in algorithm.parameters:
        return
    radix = dict(algorithm.minimums).get("fanout")
    if radix is not None and fanout < radix:
        message = f"takes the fan-out as its radix, and with {fanout} never ends"
        yield found(Fault.HANGS, message, f"give a fan-out of {radix} or more")
    elif radix is None and fanout > MAX_FANOUT:
        message = f"has at most {MAX_FANOUT} chains, not {fanout}"
        yield found(Fault.NO_EFFECT, message, f"write {MAX_FANOUT} at most")
    elif radix is None and not fanout:
        message = "with a fan-out of 0 has one chain, which is a pipeline"
        yield found(Fault.REMARK, message, "write the number of chains that you want")


def _of_processes(algorithm: Algorithm, place: Place, found: _Found) -> Iterator[Finding]:
    first, last = place.first_size, place.last_size
    sizes = range(first, min(last, first + _FEW_SIZES) + 1 if last is not None else first + 4)
    for limit, (need, holds) in _PARTLY.items():
        kept = [holds(n) for n in sizes]
        if limit not in algorithm.limits or all(kept):
            continue
        where, fault = "elsewhere", Fault.NOT_EVERYWHERE
        if not any(kept) or not holds(place.named_size):
            where, fault = "here", Fault.FALLS_BACK
        message = f"needs {need}; {where} {algorithm.fallback} runs"
        yield found(fault, message, "narrow the rule, or choose another algorithm")


def _least_bytes(entry: CollectiveEntry, numbers: Numbers, place: Place) -> tuple[int, str]:
    """Return from which size on an algorithm runs, as the library compares it, and why."""
    told = configuration_of(entry, numbers)
    if told is None or entry.size is SizeUnit.CONSTANT:
        return 0, ""
    n = place.named_size or place.first_size
    factor = n if entry.size is SizeUnit.MSIZE_TIMES_NPROCS else 1
    try:
        runs = OPENMPI.at(place.release).space.running_range(told, n, 1)
    except LibraryError:
        return 0, ""  # values that nobody may choose have findings of their own
    return (runs.first_bytes or 0) * factor, runs.reason


def _of_sizes(least: tuple[int, str], rule: Rule) -> Iterator[Finding]:
    first, reason = least
    if rule.last < first:
        message = f"never runs for these sizes: {reason}"
        yield Finding(rule.line, Fault.FALLS_BACK, message, "choose another algorithm for them")


def _of_unit(
    entry: CollectiveEntry, lines: dict[int, int], n: int, *, is_exact: bool
) -> Iterator[Finding]:
    """Yield a finding if the sizes (with their `lines`) look like those of one process's block."""
    positive = [size for size in lines if size > 0]
    small = [size for size in positive if size < n]
    never_whole = is_exact and n > 2 and all(size % n for size in positive)
    if small or (positive and never_whole):
        size = min(small or positive)
        yield Finding(
            lines[size],
            Fault.WRONG_UNIT,
            f"{size} looks like the bytes of one process, but the library compares "
            f"{entry.collective} with the bytes of all {n} processes together",
            f"multiply the sizes by the number of processes: {size * n}",
        )
