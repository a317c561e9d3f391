"""`colltune plan`: what a campaign would measure, and what it would cost, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import columns, parse_pairs, progress, show, show_json
from colltune.cli.options import Interposed, Json, Mpi, Only, Profiles, Quiet, Skip, Where
from colltune.domain import RunStatus
from colltune.errors import DataError

if TYPE_CHECKING:
    from colltune.bench.backends import Backend
    from colltune.bench.campaign import Campaign
    from colltune.bench.progress import Standing
    from colltune.bench.rehearsal import Rehearsal
    from colltune.bench.schedule import Cell

_SHOWN_SHAPES = 6


def plan(
    campaign: Annotated[
        Path | None, typer.Argument(help="Campaign file (TOML); default: this machine.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Wall time: 90, 30m, 4h.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="full_grid, latin_hypercube or adaptive.")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="native or reprompi.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Dataset of this machine: predict runtimes instead of guessing them."),
    ] = None,
    launch_s: Annotated[
        float, typer.Option(help="Seconds that a launch costs beside its measurements.", min=0)
    ] = 2.0,
    task: Annotated[
        str | None, typer.Option(metavar="I/N", help="Plan part I of N of the campaign.")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="Recorded dataset on which to compare all strategies, drawn."),
    ] = None,
    picture: Annotated[
        Path, typer.Option(help="Where to draw it: .png, .svg or .pdf.", metavar="FILE")
    ] = Path("strategies.png"),
    seeds: Annotated[int, typer.Option(help="Replayed campaigns of each strategy.", min=1)] = 3,
    where: Where = None,
    mpi: Mpi = None,
    only: Only = None,
    skip: Skip = None,
    interposed: Interposed = False,
    profile: Profiles = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show cells, launches, wall time and node-hours of a campaign, and what it will leave out.

    Nothing is run, and the MPI need not be installed where the campaign names its release. With
    --replay all schedule strategies go through a recorded dataset: which is worth its time?

    Example: colltune plan reprompi_configs/hydra.toml --budget 4h
    """
    from colltune.bench.campaign import Part
    from colltune.bench.rehearsal import rehearse
    from colltune.cli.backends import campaign_of, planned_backend
    from colltune.cli.plan_strategies import compare, show_comparison

    if replay is not None:
        from colltune.plots.saving import picture_format

        picture_format(picture)
    chosen = campaign_of(
        campaign, budget, backend, strategy, only, skip, interposed=interposed, profiles=profile
    )
    chosen = chosen.changed(part=Part.parse(task) if task else None)
    with progress("reading", quiet=quiet or json) as shown:
        planned = planned_backend(chosen, mpi)
        chosen = chosen.changed(library=planned.context(chosen.machine).library)
        basis, time_s = _runtimes(data, planned, chosen)
        shown.phase("rehearsing", "s of the budget")

        def tell(standing: Standing) -> None:
            now = f"launch {standing.launch} on {standing.shape} ({standing.what})"
            shown.count(round(standing.spent_s), round(standing.budget_s), now)

        rehearsal = rehearse(chosen, planned, time_s, launch_s=launch_s, progress=tell)
    facts = _facts(chosen, rehearsal, basis)
    if not json:
        _show(chosen, rehearsal, facts)
    if replay is not None:
        facts["replay"] = compare(
            replay,
            chosen.strategy,
            picture,
            subshapes=chosen.subshapes,
            seeds=seeds,
            quiet=quiet or json,
            where=parse_pairs(where or [], "--where"),
        )
    if json:
        show_json(facts)
    elif replay is not None:
        show_comparison(facts["replay"])


def _runtimes(
    data: Path | None, backend: Backend, campaign: Campaign
) -> tuple[str, Callable[[Cell], float]]:
    """Return where the runtimes come from, and the runtime of a cell in seconds."""
    from colltune.bench.schedule import Cell, Forecast, guessed_s
    from colltune.dataset import read

    if data is None:
        return "guessed from a common latency and bandwidth", lambda cell: guessed_s(cell.instance)
    known = read([data])
    if known.context.library != campaign.library:
        raise DataError(f"{data} was measured with {known.context.library}, not {campaign.library}")
    times = {
        Cell(m.configuration, m.instance): m.summary.time_s
        for m in known.measurements()
        if m.status is RunStatus.OK and m.summary is not None
    }
    forecast = Forecast(times)
    return (
        f"predicted from {len(times)} measured cells of {data}",
        lambda cell: forecast.time_s(cell) or guessed_s(cell.instance),
    )


