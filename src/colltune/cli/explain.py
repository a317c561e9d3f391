"""`colltune explain`: what runs for one call under a configuration file, and why."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from colltune.cli.console import printable, progress, show, show_json
from colltune.cli.options import Environment, FormatName, Json, Parameters, Quiet, Release
from colltune.domain import Shape, parse_collective


class Communicator(StrEnum):
    """Which processes of a job call: all, one of each node, or all of one node."""

    WORLD = "world"
    LEADERS = "leaders"
    NODE = "node"


def explain(
    file: Annotated[Path, typer.Argument(help="Configuration file; - is standard input.")],
    nodes: Annotated[int, typer.Option(help="Nodes of the job.", min=1)],
    ppn: Annotated[int, typer.Option(help="Processes per node.", min=1)],
    collective: Annotated[str, typer.Option(help="bcast, allreduce, …")],
    msize: Annotated[
        int,
        typer.Option(help="Message size in bytes: the buffer, or the block per process.", min=0),
    ],
    release: Release = None,
    format_: FormatName = None,
    communicator: Annotated[
        Communicator, typer.Option(help="Who calls: all, one process of each node, or one node.")
    ] = Communicator.WORLD,
    comm_size: Annotated[
        int | None,
        typer.Option(help="Processes of another communicator, which fills node by node.", min=1),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="The call passes MPI_IN_PLACE.")
    ] = False,
    ignored_send_bytes: Annotated[
        int | None,
        typer.Option(
            help="Bytes per process that the send arguments of an in-place call describe: MPI"
            " ignores them, Open MPI compares them with rules for allgather(v) and alltoall. Empty"
            " arguments are assumed.",
            min=0,
        ),
    ] = None,
    non_commutative: Annotated[
        bool, typer.Option("--non-commutative", help="The reduction's operation does not commute.")
    ] = False,
    element_bytes: Annotated[int, typer.Option(help="Size of the datatype.", min=1)] = 1,
    environment: Environment = None,
    parameters: Parameters = None,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Bundle to predict times and cost terms of what runs and the default."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA",
            help="Measurements to fit a cost model to, where the bundle has none; repeatable.",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say in one paragraph which algorithm a call runs with a configuration file, and why.

    Without --environment and --parameters the job is taken to set exactly what puts the file into
    effect. MPI need not be installed. With --bundle it also says what the call takes and what that
    time is made of: latency and bandwidth between and within nodes, reduction, and so on.

    Example: colltune explain rules.conf --release openmpi@5.0.8 --nodes 4 --ppn 32 --collective
    bcast --msize 65536
    """
    from colltune.cli import explained_costs
    from colltune.cli.calls import CallersOf, call_of
    from colltune.cli.configuration_file import open_file
    from colltune.cli.explanation import as_json, paragraph
    from colltune.cli.job_variables import job_variables

    if ignored_send_bytes is not None and not in_place:
        raise typer.BadParameter("--ignored-send-bytes needs --in-place")
    call = call_of(
        parse_collective(collective),
        msize,
        CallersOf(Shape(nodes, ppn), communicator.value, comm_size),
        in_place=in_place,
        commutative=not non_commutative,
        element_bytes=element_bytes,
        ignored_send_bytes=ignored_send_bytes,
    )
    opened = open_file(file, release, format_)
    parsed = opened.parse()
    variables = job_variables(environment, parameters)
    outcome = parsed.decide(call, variables)
    costs = None
    if data and bundle is None:
        raise typer.BadParameter("--data needs --bundle")
    if bundle is not None and not outcome.ends_program:
        with progress("predicting", quiet=quiet or json):
            costs = explained_costs.explained_costs(bundle, data or [], call, outcome.configuration)
    if json:
        added = {"costs": explained_costs.as_json(costs)} if costs else {}
        show_json(as_json(opened, parsed, call, outcome) | added)
    else:
        show(printable(paragraph(opened, parsed, call, outcome, given=variables is not None)))
        if costs:
            show(f"\n{explained_costs.text(costs)}")
