"""What is wrong with a decision table that libcolltune reads."""

from __future__ import annotations

from collections.abc import Iterator

from colltune.errors import LibraryError
from colltune.mpi.file_format import Fault, Finding, Severity
from colltune.mpi.libcolltune.library import WithLibcolltune
from colltune.mpi.libcolltune.space import is_libcolltune
from colltune.mpi.libcolltune.table.content import Content, Entry, RuleBlock, Step

_AGAIN = "select again from the bundle"


def lint(content: Content, mpi: WithLibcolltune, release: str) -> tuple[Finding, ...]:
    """Return the findings on a table that is read, by line."""
    found = [f for entry in content.entries.values() for f in _of_entry(entry, mpi, release)]
    unknown = {finding.line for finding in found if finding.severity is Severity.ERROR}
    known = {n: e for n, e in content.entries.items() if e.line not in unknown}
    for block in content.blocks:
        if block.comm_size > content.shape.nprocs:
            message = f"no communicator of a job of {content.shape} has {block.comm_size} processes"
            found.append(Finding(block.line, Fault.DEAD_RULE, message, "remove the block"))
        for step in block.steps:
            if step.number in known:
                found += _of_step(block, step, known[step.number], mpi, release)
    return tuple(sorted(found))


def _of_entry(entry: Entry, mpi: WithLibcolltune, release: str) -> Iterator[Finding]:
    configuration = entry.configuration
    try:
        spelled = mpi.at(release).canonical(configuration)
    except LibraryError as error:
        message = f"{error}; its rules are left to the library"
        yield Finding(entry.line, Fault.RULE_DROPPED, message, _AGAIN)
        return
    if is_libcolltune(spelled):
        if entry.settings:
            message = f"{spelled.id} needs no control variables; they are ignored"
            yield Finding(entry.line, Fault.NO_EFFECT, message, "remove them")
        return
    if not mpi.at(release).settable_at_runtime(spelled):
        message = f"{mpi.title} {release} cannot be told {spelled.id} while a program runs"
        yield Finding(entry.line, Fault.RULE_DROPPED, message, _AGAIN)
        return
    wanted = {(name, str(value)) for name, value in mpi.at(release).force(spelled).items()}
    if wanted != set(entry.settings):
        message = f"{spelled.id} is chosen by other control variables in {mpi.title} {release}"
        yield Finding(entry.line, Fault.OTHER_RELEASE, message, _AGAIN)
    if not mpi.at(release).safe(spelled, builtin_operations_only=True):
        message = f"{spelled.id} is not right for every program"
        yield Finding(entry.line, Fault.WRONG_RESULT, message, _AGAIN)


def _of_step(
    block: RuleBlock, step: Step, entry: Entry, mpi: WithLibcolltune, release: str
) -> Iterator[Finding]:
    at = max(step.first_bytes, 1)
    bound, configuration = mpi.at(release), entry.configuration
    why = bound.why_not(configuration, block.comm_size, at, element_bytes=8)
    if not why and block.layout:
        why = bound.why_not_on(configuration, block.layout)
    if why:
        first = bound.running_from(configuration, block.comm_size, 8)
        fault = Fault.FALLS_BACK if first is None else Fault.NOT_EVERYWHERE
        message = f"the library decides: {why}"
        yield Finding(step.line, fault, message, _AGAIN)
