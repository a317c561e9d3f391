"""What is wrong with the trees of an I_MPI_TUNING file."""

from __future__ import annotations

from collections.abc import Iterator

from colltune.domain import Collective
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.intelmpi import preset_lint, tuning_tree
from colltune.mpi.intelmpi.presets import shown
from colltune.mpi.intelmpi.tuning_reader import Document
from colltune.mpi.intelmpi.tuning_tree import COMM_ID, MSG_SIZE, Branch, Preset, Step


def findings(document: Document, release: str) -> Iterator[Finding]:
    """Yield what is wrong with the keys and presets of a file whose form is known."""
    for tree in document.trees.values():
        found = _visit(tree.collective, tree.root, release, below_id=False)
        yield from preset_lint.once(found)


def _visit(
    collective: Collective, node: Branch | Preset | None, release: str, *, below_id: bool
) -> Iterator[Finding]:
    if isinstance(node, Preset):
        if node.number is not None:
            yield from preset_lint.findings(node.line, node.text, collective, node.number, release)
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
