"""`colltune env`: lines for a job's shell that put a tuned configuration into effect."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from colltune.cli.console import Verbatim, output, warn
from colltune.cli.options import BuiltinOperationsOnly, Caution, ForEverybody, ForResults, Json, Mpi
from colltune.errors import ColltuneError
from colltune.text import printable

_DEFAULT_LIMIT_S = 1.0


def env(
    nodes: Annotated[
        str | None, typer.Option(help="Nodes of the job; default: from Slurm.")
    ] = None,
    ppn: Annotated[
        str | None,
        typer.Option(help="Processes per node, 8 or Slurm's 8(x4); default: from Slurm."),
    ] = None,
    bundle: Annotated[
        str | None,
        typer.Option(
            help="Bundle folder, or with --registry a bundle's id; default: $COLLTUNE_BUNDLE."
        ),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(help="Registry: a folder or s3://…; default: $COLLTUNE_REGISTRY."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="Service: http://HOST:PORT or unix:/PATH; default: $COLLTUNE_URL."),
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(
            help="MPI library: openmpi, mpich or intelmpi; default: from the loaded modules, else "
            "from mpirun."
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(help="Release of the MPI library, 4.1.4; default: as for --library."),
    ] = (None),
    mpi: Mpi = None,
    folder: Annotated[
        str | None,
        typer.Option(
            help="Folder for the job's files, visible on all nodes; default: .colltune/JOB in the "
            "submit folder."
        ),
    ] = None,
    limit: Annotated[
        float, typer.Option(help="Seconds to wait for the service.", min=0.2, max=2.0)
    ] = _DEFAULT_LIMIT_S,
    programs: ForEverybody = None,
    results: ForResults = None,
    builtin_operations_only: BuiltinOperationsOnly = False,
    interposed: Annotated[
        bool,
        typer.Option(
            "--interposed",
            help="Preload libcolltune, and also choose among its algorithms. Works with a bundle "
            "or registry, not with a service.",
        ),
    ] = False,
    caution: Caution = 1.0,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit with an error if nothing can be set, instead of running without tuning.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Print the export lines that make a job's MPI use tuned algorithms, and write its files.

    If anything goes wrong, the only output is one line on standard error and in syslog. The exit
    status is 0, and the job runs with MPI's own decisions. Your own settings always win.
    COLLTUNE=off turns tuning off.

    Example, in a batch script: eval "$(colltune env --url http://tuning:8765)"
    """
    from colltune.server.slurm.job_decision import DecidedJob, JobRequest, decide

    if os.environ.get("COLLTUNE", "").lower() == "off":
        output(DecidedJob({}, "COLLTUNE=off"), (), json=json)
        return
    request = JobRequest(
        nodes=nodes or "",
        ppn=ppn or "",
        bundle=bundle or "",
        registry=registry or "",
        url=url or "",
        library=library or "",
        release=release or "",
        mpi=mpi or "",
        folder=folder or "",
        limit_s=limit,
        programs=programs or "",
        results=results or "",
        builtin_operations_only=builtin_operations_only,
        interposed=interposed,
        caution=caution,
    )
    try:
        found = decide(request, os.environ, _libcolltune)
    except Exception as error:
        # in a job, an error of ours must not be one of the job's
        if strict:
            raise
        kind = "" if isinstance(error, ColltuneError) else f"{type(error).__name__}: "
        found = DecidedJob({}, f"{kind}{error}")
    if found.note:
        _complain(found.note)
    lines = (Verbatim(f"export {n}={shlex.quote(value)}") for n, value in found.environment.items())
    output(found, lines, json=json)


def _libcolltune(library: str, release: str, mpi: str | None) -> Path:
    from colltune.bench.build import library_for

    return library_for(library, release, mpi)


def _complain(message: str) -> None:
    """Say one line, to the user and to the system's log."""
    line = printable(" ".join(message.split()))
    warn(f"{line.rstrip('.')}; the job runs with MPI's own decisions")
    try:
        import syslog
    except ImportError:
        return
    syslog.openlog("colltune")
    syslog.syslog(syslog.LOG_NOTICE, line)
