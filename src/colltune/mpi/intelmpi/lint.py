"""What is wrong with presets, I_MPI_ADJUST_* variables, and the trees of I_MPI_TUNING files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from colltune.domain import Collective
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.intelmpi import tuning_tree
from colltune.mpi.intelmpi.adjust_value import Condition, Entry, Value
from colltune.mpi.intelmpi.grid import shown
from colltune.mpi.intelmpi.library import BUILT_IN, BUILT_IN_LOGIC, INTEL_MPI, variable
from colltune.mpi.intelmpi.releases import entry_of
from colltune.mpi.intelmpi.tuning_reader import Document
from colltune.mpi.intelmpi.tuning_tree import COMM_ID, MSG_SIZE, Branch, Preset, Step


def _of_preset(
    line: int, text: str, collective: Collective, number: int, release: str
) -> Iterator[Finding]:
    """Yield what is wrong with `number`, which stands in `text` on `line`."""
    if number == BUILT_IN:
        message = f"{shown(text)}: {BUILT_IN_LOGIC}"
        yield Finding(line, Fault.REMARK, message, "none needed if that is meant")
        return
    if INTEL_MPI.presets(release).as_read(collective, number) != number:
        top = INTEL_MPI.presets(release).highest(collective)
        message = (
            f"{shown(text)}: Intel MPI {release} has presets 1 to {top} for {collective}; after a"
            " message it runs preset 1"
        )
        yield Finding(line, Fault.FALLS_BACK, message, "name one of them")
        return
    algorithm = entry_of(release, collective).numbered(number)
    if algorithm is not None and algorithm.wrong:
        message = f"{shown(text)}: {algorithm.wrong}"
        yield Finding(line, Fault.WRONG_RESULT, message, "name another preset")
    if algorithm is not None and algorithm.limits:
        needs = ", ".join(sorted(algorithm.limits)).replace("_", " ")
        message = f"{shown(text)} needs {needs}; elsewhere {algorithm.fallback} runs"
        yield Finding(line, Fault.NOT_EVERYWHERE, message, "none needed if that is meant")


def _once(found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of one collective, that of the built-in logic where it is first only."""
    told = False
    for finding in found:
        is_built_in = BUILT_IN_LOGIC in finding.message
        if not (is_built_in and told):
            yield finding
        told = told or is_built_in


_OTHERS = ("ALLTOALLW", "GATHERV", "SCATTERV")
_PREFIX = "I_MPI_ADJUST_"
_BLOCKING = (*(variable(collective) for collective in Collective), *map(_PREFIX.__add__, _OTHERS))
_KNOWN = (*_BLOCKING, *(name.replace(_PREFIX, f"{_PREFIX}I") for name in _BLOCKING))
_NEAR = 0.9


def value_findings(line: int, value: Value) -> list[Finding]:
    name = variable(value.collective)
    if value.rejected:
        message = f"{name}: {value.rejected}; after a message the library ignores the whole value"
        return [Finding(line, Fault.RULE_DROPPED, message, _FORM)]
    if not value.text.strip():
        message = f"{name} is empty: the built-in logic runs, not what runs without the variable"
        return [Finding(line, Fault.MALFORMED, message, "remove it or name a preset")]
    found = [*_numbers(line, value), *_order(line, value)]
    if value.counts_processes:
        message = (
            f"{name}: where a condition has an @, message sizes are not compared, and of the"
            " entries for one number of processes only the last one holds"
        )
        mend = "use a file for I_MPI_TUNING (format intelmpi-json)"
        found.append(Finding(line, Fault.DEAD_RULE, message, mend))
    return found


