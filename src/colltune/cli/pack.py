"""`colltune app pack`: a configuration for one application, by its profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, Verbatim, output
from colltune.cli.options import (
    BuiltinOperationsOnly,
    BundleAt,
    Caution,
    Cores,
    ForPrograms,
    ForResults,
    Json,
    ProgramNames,
    Quiet,
    bundle_to_read,
    programs_of,
    writable_folder,
)
from colltune.cli.progress import progress
from colltune.domain import Shape
from colltune.text import range_text

if TYPE_CHECKING:
    from colltune.selector.packing import PackManifest


def pack(
    profile: Annotated[
        list[Path],
        typer.Option(
            help="Profiles written by libcolltune, files or folders; repeatable.",
            metavar="PATH",
        ),
    ],
    nodes: Annotated[int, typer.Option(help="Nodes of the job.", min=1)],
    ppn: Annotated[int, typer.Option(help="Processes per node.", min=1)],
    out: Annotated[
        Path, typer.Option(help="Folder to write.", metavar="FOLDER", callback=writable_folder)
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="MPI library or one of its formats, as in `select`; default: the library of the "
            "profiled runs.",
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(help="Release to write for; default: the release of the profiled runs."),
    ] = None,
    bundle: BundleAt = None,
    program: ProgramNames = None,
    cores: Cores = None,
    programs: ForPrograms = None,
    results: ForResults = None,
    builtin_operations_only: BuiltinOperationsOnly = False,
    caution: Caution = 1.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a configuration for one application, tuned where it spends its time.

    It covers only the collectives, communicators and message sizes that the application uses.
    Everything else is left to the library. FOLDER also gets a script that starts the job with it.

    Example: colltune app pack --profile profiles --bundle bundle --nodes 4 --ppn 2 --out packed
    """
    bundle = bundle_to_read(bundle, quiet=json)
    from colltune.cli.select import job_cores, libcolltune_for
    from colltune.dataset.profile import read_profiles
    from colltune.models.bundle import load
    from colltune.models.guard import Guard
    from colltune.selector import packing
    from colltune.selector.configuration import Target

    with progress("reading", quiet=quiet or json) as shown:
        found = read_profiles(profile, program or ())
        loaded = load(bundle)
        target = Target.named(
            format_ or found.library,
            release or found.release,
            programs=programs_of(
                programs, results, builtin_operations_only=builtin_operations_only
            ),
        )
        shown.phase("deciding")
        shape, guard = Shape(nodes, ppn), Guard(caution=caution)
        enough = job_cores(cores, loaded.context, shape)
        packed = packing.pack(found, loaded, target, shape, guard, enough)
        shown.phase("writing")
        manifest = packed.write(out, *libcolltune_for(target))
    warnings = (f"note: {note}" for note in manifest.notes)
    output(manifest, _lines(manifest), json=json, warnings=warnings)


def _lines(found: PackManifest) -> Iterator[str | TextTable]:
    from colltune.selector.packing import SCRIPT

    rows = [
        [
            one.collective,
            one.shape or one.nprocs,
            range_text(one.first_bytes, one.last_bytes),
            one.configuration.id,
        ]
        for one in found.chosen
    ]
    if rows:
        head = ("collective", "processes", "message size", "configuration")
        yield TextTable(head, rows, wrap=head[3:])
    yield found.expected
    yield f"{found.configuration_format} for {found.library} {found.release}:"
    rules = found.written.rules_path
    yield f"  {rules}"
    yield f"for {found.written.programs.phrase}"
    yield Verbatim(f"add to the job: . {rules.with_name(SCRIPT)}")
    yield Verbatim(f"or start it with: {found.start_line}")
