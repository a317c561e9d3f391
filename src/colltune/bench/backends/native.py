"""The native backend: one launch for many shapes, all configurations inside it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from colltune import process
from colltune.bench import build
from colltune.bench.backends import raw
from colltune.bench.backends.installed import InstalledMpi, runs_as_itself
from colltune.bench.backends.protocol import BLAME, Ending, LaunchPlan, LaunchResult, Means
from colltune.bench.backends.raw import LaunchWatcher, Stop
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Launcher
from colltune.bench.schedule import Cell, grouped
from colltune.dataset.noise.measured import enough
from colltune.domain import (
    Collective,
    Configuration,
    Measurement,
    Portfolio,
)
from colltune.errors import say
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import Installation, misplaced
from colltune.mpi.libcolltune import PRELOAD, is_libcolltune
from colltune.mpi.libcolltune.library import with_libcolltune

_START_S = 30.0
_AROUND_S = 1.0
_SLACK_S = 0.05
_LEAST_S = 0.2
_MOST_BYTES = 2**31 - 1
_COMPLAINT = "collbench: "
_CANNOT_WRITE = f"{_COMPLAINT}cannot write"
_PRELOAD_SCRIPT = f'{PRELOAD}="${{{PRELOAD}:+${PRELOAD}:}}$0" exec "$@"'


class NativeBackend(InstalledMpi):
    """Measures with colltune's own C program, compiled for the installed MPI on first use."""

    measures_subshapes = True

    def __init__(
        self,
        installation: Installation,
        cache: Path | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        super().__init__(installation, launcher)
        self._library = with_libcolltune(LIBRARIES[installation.library])
        self._release = self._library.at(installation.release)
        self._free: set[Configuration] = set()
        self._cache = cache
        self.around_s = _AROUND_S
        self._watcher: LaunchWatcher | None = None
        self._visited: Sequence[int] = ()

    @classmethod
    def made_for(cls, campaign: Campaign, means: Means) -> Self:
        installation = means.installation()
        return cls(installation, launcher=means.launcher(installation))

    @property
    def launch_s(self) -> float:
        return self.around_s

    def insist_on_freedom(self) -> None:
        """Refuse settings of the user that decide, before anything is compiled or started."""
        self.refuse_settings(self._library, self._release.base_environment())

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        self.insist_on_freedom()
        portfolio = campaign.offered(self._library.mpi, self.mpi.release, collective)
        return portfolio.filtered(campaign.only, campaign.skip)

    def feasible(self, cell: Cell) -> bool:
        """Tell whether it runs as itself; an error if the user's environment forbids it."""
        configuration, instance = cell.configuration, cell.instance
        feasible = instance.shape.nprocs * instance.msize_bytes <= _MOST_BYTES and (
            runs_as_itself(self._release, configuration, instance)
        )
        if feasible and configuration not in self._free:
            self._forced_environment([configuration])
            self._free.add(configuration)
        return feasible

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        """One launch for all that can be switched inside it, one for each other."""
        return grouped(cells, lambda cell: self._launch_of(cell.configuration))

    @property
    def begun(self) -> Sequence[int]:
        begun = () if self._watcher is None else self._watcher.begun
        return [self._visited[cell] for cell in begun]

    def provenance(self) -> Mapping[str, str]:
        return {"backend": "native", "mpirun": str(self.mpi.starts_by)}

    def program(self) -> Path:
        return build.native_benchmark(self.mpi, self._cache)

    def interposed(self) -> Path:
        return build.interposed_library(self.mpi, self._cache)

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        started = time.monotonic()
        self._visited = sorted({step.cell for step in plan.steps})
        plan = _used(plan)
        configurations = [cell.configuration for cell in plan.cells]
        wanted = self._forced_environment(configurations)
        if any(map(is_libcolltune, configurations)):
            wanted[PRELOAD] = str(self.interposed())
        settings = [self._settings(configuration) for configuration in configurations]
        within = replace(plan, budget_s=max(_LEAST_S, plan.budget_s - self.around_s))
        self._watcher = watcher = LaunchWatcher(folder / "raw.txt", within, progress, self.around_s)
        outcome = self.launch(within, settings, launch, folder, wanted, watcher=watcher)
        start_s = outcome.seconds
        if watcher.first_step is not None:
            start_s -= time.monotonic() - watcher.first_step
        output = raw.read_raw(folder / "raw.txt")
        forced = any(
            not c.is_default and self._release.launch_environment(c) is None for c in configurations
        )
        ending = _ending(outcome, output, watcher, forced=forced)
        in_flight = output.in_flight if ending in BLAME else ()
        if forced and ending in BLAME and not output.began:
            in_flight = (plan.steps[0].cell,)
        blamed = {in_flight[0]: BLAME[ending]} if len(in_flight) == 1 else {}
        timed_s = sum(map(sum, output.times_s.values()))
        if output.ended:
            timed_s = output.timed_s
            self.around_s = outcome.seconds - output.wall_s + _SLACK_S
            # a launch may be over before anybody has looked
            start_s = self.around_s if watcher.first_step is None else max(start_s, self.around_s)
        return LaunchResult(
            measurements=enough(raw.measurements(output, plan.cells, launch, blamed)),
            ending=ending,
            timed_s=timed_s,
            wall_s=time.monotonic() - started,
            suspect=plan.cells[in_flight[0]] if blamed else None,
            message="" if outcome.ok else outcome.explain(),
            in_flight=tuple(plan.cells[i] for i in in_flight),
            facts=output.facts,
            launch_s=start_s,
            cut=not output.began,
        )

    def launch(
        self,
        plan: LaunchPlan,
        settings: Sequence[Mapping[str, int | str]],
        launch: str,
        folder: Path,
        wanted: Mapping[str, str],
        options: Sequence[str] = (),
        watcher: LaunchWatcher | None = None,
    ) -> process.ProcessResult:
        """Start the benchmark once with `settings` per cell and the environment `wanted`."""
        watcher = watcher or LaunchWatcher(folder / "raw.txt", plan, lambda _: None, self.around_s)
        program = self.program()
        raw.save_cells(folder / "cells.json", plan.cells, launch)
        owner = f"{socket.gethostname()} {os.getpid()}"
        (folder / "plan.txt").write_text(raw.plan_text(plan, settings, owner))
        words = _preloading(wanted.get(PRELOAD), (program, folder / "plan.txt", folder / "raw.txt"))
        variables = {name: value for name, value in wanted.items() if name != PRELOAD}
        command, environment = self.command(plan.shape, words, variables, options)
        limit_s = plan.limit_s + self.around_s + _START_S
        return self.start(plan.shape, command, environment, limit_s, watcher)

    def _settings(self, configuration: Configuration) -> dict[str, int | str]:
        """Return the control variables that choose `configuration` inside a launch."""
        if self._release.launch_environment(configuration) is None:
            return {}
        return self._release.force(configuration)

    def _launch_of(self, configuration: Configuration) -> Hashable:
        """Return what is equal for configurations that one launch can measure."""
        if configuration.is_default:
            return frozenset[tuple[str, str]]()
        found = self._release.launch_environment(configuration)
        return configuration if found is None else frozenset(found.items())

    def _forced_environment(self, configurations: Iterable[Configuration]) -> dict[str, str]:
        """Return how a launch is told what to run; an error if its user has told otherwise."""
        wanted: dict[str, str] = {}
        for configuration in set(configurations):
            found = self._release.launch_environment(configuration)
            if found is None:
                wanted |= self._release.forced_environment(configuration)
            else:
                wanted |= self._release.base_environment() | found
        self.refuse_settings(self._library, wanted)
        return wanted

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        cells, launch = raw.load_cells(folder / "cells.json")
        return enough(raw.measurements(raw.read_raw(folder / "raw.txt"), cells, launch))


def _preloading(library: str | None, program: tuple[Path, ...]) -> tuple[str | Path, ...]:
    """Return the words that start `program` with `library` preloaded, on whatever node."""
    if library is None:
        return program
    return ("/bin/sh", "-c", _PRELOAD_SCRIPT, library, *program)


def _used(plan: LaunchPlan) -> LaunchPlan:
    """Return the plan with only those cells that have a step."""
    used = sorted({step.cell for step in plan.steps})
    number = {cell: index for index, cell in enumerate(used)}
    steps = tuple(step._replace(cell=number[step.cell]) for step in plan.steps)
    return replace(plan, cells=tuple(plan.cells[cell] for cell in used), steps=steps)


def _ending(
    outcome: process.ProcessResult, output: raw.RawOutput, watcher: LaunchWatcher, *, forced: bool
) -> Ending:
    """Return why a launch ended; one that is `forced` may die of its algorithm in MPI_Init."""
    if output.ended:
        return Ending(output.ended)
    if outcome.timed_out:
        killed_in_time = watcher.stop is Stop.OVERDUE and not watcher.stuck()
        return Ending.BUDGET if killed_in_time else Ending.HANG
    if _CANNOT_WRITE in outcome.stderr:
        raise say("raw-not-written", told=outcome.explain())
    if not output.began and (not forced or _COMPLAINT in outcome.stderr):
        misled, mend = misplaced(Path(outcome.command[0]), os.environ)
        why = misled and f": {misled}; {mend}"
        raise say("did-not-start", what="the benchmark", why=why, told=outcome.explain())
    return Ending.CRASH