def _facts(campaign: Campaign, rehearsal: Rehearsal, basis: str) -> dict[str, Any]:
    from colltune.bench.rehearsal import node_hours

    largest = campaign.largest
    every = rehearsal.every
    launches_s = rehearsal.launches_for_all * rehearsal.launch_s
    return {
        "machine": campaign.machine,
        "library": campaign.library,
        "backend": campaign.backend,
        "strategy": campaign.strategy,
        "runtimes": basis,
        "profile_covered": campaign.focus.covered if campaign.focus else None,
        "shapes": len(campaign.shapes),
        "largest_shape": str(largest),
        "cells": every.cells,
        "all_cells": {
            "launches": rehearsal.launches_for_all,
            "expected_s": every.expected_s + launches_s,
            "worst_s": every.worst_s + launches_s,
            "expected_node_hours": (every.expected_s + launches_s) * largest.nodes / 3600,
            "worst_node_hours": (every.worst_s + launches_s) * largest.nodes / 3600,
        },
        "budget_s": campaign.budget_s,
        "within_budget": {
            "launches": len(rehearsal.launches),
            "wall_s": rehearsal.wall_s,
            "node_hours": rehearsal.node_hours,
            "worst_node_hours": campaign.budget_s * largest.nodes / 3600,
            "cells_left_out": len(rehearsal.left_out),
            "cells_skipped": len(rehearsal.skipped),
            "second_launches": {
                "shapes": [str(shape) for shape in campaign.repeated_shapes],
                "launches": len(rehearsal.second_launches),
                "wall_s": math.fsum(v.wall_s for v in rehearsal.second_launches),
                "node_hours": node_hours(rehearsal.second_launches),
            },
        },
    }


def _show(campaign: Campaign, rehearsal: Rehearsal, facts: dict[str, Any]) -> None:
    from colltune.bench import durations
    from colltune.bench.rehearsal import by_shape

    show(
        f"{campaign.library} on {campaign.machine}: {facts['cells']} cells on {facts['shapes']}"
        f" shapes up to {facts['largest_shape']}; {campaign.backend}, {campaign.strategy}"
    )
    show(f"runtimes {facts['runtimes']}; {rehearsal.launch_s:g} s per launch")
    if campaign.focus is not None:
        show(f"{campaign.focus.covered:.0%} of the application's time in collectives is covered")
    show()
    show(columns(("collective", "configurations", "cells"), _by_collective(rehearsal)))
    every, within = facts["all_cells"], facts["within_budget"]
    rows = [
        (
            "all cells, expected",
            str(every["launches"]),
            durations.text(every["expected_s"]),
            f"{every['expected_node_hours']:.3g}",
        ),
        (
            "all cells, at worst",
            str(every["launches"]),
            durations.text(every["worst_s"]),
            f"{every['worst_node_hours']:.3g}",
        ),
        (
            "within the budget",
            str(within["launches"]),
            durations.text(within["wall_s"]),
            f"{within['node_hours']:.3g}",
        ),
        *_second_launches(within["second_launches"]),
        (
            "hard limit",
            "",
            durations.text(campaign.budget_s),
            f"{within['worst_node_hours']:.3g}",
        ),
    ]
    show("\n" + columns(("", "launches", "wall time", "node-hours"), rows) + "\n")
    missing = len(rehearsal.left_out) + len(rehearsal.skipped)
    if not missing:
        show("the budget leaves nothing out")
        return
    show(
        f"the budget leaves out {missing} of {facts['cells']} cells"
        f" ({missing / facts['cells']:.0%}), {len(rehearsal.skipped)} as predicted too slow:"
    )
    counts = by_shape((*rehearsal.left_out, *rehearsal.skipped))
    most = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{count} on {shape}" for shape, count in most[:_SHOWN_SHAPES])
    more = f", and on {len(most) - _SHOWN_SHAPES} more shapes" if len(most) > _SHOWN_SHAPES else ""
    show(f"  {shown}{more}")


def _second_launches(again: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the table's row of what second launches cost; none where none is asked for."""
    from colltune.bench import durations

    if not again["shapes"]:
        return []
    wall, node_hours = durations.text(again["wall_s"]), f"{again['node_hours']:.3g}"
    return [("  of it in second launches", str(again["launches"]), wall, node_hours)]


def _by_collective(rehearsal: Rehearsal) -> list[tuple[str, str, str]]:
    members: dict[str, list[Cell]] = {}
    for cell in rehearsal.cells:
        members.setdefault(cell.instance.collective, []).append(cell)
    return [
        (name, str(len({cell.configuration for cell in cells})), str(len(cells)))
        for name, cells in members.items()
    ]
