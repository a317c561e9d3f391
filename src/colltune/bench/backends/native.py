"""The native backend: one launch per shape, all configurations inside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from colltune import process
from colltune.bench import build
from colltune.bench.backends import raw
from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Launcher, Start, launcher_of
from colltune.bench.schedule import Cell
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Measurement,
    Portfolio,
    RunStatus,
    Shape,
)
from colltune.errors import OutputError, ProgramError
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation
from colltune.provenance import usable_cores

_START_S = 30.0
_SILENCE_S = 15.0
_AROUND_S = 1.0
_SLACK_S = 0.05
_LEAST_S = 0.2
_CANNOT_WRITE = "collbench: cannot write"
_BLAME = {Ending.CRASH: RunStatus.CRASH, Ending.HANG: RunStatus.TIMEOUT}


class NativeBackend:
    """Measures with colltune's own C program, compiled for the installed MPI on first use.

    Parameters
    ----------
    installation
        The MPI to measure.
    cache
        Folder for the compiled program; default: the user's cache folder.
    launcher
        What starts the program; default: the library's own.

    Attributes
    ----------
    around_s
        Seconds that a launch takes beside its plan's budget, as the last one did.
    """

    measures_subshapes = False

    def __init__(
        self,
        installation: Installation,
        cache: Path | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        self._mpi = installation
        self._library = LIBRARIES[installation.library]
        self._cache = cache
        self._launcher = launcher or launcher_of(installation)
        self.around_s = _AROUND_S

    @property
    def launch_s(self) -> float:
        """Seconds that a launch takes beside its plan's budget, as the last one did."""
        return self.around_s

    def context(self, machine: str) -> Context:
        """Return this machine's name with library and release."""
        return Context(machine, self._mpi.library, self._mpi.release)

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        """Return what the catalogue offers, within the campaign's parameter values and globs."""
        chosen = {"segsizes_bytes": campaign.segsizes_bytes, "fanouts": campaign.fanouts}
        values = {name: value for name, value in chosen.items() if value is not None}
        portfolio = self._library.portfolio(self._mpi.release, collective, **values)
        return portfolio.filtered(campaign.only, campaign.skip)

    def feasible(self, cell: Cell) -> bool:
        """Tell whether the configuration runs there, and as no smaller configuration would."""
        configuration, instance = cell.configuration, cell.instance
        where = (instance.shape.nprocs, instance.msize_bytes)
        release = self._mpi.release
        return configuration.is_default or (
            self._library.settable_at_runtime(release, configuration)
            and self._library.feasible(release, configuration, *where)
            and self._library.effective(release, configuration, *where) == configuration
        )

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        """Return one group: what cannot be switched within a launch is not feasible here."""
        return (tuple(cells),)

    def provenance(self) -> Mapping[str, str]:
        """Return the MPI's paths and how processes were synchronised and timed."""
        return {
            "backend": "native",
            "mpirun": str(self._mpi.mpirun),
            "synchronisation": "dissemination barrier before each repetition",
            "clock": "CLOCK_MONOTONIC, each rank's own start and end, maximum over ranks",
        }

    def program(self) -> Path:
        """Return the compiled benchmark, compiling it if need be."""
        return build.native_benchmark(self._mpi.mpicc, self._mpi.compile_line, self._cache)

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        """Start one mpirun that executes the plan; see `Backend.run`."""
        started = time.monotonic()
        wanted = self._library.base_environment(self._mpi.release)
        settings = [self._settings(cell.configuration) for cell in plan.cells]
        within = replace(plan, budget_s=max(_LEAST_S, plan.budget_s - self.around_s))
        outcome = self.launch(within, settings, launch, folder, wanted, progress)
        output = raw.read_raw(folder / "raw.txt")
        ending = _ending(outcome, output)
        blamed = {}
        if ending in _BLAME and output.last_step is not None:
            blamed[output.last_step] = _BLAME[ending]
        timed_s = sum(map(sum, output.times_s.values()))
        if output.ended:
            timed_s = output.timed_s
            self.around_s = outcome.seconds - output.wall_s + _SLACK_S
        return LaunchResult(
            measurements=raw.measurements(output, plan.cells, launch, blamed),
            ending=ending,
            timed_s=timed_s,
            wall_s=time.monotonic() - started,
            suspect=plan.cells[next(iter(blamed))] if blamed else None,
            message="" if outcome.ok else outcome.explain(),
        )

    def _settings(self, configuration: Configuration) -> dict[str, int | str]:
        release = self._mpi.release
        if not self._library.settable_at_runtime(release, configuration):
            return {}
        return self._library.force(release, configuration)

    def launch(
        self,
        plan: LaunchPlan,
        settings: Sequence[Mapping[str, int | str]],
        launch: str,
        folder: Path,
        wanted: Mapping[str, str],
        progress: Callable[[float], None] = lambda _: None,
        options: Sequence[str] = (),
    ) -> process.Outcome:
        """Start the benchmark once with `settings` per cell and the environment `wanted`.

        `options` are passed to the launcher. Raw output goes into ``folder / "raw.txt"``.
        """
        program = self.program()
        raw.save_cells(folder / "cells.json", plan.cells, launch)
        (folder / "plan.txt").write_text(raw.plan_text(plan, settings))
        raw_path = folder / "raw.txt"
        user = os.environ | self._mpi.launch_environment()
        environment = self._launcher.environment(user, wanted, plan.shape)
        exported = wanted if plan.shape.nodes > 1 else ()
        command = self._launcher.command(
            Start(
                plan.shape,
                (program, folder / "plan.txt", raw_path),
                cores=usable_cores(),
                exported={name: environment[name] for name in exported},
                options=tuple(options),
            )
        )
        return process.run(
            command,
            timeout_s=plan.budget_s + _START_S,
            env=environment,
            watch=_Watcher(raw_path, plan, progress),
        )

    def answers(self, shape: Shape, within_s: float) -> bool:
        """Start a program that does nothing on all processes of `shape`."""
        user = os.environ | self._mpi.launch_environment()
        environment = self._launcher.environment(user, {}, shape)
        command = self._launcher.command(Start(shape, ("true",), cores=usable_cores()))
        return process.run(command, timeout_s=within_s, env=environment).ok

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        """Return what a killed launch left in `folder`."""
        cells, launch = raw.load_cells(folder / "cells.json")
        return raw.measurements(raw.read_raw(folder / "raw.txt"), cells, launch)


