"""A campaign gone through without running anything: what it would launch and cost."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from colltune.bench.backends.protocol import Backend, Ending, LaunchPlan, LaunchResult
from colltune.bench.campaign import Campaign
from colltune.bench.journal import Journal
from colltune.bench.launch_costs import LaunchCost, LaunchCosts
from colltune.bench.progress import Progress, check_globs
from colltune.bench.runner import CampaignRun
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.bench.strategies import Visited
from colltune.bench.strategies.second_launch import SECOND_LAUNCH
from colltune.domain import Measurement, Shape

_MOST_KEPT_TIMES = 20


@dataclass(frozen=True)
class Cost:
    cells: int
    expected_s: float
    worst_s: float


@dataclass(frozen=True)
class Rehearsal:
    cells: tuple[Cell, ...]
    launches: tuple[Visited, ...]
    left_out: tuple[Cell, ...]
    skipped: tuple[Cell, ...]
    every: Cost
    launch_s: float
    launches_for_all: int

    @property
    def wall_s(self) -> float:
        return math.fsum(visited.wall_s for visited in self.launches)

    @property
    def second_launches(self) -> tuple[Visited, ...]:
        """The launches that measure shapes once more, those that tell the launches' noise."""
        return tuple(v for v in self.launches if v.what == SECOND_LAUNCH)

    @property
    def node_hours(self) -> float:
        """Node-hours of the launches, each with the nodes that it occupies."""
        return node_hours(self.launches)


class PlannedCost(NamedTuple):
    """What launches cost."""

    launches: int | None
    """launches; null: any number"""
    wall_s: float
    """wall time"""
    node_hours: float
    """node-hours"""


@dataclass(frozen=True)
class CampaignPlan:
    """What a campaign would launch, and what that costs."""

    machine: str
    """machine"""
    library: str
    """MPI library"""
    backend: str
    """what measures"""
    strategy: str
    """schedule strategy"""
    runtimes: str
    """where the runtimes come from"""
    launch_s: float
    """what each launch takes beside its measurements"""
    profile_covered: float | None
    """share of the profile's time that is measured"""
    shapes: int
    """shapes"""
    largest_shape: Shape
    """the largest one"""
    repeated_shapes: tuple[Shape, ...]
    """shapes that are launched a second time"""
    cells: int
    """cells"""
    cells_left_out: int
    """cells without time"""
    cells_skipped: int
    """cells that are predicted to be too slow"""
    expected: PlannedCost
    """what all cells are expected to cost"""
    worst: PlannedCost
    """what all cells cost at worst"""
    within_budget: PlannedCost
    """what the budget buys"""
    second_launches: PlannedCost
    """what of these repeats shapes"""
    limit: PlannedCost
    """the budget"""


def node_hours(launches: Iterable[Visited]) -> float:
    """Return the node-hours of `launches`, each with the nodes that it occupies."""
    return math.fsum(v.wall_s * v.shape.nodes for v in launches) / 3600


def cost(campaign: Campaign, cells: tuple[Cell, ...], time_s: Callable[[Cell], float]) -> Cost:
    """Return what `cells` cost with ``max_reps`` repetitions or ``cell_s`` seconds each."""
    expected = [max(t, min(campaign.max_reps * t, campaign.cell_s)) for t in map(time_s, cells)]
    worst = [max(time_s(cell), campaign.cell_s) for cell in cells]
    return Cost(len(cells), math.fsum(expected), math.fsum(worst))


def rehearse(
    campaign: Campaign,
    backend: Backend,
    time_s: Callable[[Cell], float],
    *,
    costs: LaunchCosts,
    progress: Progress = lambda _told: None,
) -> Rehearsal:
    """Go through `campaign` as its strategy would, if every cell took what `time_s` says.

    `costs` are what launches cost beside their steps.
    """
    check_globs(campaign, backend)
    launch_s = costs.seconds(campaign.largest.nodes)
    run = _RehearsalRun(campaign, backend, time_s, costs)
    run.progress = progress
    run.measure(None)
    cells = run.measured.cells
    timed = run.measured.times_s
    skipped = frozenset(
        Cell(m.configuration, m.instance) for m in run.measured.take_skipped("rehearsal")
    )
    untimed = tuple(cell for index, cell in enumerate(cells) if index not in timed)
    groups = len(backend.together(cells))
    shapes = 1 if run.measured.granted else len({cell.instance.shape for cell in cells})
    return Rehearsal(
        cells=cells,
        launches=tuple(run.made),
        left_out=tuple(cell for cell in untimed if cell not in skipped),
        skipped=tuple(cell for cell in untimed if cell in skipped),
        every=cost(campaign, cells, time_s),
        launch_s=launch_s,
        launches_for_all=max(groups, shapes),
    )


