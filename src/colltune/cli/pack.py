"""`colltune pack`: a configuration for one application, by its profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colltune.cli.options import BuiltinOperationsOnly, Caution, Json, Quiet, writable_folder


def pack(
    profile: Annotated[
        list[Path],
        typer.Option(
            help="Profiles that libcolltune wrote, files or folders of them; repeatable.",
            metavar="PATH",
        ),
    ],
    bundle: Annotated[Path, typer.Option(help="Bundle folder that `colltune fit` wrote.")],
    nodes: Annotated[int, typer.Option(help="Nodes of the job.", min=1)],
    ppn: Annotated[int, typer.Option(help="Processes per node.", min=1)],
    out: Annotated[
        Path, typer.Option(help="Folder to write.", metavar="FOLDER", callback=writable_folder)
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="A library or one of its formats, as `select` has it; default: the library that"
            " the application ran with.",
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(help="Release to write for; default: the one the application ran with."),
    ] = None,
    program: Annotated[
        list[str] | None,
        typer.Option(help="Only runs of this program; repeatable; default: all.", metavar="NAME"),
    ] = None,
    builtin_operations_only: BuiltinOperationsOnly = False,
    caution: Caution = 1.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the configuration of one application: tuned where its profile says it spends time.

    Only the collectives, communicators and message sizes that the application uses are decided on;
    everything else is left to the library. FOLDER also says how to start the job.

    Example: colltune pack --profile profiles --bundle bundle --nodes 4 --ppn 2 --out packed
    """
    from colltune.cli.console import progress, show_json
    from colltune.cli.packing import Request

    with progress("reading", quiet=quiet or json) as shown:
        request = Request(
            profiles=tuple(profile),
            programs=tuple(program or ()),
            bundle=bundle,
            nodes=nodes,
            ppn=ppn,
            format_name=format_,
            release=release,
            builtin_operations_only=builtin_operations_only,
            caution=caution,
        )
        packed = request.packed(shown)
        shown.phase("writing")
        written = packed.write(out)
    if json:
        show_json(packed.as_dict(written))
    else:
        packed.show(written)
