"""`colltune verify`: prove in a job of the user's own that MPI obeys a configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import progress
from colltune.cli.options import Json, Mpi, Quiet

if TYPE_CHECKING:
    from colltune.registry import Registry

_NO_VERDICT = "nothing is proved"


def verify(
    file: Annotated[Path, typer.Argument(help="Configuration file.", metavar="FILE")],
    launcher: Annotated[
        list[str] | None,
        typer.Argument(
            help="Behind --: your own launcher with its options, without a program.",
            metavar="-- LAUNCHER…",
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(metavar="R", help="Insist that the job runs this release of its MPI library."),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="F", help="Format of FILE; default: what it looks like."),
    ] = None,
    budget: Annotated[str, typer.Option(help="Wall time of it all: 60s, 5m.")] = "60s",
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Time default against file.")
    ] = True,
    readable_only: Annotated[
        bool,
        typer.Option(
            "--readable-only",
            help="Only check that all processes read the same FILE, without MPI (for a prologue).",
        ),
    ] = False,
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder that all nodes see, for the compiled canary; default: the user's cache.",
        ),
    ] = None,
    limit: Annotated[
        str, typer.Option(help="Longest that one launch of the canary may take.")
    ] = "60s",
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="REGISTRY",
            help="Report to this registry how many rules were applied and ignored, so that the"
            " service's metrics tell.",
        ),
    ] = None,
    mpi: Mpi = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Prove in a job of your own that MPI obeys FILE, and measure what it brings.

    A canary is started by your launcher under your environment, of which nothing is overridden.
    Open MPI's launcher is told to serve root, if that is who asks, which a note says. For each rule
    the canary makes calls that the rule should decide, and tells whether it was applied, overridden
    (by whom) or ignored (why); then default and FILE are measured in alternation. The status is 1
    if a rule that the job can reach is not applied, a node cannot read FILE, or FILE is slower with
    certainty.

    Example: colltune verify openmpi.rules --budget 60s -- mpirun -np 8 --hostfile hosts
    """
    from colltune.bench import durations
    from colltune.cli import verify_report
    from colltune.files import cache_folder
    from colltune.verify.proving import prove
    from colltune.verify.readability import Request, canary_of, readability

    request = Request(
        path=file.absolute(),
        words=tuple(launcher or ()),
        release=release,
        format=format_,
        mpi=mpi,
        work=(work or cache_folder()).absolute(),
        budget_s=durations.seconds(budget),
        limit_s=durations.seconds(limit),
        measure=measure,
    )
    reports = _reports_to(registry)
    if readable_only:
        with progress("reading the file everywhere", quiet=quiet or json, interrupted=_NO_VERDICT):
            found, _ = readability(request, canary_of(request)[0])
        verify_report.show_readability(found, as_json=json)
        passed = not found.problems
    else:
        with progress("verifying", quiet=quiet or json, interrupted=_NO_VERDICT) as shown:
            proof = prove(
                request, lambda what, spent_s: shown.spend(spent_s, request.budget_s, now=what)
            )
        verify_report.show(proof, as_json=json)
        if reports is not None:
            reports.put_report("verify", verify_report.for_registry(proof))
        passed = proof.passed
    if not passed:
        raise typer.Exit(1)


def _reports_to(registry: str | None) -> Registry | None:
    """Return the registry to report to, which must be there before anything is started."""
    if registry is None:
        return None
    from colltune.registry import Registry

    found = Registry(registry)
    found.current()
    return found