class _RehearsalRun(CampaignRun):
    """Makes every launch in thought; its clock shows the time that they would have taken."""

    def __init__(
        self,
        campaign: Campaign,
        backend: Backend,
        time_s: Callable[[Cell], float],
        costs: LaunchCosts,
    ) -> None:
        self.made: list[Visited] = []
        self._now_s = 0.0
        self._time_s = time_s
        self._times_s: dict[int, float] = {}
        super().__init__(campaign, backend, None, Journal("rehearsal"), random.Random(0))  # noqa: S311
        self.costs = costs

    def spent_s(self) -> float:
        return self._now_s

    def run_plan(self, plan: LaunchPlan, what: str) -> LaunchResult:
        launch_s = self.costs.seconds(plan.shape.nodes)
        left_s = plan.budget_s - launch_s
        reps: dict[int, int] = {}
        for step in plan.steps:
            if left_s <= 0:
                break
            time_s = self._time_of(step.cell)
            done = _repetitions(step, time_s, left_s)
            reps[step.cell] = reps.get(step.cell, 0) + done
            left_s -= done * time_s
        wall_s = plan.budget_s - left_s
        self._now_s += wall_s
        self.made.append(Visited(what, plan.shape, wall_s))
        self.tell(plan, what)
        launch = f"rehearsal-{len(self.made)}"
        measurements = tuple(self._measurement(i, n, launch) for i, n in reps.items())
        self.costs.learn(LaunchCost(plan.shape.nodes, launch_s))
        self.measured.learn(measurements)
        return LaunchResult(measurements, Ending.PLAN, 0.0, wall_s)

    def _time_of(self, index: int) -> float:
        if index not in self._times_s:
            self._times_s[index] = self._time_s(self.measured.cells[index])
        return self._times_s[index]

    def _measurement(self, index: int, reps: int, launch: str) -> Measurement:
        cell = self.measured.cells[index]
        times = (self._time_of(index),) * min(reps, _MOST_KEPT_TIMES)
        return Measurement(cell.instance, cell.configuration, launch, times_s=times)


def _repetitions(step: ScheduleStep, time_s: float, left_s: float) -> int:
    return max(1, min(step.max_reps, int(min(step.max_seconds, left_s) / time_s)))


def planned(campaign: Campaign, rehearsal: Rehearsal, runtimes: str) -> CampaignPlan:
    """Return the plan that a rehearsal by `runtimes`, told in words, makes of a campaign."""
    largest, every, again = campaign.largest, rehearsal.every, rehearsal.second_launches

    def whole(seconds: float, launches: int | None) -> PlannedCost:
        return PlannedCost(launches, seconds, seconds * largest.nodes / 3600)

    n = rehearsal.launches_for_all
    return CampaignPlan(
        machine=campaign.machine,
        library=campaign.library,
        backend=campaign.backend,
        strategy=campaign.strategy,
        runtimes=runtimes,
        launch_s=rehearsal.launch_s,
        profile_covered=campaign.focus.covered if campaign.focus else None,
        shapes=len(campaign.shapes),
        largest_shape=largest,
        repeated_shapes=tuple(campaign.repeated_shapes),
        cells=every.cells,
        cells_left_out=len(rehearsal.left_out),
        cells_skipped=len(rehearsal.skipped),
        expected=whole(every.expected_s + n * rehearsal.launch_s, n),
        worst=whole(every.worst_s + n * rehearsal.launch_s, n),
        within_budget=PlannedCost(len(rehearsal.launches), rehearsal.wall_s, rehearsal.node_hours),
        second_launches=PlannedCost(
            len(again), math.fsum(launch.wall_s for launch in again), node_hours(again)
        ),
        limit=whole(campaign.budget_s, None),
    )


def by_shape(cells: tuple[Cell, ...]) -> dict[Shape, int]:
    return dict(Counter(cell.instance.shape for cell in cells))
