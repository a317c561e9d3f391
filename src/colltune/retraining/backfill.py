"""What jobs asked for is measured: by the next campaign, or confirmed in the night's allocation.

The next campaign has what the bundle in force could not well answer.

A cell is a collective on a shape that jobs asked for. It wants measuring as far as its message
sizes were extrapolated, or left to the default for doubt; weighted by how often jobs asked. Shapes
that were measured, though it may be that no bundle in force knows it yet, are not asked for again.
A campaign measures all nodes x ppn that it names, so shapes are taken in turn by what they, and the
shapes that they bring along, are worth per second, as long as the expected time of all cells fits
the budget. Times are the bundle's own predictions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune.bench import campaign_file
from colltune.bench.backends.native import NativeBackend
from colltune.bench.backends.protocol import Backend
from colltune.bench.campaign import Campaign, focused
from colltune.bench.runner import run_campaign
from colltune.dataset.profile import Profile
from colltune.decisions import Status
from colltune.domain import Collective, Context, Shape
from colltune.files import write_text
from colltune.files.settings import written
from colltune.models.bundle import Bundle
from colltune.models.guard import Guard
from colltune.mpi import installation
from colltune.mpi.programs import FOR_EVERYBODY, Programs
from colltune.retraining.site_file import Backfill
from colltune.selector.argmin import ModelSelector, legal_selector
from colltune.selector.demand import Demand, read_demand
from colltune.verify.confirm import (
    asked_by_campaign,
    asked_by_jobs,
    campaign_for,
    confirming,
    insist_on_context,
    proposals,
    revised,
    unconfirmed,
    with_refuted,
)

Flags = NDArray[np.bool_]
_FIRST_LINE = "# The next campaign, planned by colltune site retrain, which overwrites this file."
_MOST_SHAPES = 60


@dataclass(frozen=True)
class WantedShape:
    """A collective on a shape: the message sizes that want measuring, and how often jobs ask.

    ``node_hours`` are those that jobs spent in these calls, where production told any.
    """

    collective: Collective
    shape: Shape
    count: int
    msizes_bytes: tuple[int, ...]
    extrapolated: int
    abstained: int
    node_hours: float | None = None

    @property
    def weight(self) -> float:
        """How much it matters: node-hours, or requests times message sizes."""
        return self.node_hours if self.node_hours is not None else self.requests

    @property
    def requests(self) -> float:
        return float(self.count * len(self.msizes_bytes))


@dataclass(frozen=True)
class NextCampaign:
    """A campaign with what it answers: the share of what is wanted, and the seconds expected."""

    campaign: Campaign
    wanted: tuple[WantedShape, ...]
    covered: float
    expected_s: float

    def as_dict(self) -> dict[str, Any]:
        """Return the facts, JSON-able; of what is wanted the most important."""
        return {
            "nodes": list(self.campaign.nodes),
            "ppn": list(self.campaign.ppn),
            "collectives": [c.value for c in self.campaign.collectives],
            "expected_s": self.expected_s,
            "budget_s": self.campaign.total_s,
            "covered": self.covered,
            "wanted": [
                {
                    "collective": w.collective.value,
                    "shape": str(w.shape),
                    "requests": w.count,
                    "node_hours": w.node_hours,
                    "extrapolated": w.extrapolated,
                    "abstained": w.abstained,
                }
                for w in sorted(self.wanted, key=lambda w: -w.weight)[:20]
            ],
        }


def wanted(
    bundle: Bundle,
    demand: Iterable[Demand],
    guard: Guard,
    measured: Collection[Shape] = (),
    usage: Profile | None = None,
    programs: Programs = FOR_EVERYBODY,
) -> tuple[WantedShape, ...]:
    """Return the cells that jobs asked for and that want measuring; not those `measured` since.

    A cell is in doubt for what harms none of `programs`: only that can be given to a job. With
    `usage`, what production jobs spend, cells count by node-hours.
    """
    known = {Shape(1, 1), *measured, *bundle.training_shapes}
    context = bundle.context
    selector = legal_selector(bundle, programs, guard=guard)
    asked = [
        (shape, d.count)
        for d in demand
        if (d.library, d.release) == (context.library, context.library_version)
        and (shape := Shape(d.nodes, d.ppn)) not in known
    ]
    found: list[WantedShape] = []
    for shape, count in sorted(asked, key=lambda pair: (-pair[1], pair[0]))[:_MOST_SHAPES]:
        for collective in bundle.collectives:
            sizes = bundle.model(collective).coverage.sizes
            sizes = sizes[_fits(collective, shape, sizes)]
            if not len(sizes):
                continue
            extrapolated, abstained = _doubted(selector, collective, shape, sizes)
            wants = extrapolated | abstained
            if wants.any():
                chosen = tuple(sizes[wants].tolist())
                counts = int(extrapolated.sum()), int(abstained.sum())
                found.append(WantedShape(collective, shape, count, chosen, *counts))
    return tuple(_by_node_hours(found, usage) if usage else found)


def _by_node_hours(cells: Sequence[WantedShape], usage: Profile) -> Iterator[WantedShape]:
    """Yield `cells` with their node-hours; where none are known, by the mean of a request."""
    hours = [sum(_hours(cell, usage)) for cell in cells]
    requests = sum(cell.requests for cell, h in zip(cells, hours, strict=True) if h)
    for cell, known in zip(cells, hours, strict=True):
        estimated = cell.requests * sum(hours) / requests if requests else None
        yield replace(cell, node_hours=known or estimated)


def _hours(cell: WantedShape, usage: Profile) -> Iterator[float]:
    for use in usage.uses:
        if (use.kind.collective, use.kind.shape) == (cell.collective, cell.shape):
            yield use.process_s / 3600


def _doubted(
    selector: ModelSelector, collective: Collective, shape: Shape, sizes: NDArray[np.int64]
) -> tuple[Flags, Flags]:
    """Return which message sizes are extrapolated, and which left to the default for doubt."""
    decisions = selector.decide(collective, shape.nodes, shape.ppn, sizes)
    default = selector.bundle.model(collective).default_column
    extrapolated = np.asarray(decisions.forecast.extrapolated)
    kept = (decisions.chosen == default) & (decisions.fastest != default)
    return extrapolated, (decisions.beyond | kept) & ~extrapolated


def _fits(collective: Collective, shape: Shape, sizes: NDArray[np.int64]) -> Flags:
    blocks = shape.nprocs if collective.has_block_per_rank else 1
    most = Campaign.max_buffer_bytes
    return np.asarray(sizes <= most // blocks)


def plan(
    bundle: Bundle,
    cells: Sequence[WantedShape],
    budget_s: float,
    launch_s: float,
    programs: Programs = FOR_EVERYBODY,
) -> NextCampaign | None:
    """Return the campaign that answers most within `budget_s`, None if nothing is wanted.

    Where not even one shape fits, the one that is worth most is taken, and the budget ends it.
    """
    if not cells:
        return None
    weights: dict[Shape, float] = {}
    for cell in cells:
        weights[cell.shape] = weights.get(cell.shape, 0.0) + cell.weight
    sizes = _sizes(cells)

    @cache
    def shape_s(shape: Shape) -> float:
        return launch_s + sum(_cells_s(bundle, shape, sizes))

    def cost_s(shapes: Iterable[Shape]) -> float:
        return sum(map(shape_s, shapes))

    def worth(shapes: Iterable[Shape]) -> float:
        return sum(weights.get(shape, 0.0) for shape in shapes)

    chosen: frozenset[Shape] = frozenset()
    while True:
        grids = [(shape, _grid({*chosen, shape})) for shape in weights if shape not in chosen]
        better = [
            (worth(grid) / cost_s(grid), shape, grid)
            for shape, grid in grids
            if cost_s(grid) <= budget_s and worth(grid) > worth(chosen)
        ]
        if not better:
            break
        chosen = max(better, key=lambda option: option[:2])[2]
    if not chosen:
        chosen = frozenset([max(weights, key=lambda shape: (weights[shape], shape))])
    covered = worth(chosen) / sum(weights.values())
    campaign = _campaign(bundle, cells, chosen, budget_s).changed(programs=programs)
    return NextCampaign(campaign, tuple(cells), covered, cost_s(chosen))


def _grid(shapes: Iterable[Shape]) -> frozenset[Shape]:
    """Return the smallest nodes x ppn that has all `shapes`."""
    named = list(shapes)
    return frozenset(Shape(n, p) for n in {s.nodes for s in named} for p in {s.ppn for s in named})


def _cells_s(
    bundle: Bundle, shape: Shape, sizes: Mapping[Collective, tuple[int, ...]]
) -> Iterator[float]:
    """Yield how long each collective's cells on `shape` take."""
    reps, most_s = Campaign.max_reps, Campaign.cell_s
    for collective, of_one in sizes.items():
        asked = np.array(of_one, np.int64)
        asked = asked[_fits(collective, shape, asked)]
        if len(asked):
            time_s = bundle.model(collective).forecast(shape.nodes, shape.ppn, asked).time_s
            yield float(np.maximum(time_s, np.minimum(reps * time_s, most_s)).sum())