def other_variable(line: int, name: str) -> list[Finding]:
    """Return what is to be said of a variable that is not one of a known collective."""
    likely = next(iter(get_close_matches(name.upper(), _KNOWN, 1, _NEAR)), "")
    if likely and name not in _KNOWN and not name.startswith(f"{likely}_"):
        message = f"{shown(name)}: there is no such variable; the library ignores it"
        return [Finding(line, Fault.UNKNOWN, message, f"write {likely}")]
    if not name.startswith(_PREFIX):
        message = f"{shown(name)} chooses no preset, and is not looked at"
        return [Finding(line, Fault.REMARK, message, "none needed")]
    if name in _KNOWN or any(name.startswith(f"{known}_") for known in _KNOWN):
        message = f"{shown(name)}: nothing is known here of this collective"
        return [Finding(line, Fault.REMARK, message, "none needed")]
    message = f"{shown(name)}: there is no such collective; the library ignores it"
    mend = "write the collective as MPI does, in capitals: I_MPI_ADJUST_REDUCE_SCATTER"
    return [Finding(line, Fault.UNKNOWN, message, mend)]


_FORM = "write <preset>:<first>-<last>;…;<preset>, with numbers up to 2147483647"


def _numbers(line: int, value: Value) -> Iterator[Finding]:
    for entry in value.read:
        yield from _of_preset(line, entry.text, value.collective, entry.number, value.release)
        said = shown(entry.text)
        if not entry.text.partition(":")[0].strip().isdecimal():
            message = f"{said}: the library reads preset {entry.number}"
            yield Finding(line, Fault.MALFORMED, message, _FORM)
        for condition in entry.conditions:
            yield from _condition(line, entry, condition)


def _condition(line: int, entry: Entry, condition: Condition) -> Iterator[Finding]:
    if condition.counts_processes:
        return
    said = shown(entry.text)
    first, dash, last = condition.text.partition("-")
    upper = last if dash else first
    if condition.last is None:
        message = f"{said}: {shown(condition.text)} ends before it begins, and holds for all sizes"
        yield Finding(line, Fault.MALFORMED, message, _FORM)
    elif upper.strip().lstrip("+") != str(condition.last):
        message = f"{said}: the library reads {condition.last} as its end: {shown(condition.text)}"
        if upper.strip().isdecimal() and int(upper[:40]) == condition.last:
            return
        yield Finding(line, Fault.MALFORMED, message, "write bytes, without a unit")


def _order(line: int, value: Value) -> Iterator[Finding]:
    """Yield entries that are never reached, and gaps that another entry fills."""
    if value.counts_processes:
        return
    reached = -1
    unbounded: Entry | None = None
    ends = [c.last for entry in value.entries for c in entry.conditions or ()]
    for entry in value.entries:
        said = shown(entry.text)
        if unbounded is not None:
            message = f"{said} is never reached: {shown(unbounded.text)} holds for all that is left"
            yield Finding(line, Fault.DEAD_RULE, message, "remove it, or sort")
            continue
        if not entry.conditions:
            unbounded = entry
            continue
        lasts = [c.last for c in entry.conditions]
        if all(last is not None and last < reached for last in lasts):
            message = f"{said} is never reached: an entry before it ends at {reached}"
            yield Finding(line, Fault.DEAD_RULE, message, "sort by ascending ends")
        elif reached in lasts:
            message = f"{said} takes the place of an entry before it with the same end"
            yield Finding(line, Fault.DEAD_RULE, message, "remove one of them")
        yield from _lower_ends(line, entry, reached)
        reached = max([reached, *(last for last in lasts if last is not None)])
        if None in lasts:
            unbounded = entry
    if unbounded is None and ends:
        last_entry = value.entries[-1]
        message = f"{shown(last_entry.text)} holds above {reached}, too: the last entry goes on"
        mend = "end with an entry without a range"
        yield Finding(line, Fault.INHERITED, message, mend)


