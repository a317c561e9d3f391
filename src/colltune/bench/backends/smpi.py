"""The SMPI backend: times in SimGrid's simulated world, the same whenever they are asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from colltune import process
from colltune.bench.backends import raw
from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult, Means
from colltune.bench.campaign import Campaign
from colltune.bench.schedule import Cell, grouped
from colltune.bench.simulated import Simulation, simgrid
from colltune.bench.simulated.simgrid import LIBRARY, SimGrid
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Measurement,
    Portfolio,
    RunStatus,
    Shape,
)
from colltune.errors import ProgramError
from colltune.mpi.libcolltune import is_libcolltune
from colltune.mpi.libcolltune.space import LIBCOLLTUNE

_LAUNCH_S = 0.3
_LEAST_S = 0.5
_MOST_BYTES = 2**31 - 1
_FORCE = "COLLTUNE_FORCE"
_OF_MESSAGES = (
    (Collective.BCAST, "hierarchical"),
    (Collective.ALLTOALLV, "eager_pairwise"),
)


class SmpiBackend:
    """Simulates SimGrid's algorithms on a platform; one repetition tells all."""

    measures_subshapes = False
    launch_s = _LAUNCH_S

    def __init__(self, simulation: Simulation, installed: SimGrid | None) -> None:
        self._simulation = simulation
        self._installed = installed
        self._algorithms: dict[Collective, tuple[str, ...]] = {}
        self._known: dict[Cell, tuple[float, ...]] = {}

    @classmethod
    def made_for(cls, campaign: Campaign, means: Means) -> Self:
        simulation = campaign.smpi or Simulation()
        simulation.hosts(max(campaign.nodes))
        return cls(simulation, None if means.imagined else SimGrid.find())

    def context(self, machine: str) -> Context:
        release = simgrid.TESTED if self._installed is None else self._installed.release
        return Context(machine, LIBRARY, release, self._simulation.name)

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        if collective not in self._algorithms:
            self._algorithms[collective] = self._ask(collective)
        default = Configuration.default(LIBRARY, collective)
        named = (Configuration(LIBRARY, collective, a) for a in self._algorithms[collective])
        release = self.context("").library_version
        ours = _ours(collective) if campaign.interposed else ()
        portfolio = Portfolio(LIBRARY, release, collective, (default, *named, *ours))
        return portfolio.filtered(campaign.only, campaign.skip)

    def _ask(self, collective: Collective) -> tuple[str, ...]:
        if collective not in simgrid.ALGORITHMS:
            return ()
        if self._installed is None:
            return simgrid.ALGORITHMS[collective]
        return self._installed.algorithms(collective)

    def feasible(self, cell: Cell) -> bool:
        instance = cell.instance
        sized = instance.msize_bytes > 0 or instance.collective is Collective.BARRIER
        total_bytes = instance.shape.nprocs * instance.msize_bytes
        simulated = instance.collective in simgrid.ALGORITHMS
        fits = simulated and sized and total_bytes <= _MOST_BYTES
        return fits and (not is_libcolltune(cell.configuration) or _as_itself(cell))

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        return grouped(cells, lambda cell: cell.instance.shape)

    def provenance(self) -> Mapping[str, str]:
        smpirun = "" if self._installed is None else str(self._installed.smpirun)
        return {
            "backend": "smpi",
            "smpirun": smpirun,
            "platform": self._simulation.description(),
            "simulation": repr(self._simulation),
            "repetition": "simulated time from a common start until the last process has left",
        }

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        """Start smpirun for each configuration that has a step, the smallest messages first."""
        if self._installed is None:
            raise ProgramError("this campaign can only be planned, not simulated")
        raw.save_cells(folder / "cells.json", plan.cells, launch)
        series = _Launch(self._installed, self._simulation, plan, folder, progress)
        ending = Ending.PLAN
        for number, indices in enumerate(self._unknown(plan)):
            if series.left_s() < _LEAST_S:
                ending = Ending.BUDGET
                break
            series.simulate(number, indices)
        else:
            ending = Ending.BUDGET if series.cut_short else Ending.PLAN
        found = series.found
        simulated = {plan.cells[index]: times_s for index, times_s in found.times_s.items()}
        for index in {step.cell for step in plan.steps}:
            if plan.cells[index] in self._known:
                found.times_s[index] = self._known[plan.cells[index]]
        self._known |= simulated
        return LaunchResult(
            raw.measurements(found, plan.cells, launch),
            ending,
            series.simulating_s,
            series.spent_s(),
            message=series.message,
        )

    def _unknown(self, plan: LaunchPlan) -> list[list[int]]:
        """Return the cells to be simulated: a list for each configuration, in the plan's order."""
        found: dict[Configuration, list[int]] = {}
        for index in dict.fromkeys(step.cell for step in plan.steps):
            cell = plan.cells[index]
            if cell not in self._known:
                found.setdefault(cell.configuration, []).append(index)
        by_size = lambda index: plan.cells[index].instance.msize_bytes  # noqa: E731
        return [sorted(indices, key=by_size) for indices in found.values()]

    def answers(self, shape: Shape, within_s: float) -> bool:
        return True

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        cells, launch = raw.load_cells(folder / "cells.json")
        found = raw.RawOutput()
        for file in sorted(folder.glob("raw-*.txt")):
            found.add(raw.read_raw(file))
        return raw.measurements(found, cells, launch)


