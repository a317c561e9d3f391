"""`colltune measure`: runs a campaign into a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.options import Json, Mpi, Only, Skip

if TYPE_CHECKING:
    from colltune.bench.backends import Backend
    from colltune.bench.runner import CampaignReport


def measure(
    campaign: Annotated[
        Path | None, typer.Argument(help="Campaign file (TOML); default: this machine.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Dataset folder to add to.")] = Path("dataset"),
    budget: Annotated[
        float | None, typer.Option(help="Hard limit of wall time in seconds.")
    ] = None,
    backend: Annotated[str, typer.Option(help="native, or replay (with --replay).")] = "native",
    replay: Annotated[
        Path | None, typer.Option(help="Dataset to replay instead of measuring.")
    ] = None,
    mpi: Mpi = None,
    only: Only = None,
    skip: Skip = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random order.")] = None,
    json: Json = False,
) -> None:
    """Measure a campaign's configurations within a hard time budget.

    What was measured when the budget ends, or when the run is killed, is kept: the next run adds
    what a killed one left.

    Example: colltune measure reprompi_configs/laptop.toml --out dataset --budget 60
    """
    from colltune.bench import campaign_file
    from colltune.bench.runner import run_campaign
    from colltune.cli.console import timed_progress

    plan = campaign_file.load(campaign) if campaign else campaign_file.laptop()
    plan = plan.changed(
        total_s=budget, only=tuple(only) if only else None, skip=tuple(skip) if skip else None
    )
    chosen = _backend(backend, replay, mpi)
    with timed_progress(plan.total_s, quiet=json) as progress:
        report = run_campaign(plan, chosen, out, seed=seed, progress=progress)
    _show(report, out, json)


def _backend(name: str, replay: Path | None, mpi: str | None) -> Backend:
    from colltune.bench.backends import BACKENDS, NativeBackend, ReplayBackend
    from colltune.dataset import read
    from colltune.errors import CampaignError
    from colltune.mpi import installation

    if name not in BACKENDS:
        raise CampaignError(f"unknown backend {name!r}; known: {', '.join(BACKENDS)}")
    if name == "replay" or replay:
        if replay is None:
            raise CampaignError("backend replay needs --replay DATASET")
        return ReplayBackend(read([replay]))
    return NativeBackend(installation.find(mpi))


def _show(report: CampaignReport, out: Path, as_json: bool) -> None:
    from colltune.cli.console import show, show_json, warn

    for problem in report.problems:
        warn(problem)
    if as_json:
        facts = {**vars(report), "files": [str(f) for f in report.files], "dataset": str(out)}
        show_json(facts)
        return
    if report.salvaged:
        show(f"{report.salvaged} measurements of a killed run were added")
    show(
        f"{report.measurements} measurements in {report.launches} launches, {report.wall_s:.1f} s"
        f" ({report.timed_s / report.wall_s:.0%} in timed loops) -> {out}"
    )
    if report.unmeasured_cells:
        show(f"{report.unmeasured_cells} cells found no time; give a larger --budget")
