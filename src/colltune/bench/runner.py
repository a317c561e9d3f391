"""Runs a campaign within its wall time; whatever was measured is kept, however it ends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from colltune import provenance
from colltune.bench import schedule
from colltune.bench.backends.protocol import Backend, Ending, LaunchPlan, LaunchResult
from colltune.bench.campaign import Campaign
from colltune.bench.launch_folder import mark_done, new_launch, salvage_all
from colltune.bench.schedule import Cell, Step
from colltune.dataset import append
from colltune.domain import Collective, Instance, Measurement, RunStatus, Shape
from colltune.errors import BudgetError, OutputError

_LAUNCH_S = 1.0
_REFINING_LAUNCHES = 2
_MOST_RELAUNCHES = 8
_BLOCKS_PER_RANK = frozenset(
    {
        Collective.ALLGATHER,
        Collective.ALLGATHERV,
        Collective.ALLTOALL,
        Collective.ALLTOALLV,
        Collective.GATHER,
        Collective.SCATTER,
        Collective.REDUCE_SCATTER_BLOCK,
    }
)
Progress = Callable[[str, float], None]


@dataclass
class CampaignReport:
    """What a campaign brought; ``timed_s`` are the seconds inside timed loops of ``wall_s``."""

    files: list[Path] = field(default_factory=list)
    measurements: int = 0
    timed_s: float = 0.0
    wall_s: float = 0.0
    launches: int = 0
    salvaged: int = 0
    unmeasured_cells: int = 0
    problems: list[str] = field(default_factory=list)


def run_campaign(
    campaign: Campaign,
    backend: Backend,
    dataset: Path,
    *,
    seed: int | None = None,
    progress: Progress = lambda _what, _spent_s: None,
) -> CampaignReport:
    """Measure the campaign's cells into the folder `dataset` within ``campaign.total_s`` seconds.

    First adds what an earlier, killed run left behind. Every launch's measurements are stored
    before the next one starts; an interrupt stores those of the launch under way.

    Raises
    ------
    BudgetError
        If the time ended before anything was measured.
    OutputError, ProgramError
        If the dataset cannot be written, or the benchmark does not run at all.
    """
    started = time.monotonic()
    run = _Run(campaign, backend, dataset, random.Random(seed), progress, started)  # noqa: S311
    run.report.salvaged = salvage_all(dataset, backend)
    shapes = campaign.shapes
    for number, shape in enumerate(shapes):
        share_s = run.left_s() / (len(shapes) - number)
        _measure_shape(run, shape, share_s)
    run.report.wall_s = time.monotonic() - started
    if not run.report.measurements:
        raise BudgetError(
            f"nothing could be measured within {campaign.total_s:g} s"
            + "".join(f"; {problem}" for problem in run.report.problems[:1])
            + "; give more time or fewer configurations"
        )
    return run.report


@dataclass
class _Run:
    campaign: Campaign
    backend: Backend
    dataset: Path
    rng: random.Random
    progress: Progress
    started: float
    report: CampaignReport = field(default_factory=CampaignReport)

    def left_s(self) -> float:
        return self.campaign.total_s - (time.monotonic() - self.started)


def _measure_shape(run: _Run, shape: Shape, share_s: float) -> None:
    cells = cells_of(run.campaign, run.backend, shape)
    ends = time.monotonic() + share_s
    survey_s = schedule.SURVEY_SHARE * share_s
    steps = schedule.survey(len(cells), survey_s - _LAUNCH_S, run.campaign.cell_s, run.rng)
    # every cell's turn comes before any refining, though it take longer than planned
    measured = _launch_until_done(run, shape, cells, steps, share_s, "survey")
    run.report.unmeasured_cells += len({*cells} - {*measured})
    times_s = {cell: float(np.median(times)) for cell, times in measured.items() if times}
    for number in range(_REFINING_LAUNCHES):
        left_s = ends - time.monotonic()
        budget_s = left_s / (_REFINING_LAUNCHES - number)
        if budget_s < 2 * _LAUNCH_S:
            budget_s = left_s
        if budget_s < 1.5 * _LAUNCH_S or not times_s:
            return
        limits = (budget_s - _LAUNCH_S, run.campaign.max_reps)
        steps = schedule.refine(cells, times_s, *limits, run.rng)
        _launch_until_done(run, shape, cells, steps, budget_s, f"refine {number + 1}")


def cells_of(campaign: Campaign, backend: Backend, shape: Shape) -> tuple[Cell, ...]:
    """Return the feasible cells of the campaign on `shape`."""
    cells: list[Cell] = []
    for collective in campaign.collectives:
        blocks = shape.nprocs if collective in _BLOCKS_PER_RANK else 1
        sizes = [m for m in campaign.msizes_bytes if m * blocks <= campaign.max_buffer_bytes]
        if collective is Collective.BARRIER:
            sizes = [0]
        for configuration in backend.portfolio(campaign, collective).configurations:
            instances = (Instance(collective, shape, msize_bytes) for msize_bytes in sizes)
            cells += [Cell(configuration, instance) for instance in instances]
    return tuple(cell for cell in cells if backend.feasible(cell))


def _launch_until_done(
    run: _Run,
    shape: Shape,
    cells: tuple[Cell, ...],
    steps: Sequence[Step],
    budget_s: float,
    what: str,
) -> dict[Cell, tuple[float, ...]]:
    """Launch; after a crash or hang launch again without the configuration to blame."""
    ends = time.monotonic() + budget_s
    measured: dict[Cell, tuple[float, ...]] = {}
    for _ in range(_MOST_RELAUNCHES):
        left_s = min(ends - time.monotonic(), run.left_s())
        if left_s <= 0 or not steps:
            break
        result = _launch(run, LaunchPlan(shape, cells, tuple(steps), left_s), what)
        for m in result.measurements:
            cell = Cell(m.configuration, m.instance)
            measured[cell] = measured.get(cell, ()) + m.times_s
        if result.suspect is None:
            break
        blamed = result.suspect.configuration
        run.report.problems.append(
            f"{blamed.id} at {result.suspect.instance.msize_bytes} bytes: {result.ending.value}"
        )
        steps = [step for step in steps if cells[step.cell].configuration != blamed]
    return measured


def _launch(run: _Run, plan: LaunchPlan, what: str) -> LaunchResult:
    context = run.backend.context(run.campaign.machine)
    facts = provenance.collect({**run.backend.provenance(), "shape": str(plan.shape)})
    with new_launch(run.dataset, context, facts) as (launch, folder):
        try:
            result = run.backend.run(
                plan, launch, folder, lambda spent_s: run.progress(what, spent_s)
            )
        except (KeyboardInterrupt, OutputError):
            _store(run, run.backend.salvage(folder), facts, folder)
            raise
        _store(run, result.measurements, facts, folder)
    run.report.launches += 1
    run.report.timed_s += result.timed_s
    if result.ending is Ending.HANG and result.suspect is None:
        run.report.problems.append(result.message)
    return result


def _store(
    run: _Run, measurements: Sequence[Measurement], facts: Mapping[str, str], folder: Path
) -> None:
    file = None
    if measurements:
        context = run.backend.context(run.campaign.machine)
        file = append(run.dataset, context, measurements, facts)
        run.report.files.append(file)
        run.report.measurements += sum(m.status is RunStatus.OK for m in measurements)
    mark_done(folder, file)
