"""`colltune rules explain`: what runs for one call under a configuration file, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import message_text, output
from colltune.cli.options import (
    Environment,
    FormatName,
    Json,
    Parameters,
    Quiet,
    Release,
    Size,
    job_variables,
)
from colltune.cli.progress import progress
from colltune.domain import Collective, Configuration, Shape, parse_collective
from colltune.errors import UsageError, say
from colltune.text import counted, printable

if TYPE_CHECKING:
    from colltune.mpi.opened_file import OpenFile
    from colltune.mpi.programs import Harms
    from colltune.mpi.rules import Call, Outcome
    from colltune.selector.explaining import Explanation


class CallingProcesses(StrEnum):
    """Which processes of a job call: all, one of each node, or all of one node."""

    WORLD = "world"
    LEADERS = "leaders"
    NODE = "node"


def explain(
    file: Annotated[Path, typer.Argument(help="Configuration file; - reads standard input.")],
    nodes: Annotated[int, typer.Option(help="Nodes of the job.", min=1)],
    ppn: Annotated[int, typer.Option(help="Processes per node.", min=1)],
    collective: Annotated[str, typer.Option(help="bcast, allreduce, …")],
    msize: Annotated[
        int,
        typer.Option(
            help="Message size: 65536, 64k, 64KiB (k is 1024); the buffer, or the block per"
            " process.",
            click_type=Size(),
        ),
    ],
    release: Release = None,
    format_: FormatName = None,
    communicator: Annotated[
        CallingProcesses,
        typer.Option(
            help="Communicator of the call: all processes, one process per node, or one node."
        ),
    ] = CallingProcesses.WORLD,
    comm_size: Annotated[
        int | None,
        typer.Option(
            help="Number of processes, for a communicator that fills one node after the other.",
            min=1,
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="The call uses MPI_IN_PLACE.")
    ] = False,
    ignored_send_bytes: Annotated[
        int | None,
        typer.Option(
            help="In-place calls only: bytes per process that the send arguments describe. MPI "
            "ignores them, but Open MPI looks up its rules by them for allgather(v) and "
            "alltoall. Default: 0.",
            click_type=Size(),
        ),
    ] = None,
    non_commutative: Annotated[
        bool, typer.Option("--non-commutative", help="The reduction operation is not commutative.")
    ] = False,
    element_bytes: Annotated[
        int, typer.Option(help="Bytes of one element of the datatype.", min=1)
    ] = 1,
    environment: Environment = None,
    parameters: Parameters = None,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Bundle to predict times and cost terms from."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA",
            help="Measurements to fit a cost model to, if the bundle has none; repeatable.",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say which algorithm a call runs with a configuration file, and why.

    MPI need not be installed. Unless --environment or --parameters say otherwise, the job is
    assumed to set exactly the variables that put the file into effect. With --bundle the answer
    includes the predicted time and its parts: latency and bandwidth between and within nodes,
    reduction, and so on.

    Example: colltune rules explain rules.conf --release openmpi@5.0.8 --nodes 4 --ppn 32
    --collective bcast --msize 65536
    """
    from colltune.cli import cost_tables
    from colltune.mpi.opened_file import open_file
    from colltune.mpi.rules import Call
    from colltune.selector.explaining import callers, explained

    if ignored_send_bytes is not None and not in_place:
        option, other = "--ignored-send-bytes", "--in-place"
        raise say("works-only-with", UsageError, option=option, other=other)
    comm, on_nodes, is_world = callers(Shape(nodes, ppn), communicator, comm_size)
    call = Call(
        parse_collective(collective),
        comm,
        msize,
        on_nodes,
        is_world=is_world,
        in_place=in_place,
        commutative=not non_commutative,
        # an operation that does not commute is one of the program's own
        builtin_operation=not non_commutative,
        element_bytes=element_bytes,
        ignored_send_bytes=ignored_send_bytes,
    )
    if data and bundle is None:
        raise say("works-only-with", UsageError, option="--data", other="--bundle")
    opened, variables = open_file(file, release, format_), job_variables(environment, parameters)
    found = explained(opened, call, variables)
    if bundle is not None and not found.outcome.ends_program:
        with progress("predicting", quiet=quiet or json):
            found = replace(found, costs=cost_tables.costs_at(bundle, data or [], found))
    told = filter(None, _sentences(opened, found, given=variables is not None))
    costs = ["", *cost_tables.lines(found.costs)] if found.costs else []
    output(found, [printable(" ".join(told)), *costs], json=json)