def _sizes(cells: Iterable[WantedShape]) -> dict[Collective, tuple[int, ...]]:
    found: dict[Collective, set[int]] = {}
    for cell in cells:
        found.setdefault(cell.collective, set()).update(cell.msizes_bytes)
    return {collective: tuple(sorted(sizes)) for collective, sizes in sorted(found.items())}


def _campaign(
    bundle: Bundle, cells: Sequence[WantedShape], shapes: frozenset[Shape], budget_s: float
) -> Campaign:
    inside = [cell for cell in cells if cell.shape in shapes]
    sizes = _sizes(inside)
    context = bundle.context
    ppn = {s.ppn for s in shapes}
    return Campaign(
        collectives=tuple(sizes),
        msizes_bytes=tuple(sorted({size for of_one in sizes.values() for size in of_one})),
        machine=context.machine,
        fabric=context.fabric,
        cores_per_node=max({*ppn, *(s.ppn for s in bundle.training_shapes)}),
        library=context.library,
        release=context.library_version,
        nodes=tuple(sorted({s.nodes for s in shapes})),
        ppn=tuple(sorted(ppn)),
        msizes_bytes_of=sizes,
        total_s=budget_s,
    )


def write(campaign: Campaign, path: Path) -> Path:
    """Write the campaign file and return its path."""
    values = {
        "space.collectives": campaign.collectives,
        "space.msizes_bytes": campaign.msizes_bytes,
        "space.nodes": campaign.nodes,
        "space.ppn": campaign.ppn,
        "space.programs": campaign.programs,
        "space.msizes_bytes_of": campaign.msizes_bytes_of,
        "machine.name": campaign.machine,
        "machine.fabric": campaign.fabric,
        "machine.cores_per_node": campaign.cores_per_node,
        "library.name": campaign.library,
        "library.release": campaign.release,
        "budget.total": campaign.total_s,
    }
    text = written(Campaign, values, _FIRST_LINE)
    campaign_file.parse(text, str(path))
    # what it names is run
    write_text(path, text, 0o644)
    return path


