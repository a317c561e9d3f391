"""What is wrong with a list of MPICH's variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches

from colltune.domain import Collective
from colltune.mpi.file_format import Fault, Finding
from colltune.mpi.mpich.environment import ABORTS_INSIDE
from colltune.mpi.mpich.functions import LEAST_CHUNK, Functions, function_of
from colltune.mpi.mpich.library import PREFIXES, TITLE
from colltune.mpi.mpich.tree import as_c_int, brief
from colltune.mpi.mpich.variables import Assignment, ParsedVariables

_NUMBER = re.compile(r"[+-]?[0-9]+")
_THRESHOLD = re.compile(r"[A-Z_]+_(?:SHORT|LONG|MEDIUM)_MSG_SIZE|[A-Z_]+_MIN_PROCS")
_HIERARCHICAL = frozenset({"bcast", "reduce", "allreduce", "barrier", "scan"})
_NEAR = 0.85
_WORDS = {
    "COLLECTIVE_FALLBACK": ("silent", "print", "error"),
    "DEVICE_COLLECTIVES": ("all", "none", "percoll"),
}


def lint(parsed: ParsedVariables) -> tuple[Finding, ...]:
    return tuple(sorted(set(_findings(parsed))))


def _findings(parsed: ParsedVariables) -> Iterator[Finding]:
    for line in parsed.strange:
        yield _finding(line, Fault.MALFORMED, "this line sets no variable", "write NAME=value")
    for line, name in parsed.foreign:
        likely = _likely(parsed.functions, name) if name.upper().startswith("MPI") else ""
        if likely:
            yield _unknown(line, name, likely)
            continue
        what = f"no variable of {TITLE}: it ignores it"
        yield Finding(line, Fault.REMARK, what, "leave it, or remove it")
    last: dict[str, Assignment] = {}
    for assignment in parsed.assignments:
        yield from _on_one(parsed, assignment)
        before = last.get(assignment.bare)
        if before is not None:
            yield _twice(before, assignment)
        last[assignment.bare] = assignment


def _twice(before: Assignment, after: Assignment) -> Finding:
    if before.name == after.name:
        what = f"line {after.line} sets {before.name} again"
        return _finding(before.line, Fault.DEAD_RULE, what, "remove one of them")
    prefixes = [PREFIXES.index(_prefix(each.name)) for each in (before, after)]
    loser, winner = (before, after) if prefixes[1] < prefixes[0] else (after, before)
    what = f"{winner.name} on line {winner.line} goes before {loser.name}"
    return _finding(loser.line, Fault.OVERRIDDEN, what, "remove one of them")


def _prefix(name: str) -> str:
    return next(prefix for prefix in PREFIXES if name.startswith(prefix))


def _unknown(line: int, name: str, likely: str) -> Finding:
    what = f"{TITLE} has no variable {name}, and ignores it"
    return _finding(line, Fault.UNKNOWN, what, f"write {likely}" if likely else "correct its name")


def _likely(functions: Functions, name: str) -> str:
    """Return the variable that was probably meant; empty if none is near."""
    prefix = next((p for p in PREFIXES if name.upper().startswith(p)), "MPIR_CVAR_")
    names = [f"{prefix}{bare}" for bare in functions.variables]
    return next(iter(get_close_matches(name.upper(), names, 1, _NEAR)), "")


def _on_one(parsed: ParsedVariables, assignment: Assignment) -> Iterator[Finding]:
    if assignment.bare not in parsed.functions.variables:
        likely = _likely(parsed.functions, assignment.name)
        # others than MPICH read variables with this prefix
        if likely or not assignment.name.startswith("MPICH_"):
            yield _unknown(assignment.line, assignment.name, likely)
        return
    collective = assignment.collective
    if collective is not None:
        yield from _on_choice(parsed, assignment, collective)
    elif assignment.bare.endswith("_ALGORITHM"):
        yield from _on_other_choice(parsed, assignment)
    elif assignment.value not in _WORDS.get(assignment.bare, (assignment.value,)):
        words = ", ".join(_WORDS[assignment.bare])
        what = f"{assignment.text}: {TITLE} knows {words} and ends in MPI_Init"
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, "name one of them")
    elif assignment.bare == "COLLECTIVE_FALLBACK" and assignment.value == "error":
        what = f"{assignment.text} ends programs in MPI_Init, whose own calls fall back, too"
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, "write print or silent")
    elif _THRESHOLD.fullmatch(assignment.bare):
        what = f"{assignment.name}: thresholds bear on no blocking collective"
        yield _finding(
            assignment.line, Fault.NO_EFFECT, what, "write a selection file (mpich-json)"
        )
    else:
        yield from _on_parameter(parsed, assignment)


def _on_choice(
    parsed: ParsedVariables, assignment: Assignment, collective: Collective
) -> Iterator[Finding]:
    variables = parsed.variables
    job = {**variables.environment, assignment.name: assignment.value}
    chosen = replace(variables, environment=job).forced(collective)
    if chosen is None:
        return
    if chosen.error:
        known = _known(parsed.functions, collective)
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, chosen.error, f"name one of {known}")
        return
    device, (_, flat) = variables.device_is_asked(collective), variables.composition(collective)
    if collective in _HIERARCHICAL and device and not flat:
        what = f"the device takes {collective} apart by nodes first; this holds for its parts only"
        mend = f"add MPIR_CVAR_{collective.upper()}_DEVICE_COLLECTIVE=0"
        yield _finding(assignment.line, Fault.OUTRANKED, what, mend)
    if chosen.function == ABORTS_INSIDE:
        what = f"{assignment.text} aborts unless blocks are equal and processes a power of two"
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, "name recursive_doubling")
        return
    needs = parsed.functions.needs.get(chosen.function, ())
    if needs:
        what = f"{assignment.text} needs {', '.join(needs)}; other calls are left to {TITLE}"
        mend = "nothing, if that is meant"
        yield Finding(assignment.line, Fault.NOT_EVERYWHERE, what, mend)


def _known(functions: Functions, collective: Collective) -> str:
    names = functions.by_collective[collective]
    words = [name.partition("_intra_")[2] for name in names if "_intra_" in name]
    return ", ".join(["auto", "nb", *words])


def _on_other_choice(parsed: ParsedVariables, assignment: Assignment) -> Iterator[Finding]:
    """Tell of choices for collectives that are none of ours, and between groups of processes."""
    name, _, kind = assignment.bare.removesuffix("_ALGORITHM").rpartition("_")
    of = parsed.functions.by_collective.get(name.lower())
    if of is None or kind not in ("INTRA", "INTER"):
        return
    middle = f"_{kind.lower()}_"
    words = {n.partition(middle)[2] for n in of} | {n.partition("_allcomm_")[2] for n in of}
    if assignment.value not in {"auto", "nb", "sched_auto", *words} - {""}:
        what = f"{assignment.text}: {TITLE} has no such algorithm and ends in MPI_Init"
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, "name one that it has")


def _on_parameter(parsed: ParsedVariables, assignment: Assignment) -> Iterator[Finding]:
    for collective in Collective:
        users = [a for n, a in parsed.functions.parameters_of(collective) if n == assignment.bare]
        if not users:
            continue
        is_number = not assignment.bare.endswith("_TYPE")
        if is_number and not _NUMBER.fullmatch(assignment.value):
            what = f"{assignment.text}: not a number, and {TITLE} ends in MPI_Init"
            yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, "write a number")
            return
        if assignment.bare.endswith("_KVAL") and as_c_int(assignment.value) < 1 + (
            not assignment.bare.endswith("_TREE_KVAL")
        ):
            what = f"{assignment.text}: a radix below 2 never ends"
            yield _finding(assignment.line, Fault.HANGS, what, "write 2 or more")
        if assignment.bare.endswith("_CHUNK_SIZE") and 0 < as_c_int(assignment.value) < LEAST_CHUNK:
            what = f"{assignment.text}: a message is sent for every few elements"
            yield _finding(
                assignment.line, Fault.WRONG_UNIT, what, "write bytes, for example 65536"
            )
        chosen = parsed.variables.forced(collective)
        names = {function_of(collective, user) for user in users}
        if chosen is not None and not chosen.error and chosen.function not in names:
            what = f"{assignment.name} has no effect on {chosen.value}"
            yield _finding(assignment.line, Fault.NO_EFFECT, what, "remove it")
        return


def _finding(line: int, fault: Fault, message: str, mend: str) -> Finding:
    return Finding(line, fault, brief(message), brief(mend))