_LONGEST_RULE = 160


def _sentences(opened: OpenFile, found: Explanation, *, given: bool) -> Iterator[str]:
    """Yield in plain English what runs and why; `given`: with the job's own variables."""
    call, outcome, harms, dropped = found.call, found.outcome, found.harms, found.dropped
    assumed = " (assumed; name your release with --release)" if opened.assumed else ""
    asked = f"With {opened.reader}{assumed} and {opened.source}, {_call_text(call)}"
    if outcome.ends_program:
        yield f"{asked} fails: {_ended(outcome.ends_program)}"
    elif outcome.returns_at_once:
        yield f"{asked} returns without running an algorithm."
    else:
        yield f"{asked} runs {_named(outcome)}."
    if dropped:
        yield f"The library ignores the whole file: {_ended(dropped)}"
    elif outcome.rule is None:
        yield "No rule of the file applies."
    elif not any(f"{opened.source}:{outcome.rule.line}:" in reason for reason in outcome.reasons):
        text = " ".join(outcome.rule.text.split())
        shown = text if len(text) <= _LONGEST_RULE else f"{text[:_LONGEST_RULE]}…"
        yield f"The rule is on line {outcome.rule.line} of the file: `{shown}`."
    told = {outcome.ends_program, dropped}
    yield from (_ended(reason) for reason in outcome.reasons if reason not in told)
    runs = not outcome.ends_program and not outcome.returns_at_once
    if runs:
        yield from _broken(harms)
        yield _rounding(found)
    if runs and outcome.chosen != outcome.configuration:
        yield f"The file chose {_configuration(outcome.chosen)}, but something else runs."
    for number, (part, inner) in enumerate(outcome.inner, 1):
        yield from _inner(number, part, inner)
    if not given and not dropped:
        yield "This holds for a job that sets exactly the variables that put the file into effect."


def _broken(harms: Harms) -> Iterator[str]:
    for harm in harms.found:
        what = f"{harms.what(harm)} {harm}{harms.where(harm)}"
        left_out = harm.mode.left_out_by
        yield f"{what}, which the promise {left_out} leaves out." if left_out else f"{what}."


def _rounding(found: Explanation) -> str:
    if found.rounds_otherwise:
        return f"The result may be rounded otherwise: {found.rounds_otherwise}."
    if not found.call.collective.reduces or found.outcome.configuration.is_default:
        return ""
    return "The result has the bits of the library's own decision."


def _inner(number: int, call: Call, outcome: Outcome) -> Iterator[str]:
    line = f" (line {outcome.rule.line})" if outcome.rule else ""
    if outcome.ends_program:
        yield f"Part {number}, {_call_text(call)}, fails{line}: {_ended(outcome.ends_program)}"
    else:
        yield f"Part {number}, {_call_text(call)}, runs {_named(outcome)}{line}."


def _call_text(call: Call) -> str:
    """Return the call for people: ``MPI_Bcast of 64 KiB on MPI_COMM_WORLD (8 processes …)``."""
    barrier = call.collective is Collective.BARRIER
    size = "" if barrier else f" of {message_text(call.collective, call.msize_bytes)}"
    processes = counted(call.comm_size, "process", "es")
    where = f"{processes} on {counted(call.nodes, 'node')}"
    where = f"MPI_COMM_WORLD ({where})" if call.is_world else f"a communicator of {where}"
    details = [
        *(["in place"] if call.in_place else []),
        *([] if call.commutative else ["with an operation that is not commutative"]),
        *(
            [f"in elements of {counted(call.element_bytes, 'byte')}"]
            if call.element_bytes > 1
            else []
        ),
    ]
    return " ".join([f"{call.collective.mpi_name}{size} on {where}", *details])


def _named(outcome: Outcome) -> str:
    by = f" by component {outcome.component}" if outcome.component else ""
    return f"{_configuration(outcome.configuration)}{by}"


def _configuration(configuration: Configuration) -> str:
    if configuration.is_default:
        return "the library's own decision"
    values = ", ".join(f"{name} {value}" for name, value in configuration.parameters)
    return f"{configuration.algorithm}{f' with {values}' if values else ''}"


def _ended(sentence: str) -> str:
    text = sentence.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