def _lower_ends(line: int, entry: Entry, reached: int) -> Iterator[Finding]:
    said = shown(entry.text)
    for condition in entry.conditions:
        if condition.last is None or "-" not in condition.text:
            continue
        if condition.first > reached + 1:
            message = (
                f"{said} holds from {reached + 1} on: the library does not look at where a"
                f" range begins ({condition.first})"
            )
            mend = "name a preset for the sizes before"
            yield Finding(line, Fault.INHERITED, message, mend)
        elif condition.first <= reached < condition.last:
            message = f"{said} begins at {condition.first}, but holds from {reached + 1} on"
            mend = f"begin it at {reached + 1}"
            yield Finding(line, Fault.UNSORTED, message, mend)


def tuning_findings(document: Document, release: str) -> Iterator[Finding]:
    """Yield what is wrong with the keys and presets of a file whose form is known."""
    for tree in document.trees.values():
        found = _visit(tree.collective, tree.root, release, below_id=False)
        yield from _once(found)


def _visit(
    collective: Collective, node: Branch | Preset | None, release: str, *, below_id: bool
) -> Iterator[Finding]:
    if isinstance(node, Preset):
        if node.number is not None:
            yield from _of_preset(node.line, node.text, collective, node.number, release)
            if node.text.partition("=")[2] != str(node.number):
                message = f"{shown(node.text)}: the library reads preset {node.number}"
                yield Finding(node.line, Fault.MALFORMED, message, "write the number alone")
    elif isinstance(node, Branch):
        compared = tuning_tree.is_compared(node.steps[0].level, below_id=below_id)
        yield from _compared(node) if compared else _not_compared(node)
        for step in node.steps:
            yield from _visit(
                collective, step.below, release, below_id=below_id or step.level == COMM_ID
            )


def _compared(node: Branch) -> Iterator[Finding]:
    """Yield keys that are never reached, badly written, or reach further than they say."""
    highest = node.steps[0]
    yield from _spelling(highest)
    for step in node.steps[1:]:
        yield from _spelling(step)
        if highest.last is None or (step.last is not None and step.last <= highest.last):
            message = (
                f"{shown(step.text)} is never reached: {shown(highest.text)} on line"
                f" {highest.line} is taken first"
            )
            yield Finding(step.line, Fault.DEAD_RULE, message, "sort the keys")
        else:
            highest = step
    last = node.steps[-1]
    if highest.last is not None:
        message = f"{shown(last.text)} holds above {highest.last}, too: the last key goes on"
        mend = f"end with {last.level}=-1"
        yield Finding(last.line, Fault.INHERITED, message, mend)


def _not_compared(node: Branch) -> Iterator[Finding]:
    """Yield keys of a level whose numbers are not looked at."""
    taken = next((s for s in node.steps if s.last is None), node.steps[-1])
    for step in node.steps:
        if step is taken:
            continue
        message = (
            f"{shown(step.text)} is never reached: {_why(step.level)}, so that"
            f" {shown(taken.text)} holds"
        )
        yield Finding(step.line, Fault.DEAD_RULE, message, _mend(step.level))
    if len(node.steps) == 1 and taken.last is not None:
        message = f"{shown(taken.text)} holds for all: {_why(taken.level)}"
        yield Finding(taken.line, Fault.INHERITED, message, _mend(taken.level))


def _why(level: str) -> str:
    if level == COMM_ID:
        return "the library never matches the number of comm_id"
    if level == MSG_SIZE:
        return "the library compares message sizes only below a comm_id"
    return "the library compares numbers of processes only above comm_id"


def _mend(level: str) -> str:
    if level == MSG_SIZE:
        return 'put "comm_id=-1" above it'
    return "write comm_id=-1" if level == COMM_ID else "put it above comm_id"


def _spelling(step: Step) -> Iterator[Finding]:
    written = step.text.partition("=")[2]
    read = "-1" if step.last is None else str(step.last)
    if written == read:
        return
    message = f"{shown(step.text)}: the library reads {step.level}={read}"
    yield Finding(step.line, Fault.MALFORMED, message, f"write {step.level}={read}")
