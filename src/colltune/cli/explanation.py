"""What `colltune explain` says: one paragraph for people, or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colltune.cli.configuration_file import OpenFile
from colltune.cli.console import bytes_text
from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Call, Outcome, ParsedFile

_LONGEST_RULE = 160


def paragraph(
    opened: OpenFile, parsed: ParsedFile, call: Call, outcome: Outcome, *, given: bool
) -> str:
    """Return in plain English what runs and why; `given`: with the job's own variables."""
    return " ".join(_sentences(opened, parsed, call, outcome, given=given))


def _sentences(
    opened: OpenFile, parsed: ParsedFile, call: Call, outcome: Outcome, *, given: bool
) -> Iterator[str]:
    assumed = " (assumed; name yours with --release)" if opened.assumed else ""
    asked = f"With {opened.reader}{assumed} and {opened.source}, {_call_text(call)}"
    if outcome.ends_program:
        yield f"{asked} fails: {_ended(outcome.ends_program)}"
    elif outcome.returns_at_once:
        yield f"{asked} returns before anything runs."
    else:
        yield f"{asked} runs {_named(outcome)}."
    if parsed.dropped:
        yield f"The file is ignored as a whole: {_ended(parsed.dropped)}"
    elif outcome.rule is None:
        yield "No rule of the file applies."
    elif not any(f"{opened.source}:{outcome.rule.line}:" in reason for reason in outcome.reasons):
        text = " ".join(outcome.rule.text.split())
        shown = text if len(text) <= _LONGEST_RULE else f"{text[:_LONGEST_RULE]}…"
        yield f"The file's rule for it is on line {outcome.rule.line}: `{shown}`."
    told = {outcome.ends_program, parsed.dropped}
    yield from (_ended(reason) for reason in outcome.reasons if reason not in told)
    runs = not outcome.ends_program and not outcome.returns_at_once
    if runs and outcome.chosen != outcome.configuration:
        yield f"The file chose {_configuration(outcome.chosen)}, which is not what runs."
    for number, (part, inner) in enumerate(outcome.inner, 1):
        yield from _inner(number, part, inner)
    if not given and not parsed.dropped:
        yield "This holds for a job that sets exactly what puts the file into effect."


def _inner(number: int, call: Call, outcome: Outcome) -> Iterator[str]:
    line = f" (line {outcome.rule.line})" if outcome.rule else ""
    if outcome.ends_program:
        yield f"Part {number}, {_call_text(call)}, fails{line}: {_ended(outcome.ends_program)}"
    else:
        yield f"Part {number}, {_call_text(call)}, runs {_named(outcome)}{line}."


def _call_text(call: Call) -> str:
    """Return the call for people: ``MPI_Bcast of 64 KiB on MPI_COMM_WORLD (8 processes …)``."""
    size = "" if call.collective is Collective.BARRIER else f" of {_size(call)}"
    nodes = "1 node" if call.nodes == 1 else f"{call.nodes} nodes"
    processes = "1 process" if call.comm_size == 1 else f"{call.comm_size} processes"
    where = f"MPI_COMM_WORLD ({processes} on {nodes})"
    if not call.is_world:
        where = f"a communicator of {processes} on {nodes}"
    details = [
        *(["in place"] if call.in_place else []),
        *([] if call.commutative else ["with an operation that does not commute"]),
        *([f"in elements of {call.element_bytes} bytes"] if call.element_bytes > 1 else []),
    ]
    return " ".join([f"{call.collective.mpi_name}{size} on {where}", *details])


def _size(call: Call) -> str:
    text = bytes_text(call.msize_bytes)
    size = f"{text} bytes" if text.isdigit() else text
    return f"{size} per process" if call.collective.has_block_per_rank else size


def _named(outcome: Outcome) -> str:
    by = f" by component {outcome.component}" if outcome.component else ""
    return f"{_configuration(outcome.configuration)}{by}"


def _configuration(configuration: Configuration) -> str:
    if configuration.is_default:
        return "what the library itself decides"
    values = ", ".join(f"{name} {value}" for name, value in configuration.parameters)
    return f"{configuration.algorithm}{f' with {values}' if values else ''}"


def _ended(sentence: str) -> str:
    text = sentence.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def as_json(opened: OpenFile, parsed: ParsedFile, call: Call, outcome: Outcome) -> dict[str, Any]:
    """Return the same for machines."""
    return {
        "version": 1,
        "file": opened.source,
        "format": opened.format.name,
        "library": opened.format.library,
        "release": opened.release,
        "release_assumed": opened.assumed,
        "dropped": parsed.dropped,
        "call": _call_json(call),
        **_outcome_json(outcome),
    }


def _call_json(call: Call) -> dict[str, Any]:
    return {**vars(call), "collective": call.collective.value}


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    rule = outcome.rule
    return {
        "configuration": outcome.configuration.id,
        "chosen": outcome.chosen.id,
        "component": outcome.component,
        "rule": {"line": rule.line, "text": rule.text} if rule else None,
        "reasons": list(outcome.reasons),
        "ends_program": outcome.ends_program,
        "returns_at_once": outcome.returns_at_once,
        "inner": [{"call": _call_json(c), **_outcome_json(o)} for c, o in outcome.inner],
    }