def remove(path: Path) -> None:
    """Remove a campaign that was written here and is no longer wanted."""
    with suppress(OSError, UnicodeDecodeError):
        if path.read_text(encoding="utf-8").startswith(_FIRST_LINE):
            path.unlink()


def path_for(folder: Path, context: Context) -> Path:
    """Return the campaign file of a library in `folder`."""
    return folder / f"{context.library}-{context.library_version}.toml"


def confirmed(
    bundle: Bundle, wishes: Backfill, programs: Programs, usage: Profile | None = None
) -> tuple[Bundle, dict[str, Any]]:
    """Return `bundle` as it decides by what is measured now, and what came of it, JSON-able.

    Measured is first what production refuted, then by node-hours what `usage` tells, or by requests
    what jobs asked for.
    """
    campaign = campaign_for(bundle, wishes.confirm_s)
    if usage is None:
        asked = asked_by_jobs(bundle, read_demand(wishes.demand))
    else:
        asked = asked_by_campaign(bundle, focused(campaign, usage))
    asked = unconfirmed(bundle, with_refuted(bundle, asked), undecided=True)
    if not any(one.msizes_bytes for one in asked):
        return bundle, {}
    backend = backend_for(bundle, wishes)
    insist_on_context(bundle, campaign, backend)
    found = proposals(bundle, backend, asked, programs)
    if not found:
        return bundle, {}
    assert wishes.measurements is not None
    report = run_campaign(confirming(campaign, found), backend, wishes.measurements)
    statuses = [judgement.status for judgement in report.judgements]
    facts = {status.value: statuses.count(status) for status in Status}
    return revised(bundle, report.judgements), {**facts, "wall_s": report.wall_s}


def backend_for(bundle: Bundle, wishes: Backfill) -> Backend:
    """Return what measures the bundle's library here."""
    return NativeBackend(installation.find(wishes.mpi, bundle.context.library))
