"""`colltune measure`: runs a campaign into a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import output, warn
from colltune.cli.options import (
    CampaignFile,
    ForPrograms,
    ForResults,
    Fresh,
    Interposed,
    Json,
    LaunchSeconds,
    MeasuringBackend,
    Mpi,
    Only,
    Profiles,
    Quiet,
    Replay,
    Seed,
    Skip,
    StartedBy,
    Strategy,
    writable_folder,
)
from colltune.cli.progress import progress
from colltune.errors import UNFINISHED
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.bench.runner import CampaignReport

_INTERRUPTED = "the measurements are kept. Run the same command again to go on."


def measure(
    campaign: CampaignFile = None,
    out: Annotated[
        Path, typer.Option(help="Dataset folder to add to.", callback=writable_folder)
    ] = Path("dataset"),
    budget: Annotated[
        str | None, typer.Option(help="Hard limit of wall time: 90, 30m, 4h.")
    ] = None,
    backend: MeasuringBackend = None,
    strategy: Strategy = None,
    launch_s: LaunchSeconds = None,
    replay: Replay = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="Measure part I of N of the shapes, with that part of the budget."
        ),
    ] = None,
    mpi: Mpi = None,
    launcher: StartedBy = None,
    only: Only = None,
    skip: Skip = None,
    interposed: Interposed = False,
    programs: ForPrograms = None,
    results: ForResults = None,
    profile: Profiles = None,
    fresh: Fresh = False,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure the configurations of a campaign within a hard time budget.

    All measurements are kept when the budget ends or the run is killed. After a kill the same
    command resumes with the rest of the budget. In a Slurm job it stops before the job ends, and
    the next job continues.

    Example: colltune measure reprompi_configs/laptop.toml --out dataset --budget 60
    """
    from colltune.bench.campaign import CampaignPart
    from colltune.cli.campaigns import backend_of, campaign_of, on_named_mpi, run_here

    plan = campaign_of(
        campaign,
        budget,
        backend,
        strategy,
        only,
        skip,
        interposed=interposed,
        profiles=profile,
        programs=programs,
        results=results,
    )
    plan = plan.changed(
        part=CampaignPart.parse(task) if task else None,
        launch_s=launch_s,
        launcher_program=launcher,
    )
    with progress("preparing", quiet=quiet or json, interrupted=_INTERRUPTED) as shown:
        plan = plan if replay else on_named_mpi(plan, mpi)
        chosen = backend_of(plan, replay, mpi)
        report = run_here(
            plan, chosen, out, shown, seed=seed, resume=not fresh, replayed=replay is not None
        )
    _show(report, out, json)
    if not report.finished:
        raise typer.Exit(UNFINISHED)


def _show(report: CampaignReport, out: Path, as_json: bool) -> None:
    for problem in report.problems:
        warn(problem)
    output(report, _lines(report, out), json=as_json)


def _lines(report: CampaignReport, out: Path) -> Iterator[str]:
    if report.complete_before:
        yield "this job has already completed the campaign; nothing was measured"
        return
    if report.salvaged:
        yield f"{counted(report.salvaged, 'measurement')} of a killed run were added"
    if report.earlier_s:
        yield f"resumed a killed run that had used {report.earlier_s:.0f} s of the budget"
    yield (
        f"{counted(report.measurements, 'measurement')} in "
        f"{counted(report.launches, 'launch', 'es')}, {report.wall_s:.1f} s "
        f"({report.timed_s / max(report.wall_s, 1e-09):.0%} in timed loops) -> {out}"
    )
    if report.abandoned:
        yield (
            f"{counted(report.abandoned, 'measurement')} abandoned because the configuration was "
            "too slow"
        )
    if report.skipped:
        yield f"{counted(report.skipped, 'cell')} skipped, predicted too slow for the time left"
    if not report.finished:
        yield "the time of this job is over. Run the same command again to continue the campaign"
    elif report.unmeasured_cells:
        yield (
            f"{counted(report.unmeasured_cells, 'cell')} not measured for lack of time; give a "
            "larger --budget"
        )