@dataclass
class _Launch:
    """The simulations of one launch, one after the other, within its budget."""

    installed: SimGrid
    simulation: Simulation
    plan: LaunchPlan
    folder: Path
    progress: Callable[[float], None]
    started: float = field(default_factory=time.monotonic)
    found: raw.RawOutput = field(default_factory=raw.RawOutput)
    simulating_s: float = 0.0
    message: str = ""
    cut_short: bool = False

    def spent_s(self) -> float:
        return time.monotonic() - self.started

    def left_s(self) -> float:
        return self.plan.budget_s - self.spent_s()

    def simulate(self, number: int, indices: Sequence[int]) -> None:
        """Simulate cells of one configuration, by index; take note of times and problems."""
        limit_s = min(self.simulation.limit_s, self.left_s())
        file = self.folder / f"raw-{number}.txt"
        outcome = self._start(file, indices, limit_s)
        self.simulating_s += outcome.seconds
        output = raw.read_raw(file)
        self.found.add(output)
        if outcome.ok and output.ended:
            return
        if outcome.timed_out and limit_s < self.simulation.limit_s:
            self.cut_short = True
            return
        self._blame(outcome, output, indices)

    def _blame(
        self, outcome: process.Outcome, output: raw.RawOutput, indices: Sequence[int]
    ) -> None:
        """Say which cell crashed or hung; larger messages would take longer still."""
        configuration = self.plan.cells[indices[0]].configuration
        if not output.began and configuration.is_default:
            raise ProgramError(f"the simulation did not start\n{outcome.explain()}")
        done = self.found.times_s.keys() | self.found.problems.keys()
        left = [index for index in indices if index not in done]
        self.message = outcome.explain()
        status = RunStatus.TIMEOUT if outcome.timed_out else RunStatus.CRASH
        self.found.problems |= dict.fromkeys(left[:1], (status, ""))
        if outcome.timed_out:
            self.found.problems |= dict.fromkeys(left[1:], (RunStatus.SKIPPED, ""))

    def _start(self, file: Path, indices: Sequence[int], within_s: float) -> process.Outcome:
        first = self.plan.cells[indices[0]]
        configuration = first.configuration
        cells = [f"{index}:{self.plan.cells[index].instance.msize_bytes}" for index in indices]
        checked = str(self.simulation.checked_bytes)
        program = self.installed.program(own=is_libcolltune(configuration))
        options = simgrid.options(self.simulation, configuration)
        return self.installed.run(
            self.simulation,
            first.instance.shape,
            [*options, program, file.absolute(), configuration.collective.value, checked, *cells],
            timeout_s=within_s,
            env=_environment(configuration),
            watch=self._watch,
        )

    def _watch(self) -> bool:
        self.progress(self.spent_s())
        return True


def _ours(collective: Collective) -> tuple[Configuration, ...]:
    """Return what libcolltune has, without what waits for shared memory to change."""
    return tuple(
        c for c in LIBCOLLTUNE.offered(collective) if (collective, c.algorithm) in _OF_MESSAGES
    )


def _as_itself(cell: Cell) -> bool:
    configuration, shape = cell.configuration, cell.instance.shape
    plainest = LIBCOLLTUNE.effective(configuration, shape.nprocs)
    return plainest == configuration and not LIBCOLLTUNE.why_not_on(configuration, shape)


def _environment(configuration: Configuration) -> dict[str, str]:
    """Return the user's environment, without what would make libcolltune run something else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COLLTUNE_")}
    return kept | ({_FORCE: configuration.id} if is_libcolltune(configuration) else {})
