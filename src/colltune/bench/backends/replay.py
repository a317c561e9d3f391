"""The replay backend: answers from a recorded dataset, without running anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult, Means
from colltune.bench.campaign import Campaign
from colltune.bench.schedule import Cell
from colltune.dataset import PerformanceDataset, read
from colltune.domain import (
    Collective,
    Context,
    LaunchStatistics,
    Measurement,
    Portfolio,
    RunStatus,
    Shape,
)
from colltune.errors import say

_P90_SIGMAS = 1.2815515655446004
_FEWEST_FOR_SPREAD = 4


@dataclass(frozen=True)
class ReplayNoise:
    """How much replayed repetitions scatter, as standard deviations of log-normal factors."""

    repetition: float = 0.2
    launch: float = 0.01
    seed: int = 0

    def times_s(
        self, recorded: LaunchStatistics, shift: float, count: int, rng: np.random.Generator
    ) -> list[float]:
        """Return `count` repetitions in seconds around the recorded median times ``exp(shift)``."""
        factors = np.exp(rng.normal(shift, self._sigma(recorded), count))
        return [float(t) for t in recorded.time_s * factors]

    def _sigma(self, recorded: LaunchStatistics) -> float:
        p90_s = recorded.time_p90_s
        if recorded.n_reps < _FEWEST_FOR_SPREAD or not math.isfinite(p90_s):
            return self.repetition
        return max(0.0, math.log(p90_s / recorded.time_s)) / _P90_SIGMAS


class ReplayBackend:
    """Replays recorded measurements; time passes as if they were measured again."""

    measures_subshapes = True

    def __init__(
        self, dataset: PerformanceDataset, launch_s: float = 2.0, noise: ReplayNoise | None = None
    ) -> None:
        self._dataset = dataset
        self.launch_s = launch_s
        self._noise = noise
        self._recorded: dict[Cell, Measurement] = {}
        for measurement in dataset.measurements():
            cell = Cell(measurement.configuration, measurement.instance)
            self._recorded.setdefault(cell, measurement)

    @classmethod
    def made_for(cls, campaign: Campaign, means: Means) -> Self:
        if means.recorded is None:
            raise say("nothing-to-replay")
        return cls(read([means.recorded]))

    def context(self, machine: str) -> Context:
        return self._dataset.context

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        context = self._dataset.context
        configurations = self._dataset.configurations(collective)
        portfolio = Portfolio(context.library, context.library_version, collective, configurations)
        return portfolio.filtered(campaign.only, campaign.skip)

    def feasible(self, cell: Cell) -> bool:
        return cell in self._recorded

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        return (tuple(cells),)

    def provenance(self) -> Mapping[str, str]:
        return {"backend": "replay"}

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        again = self._repeated(launch)
        times: dict[int, list[float]] = {}
        timed_s, ending = 0.0, Ending.PLAN
        for step in plan.steps:
            recorded = self._recorded[plan.cells[step.cell]]
            left_s = plan.budget_s - self.launch_s - timed_s
            if left_s <= 0:
                ending = Ending.BUDGET
                break
            known = times.setdefault(step.cell, [])
            if recorded.status is not RunStatus.OK or recorded.summary is None:
                continue
            fitting = int(min(step.max_seconds, left_s) / recorded.summary.time_s)
            count = min(step.max_reps, max(1, fitting))
            known += again(step.cell, recorded, len(known), count)
            timed_s += sum(known[-count:])
        progress(self.launch_s + timed_s)
        measured = tuple(
            self._measurement(plan.cells[index], launch, times[index]) for index in sorted(times)
        )
        return LaunchResult(measured, ending, timed_s, self.launch_s + timed_s)

    def _repeated(self, launch: str) -> Callable[[int, Measurement, int, int], list[float]]:
        """Return what gives repetitions of a cell, by index, from which one on and how many."""
        noise, shifts = self._noise, dict[int, float]()
        rng = np.random.default_rng([noise.seed if noise else 0, *launch.encode()])

        def times_s(cell: int, recorded: Measurement, start: int, count: int) -> list[float]:
            assert recorded.summary is not None
            if noise is None:
                source = recorded.times_s or (recorded.summary.time_s,)
                return [source[(start + i) % len(source)] for i in range(count)]
            if cell not in shifts:
                shifts[cell] = float(rng.normal(0.0, noise.launch))
            return noise.times_s(recorded.summary, shifts[cell], count, rng)

        return times_s

    def answers(self, shape: Shape, within_s: float) -> bool:
        return True

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        return ()

    def _measurement(self, cell: Cell, launch: str, times_s: list[float]) -> Measurement:
        status = RunStatus.OK if times_s else self._recorded[cell].status
        return Measurement(cell.instance, cell.configuration, launch, status, tuple(times_s))
