"""`colltune tune`: measure, fit, select, write, and measure again whether it helped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colltune.cli import started_s
from colltune.cli.options import (
    BuiltinOperationsOnly,
    Interposed,
    Json,
    Mpi,
    Only,
    Quiet,
    Skip,
    writable_folder,
)


def tune(
    budget: Annotated[
        float,
        typer.Option(help="Hard limit of wall time in seconds, first compilation included."),
    ] = 90.0,
    out: Annotated[
        Path, typer.Option(help="Folder for everything that is made.", callback=writable_folder)
    ] = Path("tuned"),
    mpi: Mpi = None,
    campaign: Annotated[
        Path | None, typer.Option(help="Campaign file (TOML) instead of the built-in one.")
    ] = None,
    ppn: Annotated[
        int | None, typer.Option(help="Processes; default: one per core, at least 4.", min=2)
    ] = None,
    learner: Annotated[str, typer.Option(help="As for fit.")] = "auto",
    only: Only = None,
    skip: Skip = None,
    interposed: Interposed = False,
    builtin_operations_only: BuiltinOperationsOnly = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the random order.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find faster collective algorithms for this machine and prove that MPI obeys.

    Measures every configuration, fits models, selects, writes the MPI library's configuration,
    measures what is selected again in turns with the default, withdraws what does not prove faster,
    and looks at which algorithm really ran. The bundle keeps what was proved.

    Example: colltune tune --budget 60 --out tuned
    """
    import time

    began = started_s() or time.monotonic()
    from colltune import process
    from colltune.bench import campaign_file
    from colltune.bench.backends import NativeBackend
    from colltune.cli import tune_report
    from colltune.cli.backends import installation_of
    from colltune.cli.console import progress
    from colltune.cli.tune_pipeline import run, slowdown
    from colltune.cli.tune_settings import Settings

    plan = campaign_file.load(campaign) if campaign else campaign_file.laptop()
    plan = plan.changed(
        total_s=budget,
        ppn=(ppn,) if ppn else None,
        only=tuple(only) if only else None,
        skip=tuple(skip) if skip else None,
        interposed=interposed or None,
    )
    slow = slowdown(began, 0.0)
    settings = Settings(plan, out, learner, builtin_operations_only, seed, began, slow)
    settings.insist_on_enough()
    kept = f"what was measured is kept in {out}"
    with (
        progress("preparing", quiet=quiet or json, interrupted=kept) as shown,
        process.ending_by(settings.moment()),
    ):
        with settings.told_of_time():
            found = installation_of(plan, mpi)
        result = run(settings, found, NativeBackend(found), shown)
    if json:
        tune_report.show_json_report(result)
    else:
        tune_report.show_report(result)
