"""What is wrong with a decision table that libcolltune reads."""

from __future__ import annotations

from collections.abc import Iterator

from colltune.errors import LibraryError
from colltune.mpi.file_format import Fault, Finding, Severity
from colltune.mpi.libcolltune import is_libcolltune
from colltune.mpi.libcolltune.table.parsed import ParsedTable
from colltune.mpi.libcolltune.table.text import AGAIN, Entry, RuleBlock, Step
from colltune.mpi.release import Release


def lint(table: ParsedTable) -> Iterator[Finding]:
    """Yield what is wrong with a table that is read."""
    content, bound = table.content, table.bound
    found = [f for entry in content.entries.values() for f in _of_entry(entry, bound)]
    yield from found
    unknown = {finding.line for finding in found if finding.severity is Severity.ERROR}
    known = {n: e for n, e in content.entries.items() if e.line not in unknown}
    for block in content.blocks:
        if block.comm_size > content.shape.nprocs:
            message = f"no communicator of a job of {content.shape} has {block.comm_size} processes"
            yield Finding(block.line, Fault.DEAD_RULE, message, "remove the block")
        for step in block.steps:
            if step.number in known:
                yield from _of_step(block, step, known[step.number], bound)


def _of_entry(entry: Entry, bound: Release) -> Iterator[Finding]:
    configuration, title = entry.configuration, f"{bound.mpi.title} {bound.name}"
    try:
        spelled = bound.canonical(configuration)
    except LibraryError as error:
        message = f"{error}; its rules are left to the library"
        yield Finding(entry.line, Fault.RULE_DROPPED, message, AGAIN)
        return
    if is_libcolltune(spelled):
        if entry.settings:
            message = f"{spelled.id} needs no control variables; they are ignored"
            yield Finding(entry.line, Fault.NO_EFFECT, message, "remove them")
        return
    if not bound.settable_at_runtime(spelled):
        message = f"{title} cannot be told {spelled.id} while a program runs"
        yield Finding(entry.line, Fault.RULE_DROPPED, message, AGAIN)
        return
    wanted = {(name, str(value)) for name, value in bound.force(spelled).items()}
    if wanted != set(entry.settings):
        message = f"{spelled.id} is chosen by other control variables in {title}"
        yield Finding(entry.line, Fault.OTHER_RELEASE, message, AGAIN)
    if not bound.safe(spelled, builtin_operations_only=True):
        message = f"{spelled.id} is not right for every program"
        yield Finding(entry.line, Fault.WRONG_RESULT, message, AGAIN)


def _of_step(block: RuleBlock, step: Step, entry: Entry, bound: Release) -> Iterator[Finding]:
    at, configuration = max(step.first_bytes, 1), entry.configuration
    why = bound.why_not(configuration, block.comm_size, at, element_bytes=8)
    if not why and block.layout:
        why = bound.why_not_on(configuration, block.layout)
    if why:
        first = bound.running_from(configuration, block.comm_size, 8)
        fault = Fault.FALLS_BACK if first is None else Fault.NOT_EVERYWHERE
        message = f"the library decides: {why}"
        yield Finding(step.line, fault, message, AGAIN)
