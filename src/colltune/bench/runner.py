"""Runs a campaign within its wall time; whatever was measured is kept, however it ends."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from colltune import leftovers, provenance
from colltune.bench import journal
from colltune.bench.backends.protocol import (
    BLAME,
    MOST_PATIENCE_S,
    Backend,
    FollowsVisits,
    LaunchPlan,
    LaunchResult,
    barriers_before,
    context_of,
)
from colltune.bench.campaign import Campaign
from colltune.bench.journal import Journal, launch_costs, mark_done, new_launch, salvage_all
from colltune.bench.launch_costs import LaunchCost, LaunchCosts
from colltune.bench.progress import CampaignProgress, MeasuredCells, Progress, cells_of, check_globs
from colltune.bench.schedule import Cell, ScheduleStep, by_algorithm, too_slow
from colltune.bench.strategies import STRATEGIES, CampaignState, Strategy, Visit, Visited
from colltune.bench.strategies.protocol import Launches
from colltune.bench.strategies.second_launch import with_second_launch
from colltune.bench.weights import weighed
from colltune.dataset import append
from colltune.domain import Context, Measurement, RunStatus, Shape
from colltune.errors import DataError, OutputError, ProgramError, say
from colltune.interrupts import held_back
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.selector.confirming import ContestState

_PROBE_S = 30.0
_PROBE_SHARE = 0.1
_TIMES_EACH, _CELL_S = 2, 0.005
"""How often each launch is made at least, and how long a cell is measured in all of them."""
_LEAST_PATIENCE_S, _HANG_SHARE, _STARTS = 3.0, 0.06, 3
_FIRST_START_SHARE, _LONGEST_START_S = 0.5, 300.0
_STORE_S = 0.15
_TELL_S = 0.25
_GONE = "the nodes of this launch no longer answer"


@dataclass
class CampaignReport:
    """What a campaign brought."""

    dataset: Path | None = None
    """folder of the dataset; null: nothing was stored"""
    files: list[Path] = field(default_factory=list)
    """files that the dataset gained, one per launch that brought something"""
    measurements: int = 0
    """cells that were timed"""
    timed_s: float = 0.0
    """time in timed loops"""
    wall_s: float = 0.0
    """wall time"""
    earlier_s: float = 0.0
    """what a killed run had spent of the same budget"""
    launches: int = 0
    """launches"""
    salvaged: int = 0
    """cells found in folders of killed launches"""
    abandoned: int = 0
    """cells that were proved to be too slow"""
    skipped: int = 0
    """cells that were predicted to be too slow"""
    unmeasured_cells: int = 0
    """cells without time"""
    complete_before: bool = False
    """whether the same batch job had ended the campaign before"""
    finished: bool = True
    """whether nothing is left to do"""
    problems: list[str] = field(default_factory=list)
    """what went wrong"""
    judgements: list[ContestState] = field(default_factory=list)
    """what became of decisions that were to be confirmed"""


def run_campaign(
    campaign: Campaign,
    backend: Backend,
    dataset: Path,
    *,
    seed: int | None = None,
    resume: bool = True,
    within_s: float | None = None,
    progress: Progress = lambda _told: None,
) -> CampaignReport:
    """Measure the campaign's cells into the folder `dataset` within ``campaign.budget_s`` seconds.

    A killed run of the same campaign goes on where it was, within what is left of its budget,
    unless `resume` is false. Every launch's measurements are stored before the next one starts; an
    interrupt stores those of the launch under way. `within_s` bounds this process alone: what it
    leaves is for the next one.

    `seed` makes the order of cells repeatable; `progress` is called whenever there is
    something new to tell.

    Raises
    ------
    CampaignError
        If a glob of the campaign matches no configuration.
    BudgetError
        If the time ended before anything was measured.
    OutputError, ProgramError
        If the dataset cannot be written, or the benchmark does not run at all.
    """
    started = time.monotonic()
    check_globs(campaign, backend)
    with journal.opened(dataset, campaign, resume=resume) as log:
        run = CampaignRun(campaign, backend, dataset, log, random.Random(seed), progress)  # noqa: S311
        run.started = started
        run.report.salvaged = salvage_all(dataset, backend)
        if left := leftovers.end_orphans():
            listed = ", ".join(map(str, left))
            run.report.problems.append(
                f"{counted(len(left), 'process', 'es')} of an earlier run, which was killed, had "
                f"gone on and were ended: {listed}"
            )
        run.report.earlier_s = log.spent_s
        run.report.complete_before = log.done
        if not log.done:
            run.measured.recall(dataset, log.launches)
            run.costs.learn(*launch_costs(dataset, campaign))
            run.measure(within_s)
        run.report.wall_s = time.monotonic() - started
        return run.concluded()


class CampaignRun:
    """One process's part of a campaign, stored in the folder `dataset`, if at all.

    `log` tells of earlier processes of the same campaign; `rng` decides on the order of cells;
    `progress` is called whenever there is something new to tell.
    """

    def __init__(
        self,
        campaign: Campaign,
        backend: Backend,
        dataset: Path | None,
        log: Journal,
        rng: random.Random,
        progress: Progress = lambda _told: None,
    ) -> None:
        self.campaign, self.backend, self.dataset = campaign, backend, dataset
        self.log, self.rng, self.progress = log, rng, progress
        self.started = time.monotonic()
        self.ends_s = campaign.budget_s
        self._told_s = 0.0
        self.first_barriers = secrets.randbelow(2)
        self.report = CampaignReport(dataset)
        self.failure: ProgramError | None = None
        self.failures: Counter[Shape] = Counter()
        self.costs = LaunchCosts(backend.launch_s, campaign.launch_s)
        self.unstarted = ""
        shapes = campaign.shapes
        subshapes = campaign.subshapes and backend.measures_subshapes and len(shapes) > 1
        cells = cells_of(campaign, backend, *shapes)
        self.measured = MeasuredCells(
            cells,
            granted=campaign.largest if subshapes else None,
            history=list(log.visits),
            weights=weighed([cell.instance for cell in cells], campaign.focus, campaign.weights),
            reopens=bool(campaign.contests),
        )
        members = self.measured.members.items()
        self.n_launches = {s: len(backend.together([cells[i] for i in of])) for s, of in members}
        if subshapes:
            self.n_launches = {campaign.largest: len(backend.together(cells))}

    @property
    def _patience_s(self) -> float:
        """Seconds that one hang may cost, a small share of the budget."""
        share_s = _HANG_SHARE * self.campaign.budget_s
        return min(MOST_PATIENCE_S, max(_LEAST_PATIENCE_S, share_s))

    def spent_s(self) -> float:
        """Return the seconds that the campaign took so far, killed processes included."""
        return self.log.spent_s + time.monotonic() - self.started

    def measure(self, within_s: float | None) -> None:
        """Launch what the strategy wants, for at most `within_s` seconds in this process."""
        campaign = self.campaign
        strategy: Strategy = with_second_launch(STRATEGIES[campaign.strategy])
        if campaign.contests:
            # the selector and the models are needed for contests alone
            from colltune.bench.strategies.confirm import confirm  # noqa: PLC0415

            strategy = confirm
        budget_ends_s = campaign.budget_s - _STORE_S
        own_end_s = math.inf if within_s is None else self.spent_s() + within_s
        self.ends_s = min(budget_ends_s, own_end_s)
        while (left_s := self.ends_s - self.spent_s()) > 0:
            visit = strategy(self._state(left_s), self.rng)
            if visit is None:
                break
            self._visit(visit, min(self.ends_s, self.spent_s() + visit.budget_s))
        else:
            self.report.finished = self.spent_s() >= budget_ends_s
        if self.report.finished:
            self.log.finish(self.spent_s())

    def _state(self, left_s: float) -> CampaignState:
        limits = (self.campaign.max_reps, self.campaign.cell_s)
        wanted = (self.campaign.contests, self.campaign.repeated_shapes)
        cost_s = {nodes: self.costs.seconds(nodes) for nodes in {s.nodes for s in self.n_launches}}
        visits = {s: Launches(n, cost_s[s.nodes]) for s, n in self.n_launches.items()}
        launch_s = min((launches.seconds for launches in visits.values()), default=0.0)
        return self.measured.state(left_s, launch_s, *limits, *wanted, visits)

    def _visit(self, visit: Visit, ends_s: float) -> None:
        """Make the launches that a visit takes: one, where one can hold all its cells."""
        began_s = self.spent_s()
        nodes = visit.shape.nodes
        steps_of = _steps_by_group(self.backend, self.measured.cells, visit.steps)
        if not self.costs.known(nodes):
            # what it costs decides on all others
            steps_of = steps_of[:1]
        each_s = [sum(step.max_seconds for step in steps) for steps in steps_of]
        for number, wanted in enumerate(steps_of):
            launch_s = self.costs.seconds(nodes)
            needed_s = each_s[number:]
            total_s = launch_s * len(needed_s) + sum(needed_s)
            left_s = ends_s - self.spent_s()
            # where there is not time for all, some have enough rather than all too little
            budget_s = max(left_s * (launch_s + needed_s[0]) / total_s, launch_s + needed_s[0])
            budget_s = min(budget_s, left_s)
            if not self._worth_a_launch(wanted, budget_s - launch_s, nodes):
                break
            steps = self._without_hopeless(wanted, budget_s - launch_s)
            if steps and not self._launch(replace(visit, steps=tuple(steps)), budget_s):
                # to be asked for again, as long as the shape is not given up
                return
        visited = Visited(visit.what, visit.shape, self.spent_s() - began_s)
        self.measured.history.append(visited)

    def _worth_a_launch(
        self, steps: Sequence[ScheduleStep], available_s: float, nodes: int
    ) -> bool:
        """Tell whether a launch with so many seconds for `steps` can visit each of their cells."""
        if not self.costs.known(nodes):
            return self.ends_s - self.spent_s() > self.costs.longest_cut_s
        once = {step.cell: step.max_seconds for step in steps}
        return available_s >= math.fsum(once.values()) or not self.measured.times_s

    def _start_s(self, launch_s: float) -> float:
        """Return how long to wait for a launch's first job, if it is thought to cost `launch_s`."""
        first_s = _FIRST_START_SHARE * self.campaign.budget_s
        return max(MOST_PATIENCE_S, min(_LONGEST_START_S, first_s), _STARTS * launch_s)

    def _without_hopeless(
        self, steps: Sequence[ScheduleStep], available_s: float
    ) -> list[ScheduleStep]:
        """Leave out closed cells, and those that are predicted not to fit into the time."""
        steps = [step for step in steps if step.cell not in self.measured.closed]
        fresh = [step for step in steps if step.cell not in self.measured.times_s]
        if not fresh:
            return steps
        hopeless = too_slow(self.measured.cells, fresh, self.measured.forecast, available_s)
        self.measured.skip(hopeless)
        return [step for step in steps if step.cell not in hopeless]

    def _launch(self, visit: Visit, budget_s: float) -> bool:
        """Make one launch, store what it brought, and take note of what it says of the cells.

        Returns whether it was made at all, and its nodes are still there.
        """
        made = sum(visited.shape == visit.shape for visited in self.measured.history)
        plan = LaunchPlan(
            visit.shape,
            self.measured.cells,
            visit.steps,
            budget_s,
            self.campaign.synchronisation[0],
            self.campaign.side_by_side and not self.measured.apart,
            self._patience_s,
            launch_s := self.costs.seconds(visit.shape.nodes),
            start_s := self._start_s(launch_s),
            min(budget_s + start_s, self.ends_s - self.spent_s()),
            barriers_before(self.backend, visit.shape, self.first_barriers + made),
        )
        try:
            result = self.run_plan(plan, visit.what)
        except ProgramError as error:
            self.failure = self.failure or error
            return self._failed(visit.shape, str(error))
        self.report.launches += 1
        self.report.timed_s += result.timed_s
        if result.note and result.note not in self.report.problems:
            self.report.problems.append(result.note)
            self.tell(plan, visit.what, note=result.note)
        if result.cut:
            self._told_unstarted(visit.shape, result)
        if (cell := result.suspect) is not None:
            self.report.problems.append(
                f"{cell.configuration.id} on {cell.instance.shape} at"
                f" {cell.instance.msize_bytes} bytes: {result.ending.value}"
            )
        elif result.ending in BLAME and result.in_flight:
            self.measured.apart = True
            self.report.problems.append(f"measuring one after the other now: {result.message}")
        elif result.ending in BLAME:
            return self._failed(visit.shape, result.message or f"it ended by {result.ending}")
        return True

    def _told_unstarted(self, shape: Shape, result: LaunchResult) -> None:
        if not self.unstarted:
            self.report.problems.append(
                f"a launch on {shape} was stopped after {result.wall_s:.1f} s, before its first job"
            )
        self.unstarted = result.message

    def _failed(self, shape: Shape, why: str) -> bool:
        """Take note of a launch that brought nothing; the second one is a shape's last."""
        self.failures[shape] += 1
        self.report.problems.append(f"a launch on {shape} failed: {why}")
        if why == _GONE or self.failures[shape] > 1:
            self.report.problems.append(f"no more launches on {shape}")
            self.measured.give_up(shape)
        return False

    def run_plan(self, plan: LaunchPlan, what: str) -> LaunchResult:
        """Make one launch of the phase `what` and store what it brought, also when interrupted."""
        assert self.dataset is not None
        context = self._context()
        facts = provenance.collect(
            {**self.backend.provenance(), "shape": str(plan.shape), "run": self.log.name}
            | {"phase": what, "campaign": self.campaign.identity}
        )
        with new_launch(self.dataset, context, facts) as (launch, folder):
            self.log.begin(launch, len(self.measured.history), what, plan.shape, self.spent_s())
            stored = False
            try:
                self.tell(plan, what)
                result = self.backend.run(plan, launch, folder, lambda _s: self._beat(plan, what))
                result = self._blamed(plan.shape, result)
                with held_back():
                    self._store(result.measurements, {**facts, **result.facts}, folder)
                    stored = True
            except (KeyboardInterrupt, OutputError):
                if not stored:
                    # it may have ended before there was anything, which is not what to tell
                    with held_back(), suppress(DataError):
                        self._store(self.backend.salvage(folder), facts, folder)
                raise
            cost = self._cost_of(plan, result)
            self.log.end(launch, self.spent_s(), cost)
        self.costs.learn(cost or LaunchCost(plan.shape.nodes, self.backend.launch_s))
        self.measured.learn(result.measurements)
        return result

    @staticmethod
    def _cost_of(plan: LaunchPlan, result: LaunchResult) -> LaunchCost | None:
        if result.launch_s is None:
            return None
        return LaunchCost(plan.shape.nodes, result.launch_s, result.cut)

    def _context(self) -> Context:
        return context_of(self.campaign, self.backend)

    def _beat(self, plan: LaunchPlan, what: str) -> None:
        spent_s = self.spent_s()
        self.log.beat(spent_s)
        if spent_s - self._told_s >= _TELL_S:
            begun = self.backend.begun if isinstance(self.backend, FollowsVisits) else ()
            self.tell(plan, what, begun)

    def tell(self, plan: LaunchPlan, what: str, begun: Sequence[int] = (), note: str = "") -> None:
        """Tell how far a launch of the phase `what` is that has visited the cells `begun`.

        `note` is a sentence that cannot wait for the end.
        """
        self._told_s = self.spent_s()
        n_cells = len(self.measured.cells)
        self.progress(
            CampaignProgress(
                what=what,
                shape=plan.shape,
                launch=self.report.launches + 1,
                now=plan.cells[begun[-1]] if begun else None,
                measured=n_cells - self.measured.untouched(set(begun)),
                cells=n_cells,
                spent_s=self._told_s,
                budget_s=self.campaign.budget_s,
                ends_s=self.ends_s,
                note=note,
            )
        )

    def _blamed(self, shape: Shape, result: LaunchResult) -> LaunchResult:
        """Take the blame from a cell whose nodes turn out to be gone."""
        if result.suspect is None or self.backend.answers(shape, self._probe_s(shape)):
            return result
        kept = tuple(m for m in result.measurements if m.status.is_timed)
        return replace(result, measurements=kept, suspect=None, in_flight=(), message=_GONE)

    def _probe_s(self, shape: Shape) -> float:
        """Seconds for a program that does nothing to start and to end."""
        share_s = _PROBE_SHARE * self.campaign.budget_s
        launch_s = self.costs.seconds(shape.nodes)
        return min(_PROBE_S, max(_LEAST_PATIENCE_S, share_s, _STARTS * launch_s))

    def _store(
        self, measurements: Sequence[Measurement], facts: Mapping[str, str], folder: Path
    ) -> None:
        measurements = (*measurements, *self.measured.take_skipped(folder.name))
        assert self.dataset is not None
        file = None
        if measurements:
            file = append(self.dataset, self._context(), measurements, facts)
            self.report.files.append(file)
        mark_done(folder, file)
        statuses = [m.status for m in measurements]
        self.report.measurements += sum(status.is_timed for status in statuses)
        self.report.abandoned += statuses.count(RunStatus.ABANDONED)
        self.report.skipped += statuses.count(RunStatus.SKIPPED)

    def concluded(self) -> CampaignReport:
        """Return the report, or raise what kept the campaign from measuring anything."""
        report = self.report
        report.unmeasured_cells = self.measured.untouched()
        if self.campaign.contests:
            from colltune.bench.strategies.confirm import judged  # noqa: PLC0415

            report.judgements = judged(self._state(0.0))
        brought = report.measurements or report.complete_before or self.measured.times_s
        if brought or not report.finished:
            return report
        if self.failure is not None:
            raise self.failure
        launches = max(1, sum(self.n_launches.values()))
        launch_s = max((self.costs.seconds(s.nodes) for s in self.n_launches), default=0.0)
        enough_s = launches * _TIMES_EACH * launch_s + _CELL_S * len(self.measured.cells)
        enough_s = max(enough_s, _TIMES_EACH * self.campaign.budget_s)
        if self.unstarted and not self.costs.reached:
            why, told = report.problems[0], self.unstarted
            raise say("launch-not-begun", why=why, enough_s=enough_s, told=told)
        raise say(
            "nothing-measured",
            budget_s=self.campaign.budget_s,
            why="".join(f"; {problem}" for problem in report.problems[:1]),
            launches=counted(launches, "launch", "es"),
            launch_s=launch_s,
            cells=counted(len(self.measured.cells), "cell"),
            enough_s=enough_s,
        )


def _steps_by_group(
    backend: Backend, cells: Sequence[Cell], steps: Sequence[ScheduleStep]
) -> list[list[ScheduleStep]]:
    wanted = [cells[index] for index in dict.fromkeys(step.cell for step in steps)]
    groups = backend.together(wanted)
    if len(groups) < 2:
        return [list(steps)]
    group_of = {cell: number for number, group in enumerate(groups) for cell in group}
    found: list[list[ScheduleStep]] = [[] for _ in groups]
    for step in steps:
        found[group_of[cells[step.cell]]].append(step)
    order = by_algorithm([group[0] for group in groups])
    return [found[number] for number in order if found[number]]
