"""What is wrong with the single rules of a classic rules file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltune.mpi.catalogue import Algorithm, CollectiveEntry, Limit, SizeUnit
from colltune.mpi.file_format import Call, Fault, Finding
from colltune.mpi.openmpi.algorithm_lint import tiny_segment
from colltune.mpi.openmpi.classic.parsed import ClassicFile
from colltune.mpi.openmpi.classic.reading import Entry, MessageRule
from colltune.mpi.openmpi.library import MAX_FANOUT
from colltune.mpi.openmpi.running import Numbers, configuration_of, running
from colltune.mpi.openmpi.variables import as_int

Served = Sequence[tuple[int, int | None]]
_HUGE_BYTES = 2**50
_SORT = "sort the sizes in ascending order"


def rule_findings(
    file: ClassicFile, known: CollectiveEntry, position: int, entry: Entry
) -> Iterator[Finding]:
    """Yield what is wrong with the rules of an entry that stands at `position`."""
    yield from _order(entry)
    served = file.communicators(known.collective).of(position)
    comm_size = _own_size(entry, served)
    yield from _unit(known, entry, comm_size)
    for at, rule in enumerate(entry.rules):
        yield from _numbers(rule)
        number = as_int(rule.algorithm.value)
        if not number:
            if any(other.value for other in rule.numbers[2:]):
                text = f"'{rule.text}' leaves the decision to the library, which has its own values"
                yield Finding(rule.line, Fault.NO_EFFECT, text, "write 0 for them")
            continue
        algorithm = known.numbered(number)
        if algorithm is None:
            yield _unknown(file, known, rule)
            continue
        yield from _values(known, algorithm, rule)
        yield from _two_processes(known, served, algorithm, rule)
        yield from _results(known, algorithm, rule)
        yield from _falls_back(known, comm_size, file.messages(entry).of(at), rule)


def _own_size(entry: Entry, served: Served) -> int:
    """Return the communicator size that an entry is meant for; 0 if it serves none."""
    size = entry.comm_size.value
    if any(first <= size and (last is None or size <= last) for first, last in served):
        return size if size >= 2 else 0
    return next((max(2, first) for first, last in served if last is None or last > 1), 0)


def _order(entry: Entry) -> Iterator[Finding]:
    largest = -1
    for rule in entry.rules:
        size = rule.size.value
        if rule.shifted:
            yield Finding(
                rule.line,
                Fault.MALFORMED,
                "a rule starts in the middle of this line and runs on into the next",
                "write four numbers for a rule: message size, algorithm, fan-out, segment size",
            )
        if size == largest:
            text = f"message size {size} follows {size}, whose rule is never used"
            yield Finding(rule.line, Fault.DEAD_RULE, text, _SORT)
        elif 0 <= size < largest:
            text = (
                f"message size {size} follows {largest}: sizes are taken in the order of the file,"
                f" so that the rule for {largest} or this one is never used as it was meant"
            )
            yield Finding(rule.line, Fault.UNSORTED, text, _SORT)
        largest = max(largest, size)


def _unit(known: CollectiveEntry, entry: Entry, comm_size: int) -> Iterator[Finding]:
    if known.size is not SizeUnit.MSIZE_TIMES_NPROCS:
        return
    for rule in entry.rules:
        if 0 < rule.size.value < comm_size:
            yield Finding(
                rule.line,
                Fault.WRONG_UNIT,
                f"every {known.collective} of {comm_size} processes counts 0 bytes or at least"
                f" {comm_size}, so that {rule.size.value} looks like the size of a block: the"
                " library compares with processes times block",
                f"write {comm_size} times the size of a block",
            )
            return


_NAMES = (
    "a rule's message size",
    "a rule's algorithm",
    "a rule's fan-out",
    "a rule's segment size",
    "a rule's limit of requests",
)


def _numbers(rule: MessageRule) -> Iterator[Finding]:
    for name, number in zip(_NAMES, rule.numbers, strict=False):
        is_size = number is rule.size
        if number.clamped or (not is_size and number.value >= 2**31):
            kept = number.value if is_size else as_int(number.value)
            yield Finding(
                number.line,
                Fault.MALFORMED,
                f"{name} is too large: the library keeps {kept}",
                f"write a number up to {2**63 - 2 if is_size else 2**31 - 1}",
            )


def _unknown(file: ClassicFile, known: CollectiveEntry, rule: MessageRule) -> Finding:
    most = max(algorithm.number for algorithm in known.algorithms)
    return Finding(
        rule.algorithm.line,
        Fault.ENDS_PROGRAM,
        f"Open MPI {file.release} has no {known.collective} algorithm {rule.algorithm.value} and"
        " ends the program",
        f"known: 0 to {most}",
    )


def _values(known: CollectiveEntry, algorithm: Algorithm, rule: MessageRule) -> Iterator[Finding]:
    fanout, segsize = as_int(rule.fanout.value), as_int(rule.segsize.value)
    values = {"fanout": fanout, "segsize": segsize}
    if rule.requests is not None:
        values["requests"] = as_int(rule.requests.value)
    for name, value in values.items():
        if value and name not in algorithm.parameters:
            text = f"{known.collective} {algorithm.name} ignores the {_SPELLED[name]} {value}"
            yield Finding(rule.line, Fault.NO_EFFECT, text, "write 0")
    name = f"{known.collective} {algorithm.name}"
    yield from tiny_segment(name, algorithm, segsize, rule.line)
    if "fanout" not in algorithm.parameters:
        return
    least = dict(algorithm.minimums).get("fanout")
    if least is not None and fanout < least:
        text = f"{known.collective} {algorithm.name} never ends with a fan-out of {fanout}"
        yield Finding(rule.line, Fault.HANGS, text, f"write {least} or more")
    elif least is None and fanout > MAX_FANOUT:
        text = f"{known.collective} {algorithm.name} has at most {MAX_FANOUT} chains, not {fanout}"
        yield Finding(rule.line, Fault.NO_EFFECT, text, f"write {MAX_FANOUT} at most")
    elif least is None and not fanout:
        text = f"{known.collective} {algorithm.name} with a fan-out of 0 has one chain: a pipeline"
        yield Finding(rule.line, Fault.REMARK, text, "write how many chains you want")


_SPELLED = {"fanout": "fan-out", "segsize": "segment size", "requests": "limit of requests"}


def _two_processes(
    known: CollectiveEntry, served: Served, algorithm: Algorithm, rule: MessageRule
) -> Iterator[Finding]:
    if Limit.TWO_PROCESSES not in algorithm.limits:
        return
    if any(last is None or last > 2 for _, last in served):
        yield Finding(
            rule.line,
            Fault.ENDS_PROGRAM,
            f"{known.collective} algorithm {algorithm.name} would end programs on other"
            " communicators than those of 2 processes",
            "use it in an entry 2 that is followed by an entry 3",
        )


def _results(known: CollectiveEntry, algorithm: Algorithm, rule: MessageRule) -> Iterator[Finding]:
    what = f"{known.collective} {algorithm.name}"
    if algorithm.wrong:
        text = f"{what}: {algorithm.wrong}"
        yield Finding(rule.line, Fault.WRONG_RESULT, text, "choose another algorithm")
    elif Limit.COMMUTATIVE in algorithm.limits:
        yield Finding(
            rule.line,
            Fault.COMMUTATIVE_ONLY,
            f"{what} gives wrong numbers with operations that do not commute, which only programs"
            " with operations of their own have",
            "use it for programs with built-in operations only",
        )


def _falls_back(
    known: CollectiveEntry, comm_size: int, sizes: Served, rule: MessageRule
) -> Iterator[Finding]:
    """Yield a finding if even the largest message of a rule, on its own communicator, does."""
    ends = [last for _, last in sizes]
    told = configuration_of(
        known, Numbers(rule.algorithm.value, rule.fanout.value, rule.segsize.value)
    )
    if not 2 <= comm_size < 2**31 or not ends or told is None:
        return
    factor = comm_size if known.size is SizeUnit.MSIZE_TIMES_NPROCS else 1
    no_end = ends[-1] is None or known.size is SizeUnit.CONSTANT
    largest = _HUGE_BYTES if no_end else (ends[-1] or 0) // factor
    runs = running(known, told, Call(known.collective, comm_size, largest))
    if runs.configuration.algorithm != told.algorithm and not runs.ends_program:
        yield Finding(
            rule.line,
            Fault.FALLS_BACK,
            f"on {comm_size} processes {runs.configuration.algorithm} runs instead of"
            f" {told.algorithm}: {runs.reasons[0]}",
            "choose what runs as itself",
        )