class _Watcher:
    """Reports progress, and gives a launch up when it has been silent for too long."""

    def __init__(self, raw_path: Path, plan: LaunchPlan, progress: Callable[[float], None]) -> None:
        self._raw_path = raw_path
        self._progress = progress
        self._started = time.monotonic()
        longest_step_s = max((step.max_seconds for step in plan.steps), default=0.0)
        self._patience_s = _SILENCE_S + 3 * longest_step_s
        self._deadline = self._started + plan.budget_s + _grace_s(plan.budget_s)
        self._size, self._grown = -1, self._started

    def __call__(self) -> bool:
        now = time.monotonic()
        self._progress(now - self._started)
        try:
            size = self._raw_path.stat().st_size
        except OSError:
            size = -1
        if size != self._size:
            self._size, self._grown = size, now
        return now - self._grown < self._patience_s and now < self._deadline


def _grace_s(budget_s: float) -> float:
    """Return how long past its budget a launch may take to end itself before it is killed."""
    return min(5.0, 0.5 + 0.1 * budget_s)


def _ending(outcome: process.Outcome, output: raw.RawOutput) -> Ending:
    if output.ended:
        return Ending(output.ended)
    if outcome.timed_out:
        return Ending.HANG
    if _CANNOT_WRITE in outcome.stderr:
        raise OutputError(
            "the benchmark cannot write its raw output; is the disk full?"
            f" What was measured before is kept\n{outcome.explain()}"
        )
    if output.last_step is None:
        raise ProgramError(f"the benchmark did not start\n{outcome.explain()}")
    return Ending.CRASH
