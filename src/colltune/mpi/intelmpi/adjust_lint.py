"""What is wrong with I_MPI_ADJUST_* variables."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from colltune.domain import Collective
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.intelmpi import preset_lint
from colltune.mpi.intelmpi.adjust_value import Condition, Entry, Value
from colltune.mpi.intelmpi.presets import shown, variable

_OTHERS = ("ALLTOALLW", "GATHERV", "SCATTERV")
_PREFIX = "I_MPI_ADJUST_"
_BLOCKING = (*(variable(collective) for collective in Collective), *map(_PREFIX.__add__, _OTHERS))
_KNOWN = (*_BLOCKING, *(name.replace(_PREFIX, f"{_PREFIX}I") for name in _BLOCKING))
_NEAR = 0.9


def findings(line: int, value: Value) -> list[Finding]:
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
        yield from preset_lint.findings(
            line, entry.text, value.collective, entry.number, value.release
        )
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
