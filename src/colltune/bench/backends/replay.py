"""The replay backend: answers from a recorded dataset, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult
from colltune.bench.campaign import Campaign
from colltune.bench.schedule import Cell
from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Context, Measurement, Portfolio, RunStatus, Shape


class ReplayBackend:
    """Replays recorded measurements; time passes as if they were measured again.

    Parameters
    ----------
    dataset
        What was recorded. Of several launches of a cell the first is replayed.
    launch_s
        Seconds that each launch costs beside its timed loops.
    """

    measures_subshapes = True

    def __init__(self, dataset: PerformanceDataset, launch_s: float = 2.0) -> None:
        self._dataset = dataset
        self._launch_s = launch_s
        self._recorded: dict[Cell, Measurement] = {}
        for measurement in dataset.measurements():
            cell = Cell(measurement.configuration, measurement.instance)
            self._recorded.setdefault(cell, measurement)

    @property
    def launch_s(self) -> float:
        """Seconds that each launch costs beside its timed loops."""
        return self._launch_s

    def context(self, machine: str) -> Context:
        """Return the recorded context; `machine` is told by the record."""
        return self._dataset.context

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        """Return the recorded configurations, within the campaign's globs."""
        context = self._dataset.context
        configurations = self._dataset.configurations(collective)
        portfolio = Portfolio(context.library, context.library_version, collective, configurations)
        return portfolio.filtered(campaign.only, campaign.skip)

    def feasible(self, cell: Cell) -> bool:
        """Tell whether the cell was recorded."""
        return cell in self._recorded

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        """Return one group: a replayed launch measures everything."""
        return (tuple(cells),)

    def provenance(self) -> Mapping[str, str]:
        """Return that this was replayed."""
        return {"backend": "replay"}

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        """Replay the plan: as many repetitions as the recorded runtimes let fit."""
        reps: dict[int, int] = {}
        timed_s, ending = 0.0, Ending.PLAN
        for step in plan.steps:
            recorded = self._recorded[plan.cells[step.cell]]
            if recorded.status is not RunStatus.OK or recorded.summary is None:
                reps.setdefault(step.cell, 0)
                continue
            left_s = plan.budget_s - self._launch_s - timed_s
            if left_s <= 0:
                ending = Ending.BUDGET
                break
            fitting = int(min(step.max_seconds, left_s) / recorded.summary.time_s)
            done = min(step.max_reps, max(1, fitting))
            reps[step.cell] = reps.get(step.cell, 0) + done
            timed_s += done * recorded.summary.time_s
        progress(self._launch_s + timed_s)
        measured = tuple(
            self._again(plan.cells[index], launch, count) for index, count in sorted(reps.items())
        )
        return LaunchResult(measured, ending, timed_s, self._launch_s + timed_s)

    def answers(self, shape: Shape, within_s: float) -> bool:
        """Return True: a record does not go away."""
        return True

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        """Return nothing: a replay leaves nothing behind."""
        return ()

    def _again(self, cell: Cell, launch: str, count: int) -> Measurement:
        recorded = self._recorded[cell]
        if recorded.status is not RunStatus.OK or recorded.summary is None:
            return Measurement(cell.instance, cell.configuration, launch, recorded.status)
        source = recorded.times_s or (recorded.summary.time_s,)
        times = tuple(source[i % len(source)] for i in range(count))
        return Measurement(cell.instance, cell.configuration, launch, RunStatus.OK, times)
