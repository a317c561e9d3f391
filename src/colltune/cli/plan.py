"""`colltune plan`: what a campaign would measure, and what it would cost, before anything runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, output
from colltune.cli.options import (
    CampaignFile,
    CollectivesShare,
    ForPrograms,
    ForResults,
    Interposed,
    JobNodeHours,
    Json,
    LaunchSeconds,
    Mpi,
    Only,
    Profiles,
    Quiet,
    SiteUsage,
    Skip,
    Strategy,
)
from colltune.cli.progress import progress
from colltune.domain import RunStatus
from colltune.errors import say
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.bench.campaign import Campaign
    from colltune.bench.progress import CampaignProgress
    from colltune.bench.rehearsal import CampaignPlan, Rehearsal
    from colltune.bench.schedule import Cell
    from colltune.domain import Configuration, Context
    from colltune.production.payback import Load, Payback

_SHOWN_SHAPES = 6


@dataclass(frozen=True)
class PlanWithPayback:
    """What `plan` prints."""

    plan: CampaignPlan
    """what would be launched, and what it costs"""
    payback: Payback
    """when measuring pays"""


def plan(
    campaign: CampaignFile = None,
    budget: Annotated[str | None, typer.Option(help="Wall time: 90, 30m, 4h.")] = None,
    strategy: Strategy = None,
    backend: Annotated[str | None, typer.Option(help="native or reprompi.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Dataset of this machine to predict runtimes from; default: guess them."),
    ] = None,
    launch_s: LaunchSeconds = None,
    task: Annotated[
        str | None, typer.Option(metavar="I/N", help="Plan part I of N of the campaign.")
    ] = None,
    mpi: Mpi = None,
    only: Only = None,
    skip: Skip = None,
    interposed: Interposed = False,
    programs: ForPrograms = None,
    results: ForResults = None,
    profile: Profiles = None,
    site: SiteUsage = None,
    node_hours_per_month: JobNodeHours = None,
    collectives_share: CollectivesShare = None,
    demand: Annotated[
        Path | None,
        typer.Option(
            help="Folder written by `colltune serve --demand`: what jobs asked for tells when "
            "measuring pays."
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show the cells, launches, wall time and node-hours of a campaign, and what it leaves out.

    Nothing is run. The MPI need not be installed if the campaign names its release. The last lines
    say when the campaign pays, and what that rests on.

    Example: colltune plan reprompi_configs/hydra.toml --budget 4h

    Example: colltune plan reprompi_configs/hydra.toml --node-hours-per-month 20000
    """
    from colltune.bench.campaign import CampaignPart, focused
    from colltune.bench.journal import launch_costs
    from colltune.bench.launch_costs import LaunchCosts
    from colltune.bench.rehearsal import planned, rehearse
    from colltune.cli.campaigns import campaign_of, planned_backend, usage_of
    from colltune.production.payback import payback

    chosen = campaign_of(
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
    chosen = chosen.changed(part=CampaignPart.parse(task) if task else None, launch_s=launch_s)
    with progress("reading", quiet=quiet or json) as shown:
        measures = planned_backend(chosen, mpi)
        context = measures.context(chosen.machine)
        chosen = chosen.changed(library=context.library)
        if site is not None:
            chosen = focused(chosen, usage_of(site, context))
        load = _load(chosen, context, node_hours_per_month, collectives_share, demand, site)
        basis, time_s = _runtimes(data, chosen)
        shown.phase("rehearsing", "s of the budget")

        def tell(standing: CampaignProgress) -> None:
            now = f"launch {standing.launch} on {standing.shape} ({standing.what})"
            shown.count(round(standing.spent_s), round(standing.budget_s), now)

        costs = LaunchCosts(measures.launch_s, chosen.launch_s)
        costs.learn(*(launch_costs(data, chosen) if data else ()))
        rehearsal = rehearse(chosen, measures, time_s, costs=costs, progress=tell)
    facts = PlanWithPayback(planned(chosen, rehearsal, basis), payback(rehearsal.node_hours, load))
    lines = (*_lines(facts.plan, rehearsal), "", *payback_lines(facts.payback))
    output(facts, lines, json=json)


def _load(
    campaign: Campaign,
    context: Context,
    node_hours: float | None,
    share: str | None,
    demand: Path | None,
    site: Path | None,
) -> Load:
    """Return what the options and a profile tell of the jobs that the campaign would tune."""
    from colltune.production.payback import load_of, parse_share, recorded
    from colltune.retraining.site_file import load
    from colltune.selector.demand import counted_hours, read_demand

    releases = [(context.library, context.library_version)]
    return load_of(
        node_hours=node_hours,
        share=parse_share(share) if share is not None else None,
        profiled=campaign.focus.of_run if campaign.focus and site is None else None,
        demand=read_demand(demand) if demand else (),
        demand_hours=counted_hours(demand) if demand else 0.0,
        releases=releases,
        recorded=recorded(load(site).production, releases, time.time()) if site else None,
    )


def _runtimes(data: Path | None, campaign: Campaign) -> tuple[str, Callable[[Cell], float]]:
    """Return where the runtimes come from, and the runtime of a cell in seconds."""
    from colltune.bench.schedule import Cell, NearestForecast, guessed_s
    from colltune.cli.import_ import read_measured

    if data is None:
        return "guessed from a typical latency and bandwidth", lambda cell: guessed_s(cell.instance)
    known = read_measured([data])
    if known.context.library != campaign.library:
        both = f"{campaign.library}, {known.context.library} of {data}"
        raise say("libraries-differ", what="a campaign and times", done="joined", libraries=both)
    times = {
        Cell(m.configuration, m.instance): m.summary.time_s
        for m in known.measurements()
        if m.status is RunStatus.OK and m.summary is not None
    }
    forecast = NearestForecast(times)
    return (
        f"predicted from {counted(len(times), 'measured cell')} of {data}",
        lambda cell: forecast.time_s(cell) or guessed_s(cell.instance),
    )


def _lines(found: CampaignPlan, rehearsal: Rehearsal) -> Iterator[str | TextTable]:
    from colltune.bench import durations

    yield (
        f"{found.library} on {found.machine}: {counted(found.cells, 'cell')} on "
        f"{counted(found.shapes, 'shape')} up to {found.largest_shape}; "
        f"{found.backend}, {found.strategy}"
    )
    yield f"runtimes {found.runtimes}; {found.launch_s:g} s per launch"
    if found.profile_covered is not None:
        yield f"{found.profile_covered:.0%} of the application's time in collectives is covered"
    yield ""
    members: dict[str, list[Configuration]] = {}
    for cell in rehearsal.cells:
        members.setdefault(cell.instance.collective, []).append(cell.configuration)
    counts = [(name, len(set(every)), len(every)) for name, every in members.items()]
    yield TextTable(("collective", "configurations", "cells"), counts)
    again = {"  of these in second launches": found.second_launches}
    costs = {
        "all cells, expected": found.expected,
        "all cells, at worst": found.worst,
        "within the budget": found.within_budget,
        **(again if found.repeated_shapes else {}),
        "hard limit": found.limit,
    }
    rows = [
        (what, "" if n is None else n, durations.text(wall_s), f"{hours:.3g}")
        for what, (n, wall_s, hours) in costs.items()
    ]
    yield ""
    yield TextTable(("", "launches", "wall time", "node-hours"), rows)
    yield ""
    yield from _left_out_lines(rehearsal, found.cells)


def payback_lines(payback: Payback) -> Iterator[str]:
    yield payback.text
    yield f"  {payback.basis}"


def _left_out_lines(rehearsal: Rehearsal, cells: int) -> Iterator[str]:
    from colltune.bench.rehearsal import by_shape

    missing = (*rehearsal.left_out, *rehearsal.skipped)
    if not missing:
        yield "all cells fit into the budget"
        return
    yield (
        f"{len(missing)} of {counted(cells, 'cell')} ({len(missing) / cells:.0%}) do not fit "
        f"into the budget, {len(rehearsal.skipped)} of them predicted too slow:"
    )
    most = sorted(by_shape(missing).items(), key=lambda item: -item[1])
    shown = ", ".join(f"{number} on {shape}" for shape, number in most[:_SHOWN_SHAPES])
    more = (
        f", and on {counted(len(most) - _SHOWN_SHAPES, 'more shape')}"
        if len(most) > _SHOWN_SHAPES
        else ""
    )
    yield f"  {shown}{more}"
