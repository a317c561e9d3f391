"""The ReproMPI backend: one launch of its ``mpibenchmark`` per configuration and shape.

The algorithm is forced from outside, by the environment of the launch. Jobs are bounded in time
wherever the program can do that; its raw rows are read while it is still known what was asked.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Self

from colltune import process
from colltune.bench.backends import raw, reprompi_run
from colltune.bench.backends.installed import InstalledMpi, runs_as_itself
from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult, Means
from colltune.bench.backends.reprompi_run import Attempt, Elements, Job, Mode, Request, Watch
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Launcher
from colltune.bench.schedule import Cell, Step, grouped
from colltune.dataset.importers.reprompi import ReproMpiOutput, parse
from colltune.domain import (
    Collective,
    Instance,
    Measurement,
    Portfolio,
    Shape,
    Synchronisation,
)
from colltune.errors import CampaignError, DataError, ProgramError
from colltune.mpi import library
from colltune.mpi.installation import Installation

VARIABLE = "COLLTUNE_REPROMPI"
_NAME = "mpibenchmark"
_MEND = (
    "build ReproMPI (https://github.com/hunsa/reprompi) with the MPI to be measured, and put its"
    f" mpibenchmark on PATH or name it in the variable {VARIABLE}"
)
_NPROCS = 2
_NREP = 3
_SLOT_S = 1.0
_NOT_STARTED = 127
_NO_LIBRARY = "error while loading shared libraries"

Probe = Callable[[Sequence[str | Path], Mode], process.Outcome]
"""Starts a program on two processes of one node, with the environment of the mode."""
_LAUNCH_S = 1.0
_PROBE_TIMEOUT_S = 60.0
_BLIND_REPS = 10


@dataclass(frozen=True)
class Program:
    """An mpibenchmark that works."""

    path: Path
    timed: bool
    commit: str


def find(named: str | None) -> Path:
    """Return the path of mpibenchmark: `named`, or as the environment says, or on PATH."""
    return process.find(named or os.environ.get(VARIABLE) or _NAME, _MEND)


def probe(path: Path, start: Probe) -> Program:
    """Run `path` briefly on two processes and return what it proved to be."""
    for mode in (Mode.TIMED, Mode.COUNTED):
        what = ("--calls-list=MPI_Bcast", "--msizes-list=8", f"--nrep={_NREP}")
        outcome = start([path, *what, *_options(mode)], mode)
        output = _answer(path, outcome)
        rows = output.rows.values() if output else ()
        if output and outcome.ok and output.complete and any(row.n_valid == _NREP for row in rows):
            commit = output.facts.get("reproMPIcommitSHA1", "unknown")
            return Program(path, mode is Mode.TIMED, commit)
    raise ProgramError(f"{path} does not measure; {_MEND}\n{outcome.explain()}")


def _options(mode: Mode) -> list[str]:
    """Return the options of `mode` for a run that prints to its standard output."""
    words = reprompi_run.options(mode, reprompi_run.BYTES, _SLOT_S, Path(), Path())
    return [word for word in words if not word.startswith(("--input-file=", "--output-file="))]


def _answer(path: Path, outcome: process.Outcome) -> ReproMpiOutput | None:
    """Return what mpibenchmark said; None if it is one but refuses the options."""
    if outcome.returncode == _NOT_STARTED or _NO_LIBRARY in outcome.stderr:
        raise ProgramError(
            f"{path} does not start, as a library of its is not found (libmpits is installed"
            f" beside it: name its folder in LD_LIBRARY_PATH)\n{outcome.explain()}"
        )
    if outcome.timed_out:
        raise ProgramError(f"{path} does not come to an end; {_MEND}\n{outcome.explain()}")
    if "#@nprocs=1\n" in outcome.stdout:
        raise ProgramError(
            f"{path} was built for another MPI than that which starts it: its {_NPROCS} processes"
            f" do not find each other; {_MEND}"
        )
    if "#command-line arguments:" not in outcome.stdout.lower():
        raise ProgramError(f"{path} is not ReproMPI's mpibenchmark; {_MEND}\n{outcome.explain()}")
    try:
        return parse(outcome.stdout, str(path))
    except DataError:
        return None


class ReproMpiBackend(InstalledMpi):
    """Measures with ReproMPI's ``mpibenchmark``, a program that is installed beside colltune."""

    measures_subshapes = False

    def __init__(
        self,
        installation: Installation,
        launcher: Launcher | None = None,
        program: str | Path | None = None,
        cores: int | None = None,
    ) -> None:
        super().__init__(installation, launcher, cores)
        self._library = library(installation.library)
        self._path = program if isinstance(program, Path) else find(program)
        self._program: Program | None = None
        self._owed_s = 0.0
        self._clocks_fail = False
        self._time_s: dict[Cell, float] = {}
        self.launch_s = _LAUNCH_S

    @classmethod
    def made_for(cls, campaign: Campaign, means: Means) -> Self:
        if campaign.interposed:
            raise CampaignError(
                "backend reprompi cannot choose the algorithms of libcolltune; use backend native,"
                " or leave out interposed"
            )
        installation = means.installation()
        program = Path("mpibenchmark") if means.imagined else campaign.mpibenchmark
        launcher = means.launcher(installation)
        return cls(installation, launcher, program, campaign.cores_per_node)

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        portfolio = campaign.offered(self._library, self.mpi.release, collective)
        self._refuse_user_settings(portfolio)
        return portfolio.filtered(campaign.only, campaign.skip)

    def _refuse_user_settings(self, portfolio: Portfolio) -> None:
        """Refuse where the user's variables, which always win, choose the algorithm."""
        values: dict[str, set[str]] = {}
        for configuration in portfolio.configurations:
            forced = self._library.at(portfolio.release).forced_environment(configuration)
            for name, value in forced.items():
                values.setdefault(name, set()).add(value)
        for name, wanted in sorted(values.items()):
            theirs = os.environ.get(name)
            if theirs is not None and wanted != {theirs}:
                raise CampaignError(
                    f"{name}={theirs} is set in the environment, so that no other configuration of"
                    f" {portfolio.collective} can be measured with ReproMPI; unset {name}"
                )

    def feasible(self, cell: Cell) -> bool:
        return not reprompi_run.why_not(cell.instance) and runs_as_itself(
            self._library.at(self.mpi.release), cell.configuration, cell.instance
        )

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        return grouped(cells, _group)

    def provenance(self) -> Mapping[str, str]:
        return {
            "backend": "reprompi",
            "mpirun": str(self.mpi.mpirun),
            "mpibenchmark": str(self._path),
            "reprompi_commit": self.program().commit,
            "clock": "MPI_Wtime, each rank's own start and end, maximum over ranks",
            "left_out": "the first repetition of each visit, unless it is the only one",
        }

    def program(self) -> Program:
        """Return what mpibenchmark has proved to be; it is asked once."""
        if self._program is None:
            started = time.monotonic()
            try:
                self._program = probe(self._path, self._start_probe)
            finally:
                self._owed_s += time.monotonic() - started
        return self._program

    def _start_probe(self, words: Sequence[str | Path], mode: Mode) -> process.Outcome:
        command, environment = self.command(
            Shape(1, _NPROCS), words, reprompi_run.environment(mode)
        )
        return process.run(command, timeout_s=_PROBE_TIMEOUT_S, env=environment)

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        started = time.monotonic()
        self.program()
        # asking it what it is may have taken a part of the time that was granted
        ends, self._owed_s = started + plan.budget_s - self._owed_s, 0.0
        visits = [(plan.cells[step.cell], step) for step in plan.steps]
        if len({_group(cell) for cell, _ in visits}) != 1:
            raise ValueError("the steps are not of one group; see `together`")
        raw.save_cells(folder / "cells.json", [*dict.fromkeys(cell for cell, _ in visits)], launch)

        def beat() -> None:
            progress(time.monotonic() - started)

        request = self._request(visits, plan.synchronisation)
        attempt = self._attempt(request, folder, ends, beat)
        if request.mode is Mode.CLOCKS and attempt.measured_nothing:
            self._clocks_fail = True
            again = self._request(visits, plan.synchronisation)
            attempt = self._attempt(again, folder, ends, beat)
        measured = attempt.measurements(launch)
        self._time_s |= {
            Cell(m.configuration, m.instance): median(m.times_s) for m in measured if m.times_s
        }
        return LaunchResult(
            measurements=measured,
            ending=attempt.ending,
            timed_s=attempt.timed_s,
            wall_s=time.monotonic() - started,
            suspect=attempt.suspect,
            message=attempt.message,
            facts=attempt.facts,
        )

    def _request(
        self, visits: Sequence[tuple[Cell, Step]], synchronisation: Synchronisation
    ) -> Request:
        instance = visits[0][0].instance
        mode = self._mode(instance, synchronisation)
        jobs = tuple(Job(cell, self._nrep(mode, cell, step)) for cell, step in visits)
        # one number for all jobs: none may take longer than it was granted
        slot_s = min(step.max_seconds for _, step in visits)
        elements = reprompi_run.elements_of(instance)
        return Request(mode, elements, instance.shape, jobs, slot_s)

    def _mode(self, instance: Instance, synchronisation: Synchronisation) -> Mode:
        """Return how to synchronise and to end jobs: by time unless that would bend the result.

        Processes that share cores leave the library's barrier so far apart that small messages are
        there before they are waited for; and a barrier must not be synchronised by itself.
        """
        oversubscribed = instance.shape.ppn > self.cores
        if oversubscribed or not self.program().timed:
            return Mode.COUNTED
        if synchronisation is Synchronisation.WINDOW and not self._clocks_fail:
            return Mode.CLOCKS
        return Mode.COUNTED if instance.collective is Collective.BARRIER else Mode.TIMED

    def _nrep(self, mode: Mode, cell: Cell, step: Step) -> int:
        """Return how often to repeat: what fits, where only the number ends a job."""
        if mode is not Mode.COUNTED:
            return max(1, step.max_reps)
        known_s = self._time_s.get(cell)
        fitting = int(step.max_seconds / known_s) if known_s else _BLIND_REPS
        return max(1, min(step.max_reps, fitting))

    def _attempt(
        self, request: Request, folder: Path, ends: float, progress: Callable[[], None]
    ) -> Attempt:
        """Start mpibenchmark once; what it was asked and what it said stays in `folder`."""
        mode = request.mode
        jobs_path, output_path = _jobs_path(folder, mode), _output_path(folder, mode)
        reprompi_run.keep(jobs_path, reprompi_run.job_file(request.jobs))
        options = reprompi_run.options(
            mode, request.elements, request.slot_s, jobs_path, output_path
        )
        configuration = request.jobs[0].cell.configuration
        wanted = self._library.at(self.mpi.release).forced_environment(configuration)
        wanted |= reprompi_run.environment(mode)
        command, environment = self.command(request.shape, [self._path, *options], wanted)
        settings = [f"{name}={environment[name]}" for name in sorted(wanted)]
        line = shlex.join(["env", *settings, *command])
        reprompi_run.keep(folder / f"command-{mode}.txt", f"{line}\n")
        watch = Watch(output_path, request.slot_s, progress)
        left_s = max(0.0, ends - time.monotonic())
        outcome = process.run(command, timeout_s=left_s, env=environment, watch=watch)
        reprompi_run.keep(folder / f"stdout-{mode}.txt", outcome.stdout)
        reprompi_run.keep(folder / f"stderr-{mode}.txt", outcome.stderr)
        attempt = reprompi_run.judged(request, outcome, output_path, watch)
        if attempt.ending is Ending.PLAN:
            self.launch_s = watch.around_s(outcome.seconds)
        return attempt

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        cells, launch = raw.load_cells(folder / "cells.json")
        outputs = (reprompi_run.read(_output_path(folder, mode)) for mode in Mode)
        return tuple(m for o in outputs for m in reprompi_run.salvaged(o, cells, launch))


def _group(cell: Cell) -> tuple[str, Shape, Elements, bool]:
    """Return what the cells of one launch have in common; the defaults of all collectives do."""
    instance, configuration = cell.instance, cell.configuration
    forced = "" if configuration.is_default else configuration.id
    is_barrier = instance.collective is Collective.BARRIER
    return forced, instance.shape, reprompi_run.elements_of(instance), is_barrier


def _jobs_path(folder: Path, mode: Mode) -> Path:
    return (folder / f"jobs-{mode}.txt").absolute()


def _output_path(folder: Path, mode: Mode) -> Path:
    return (folder / f"output-{mode}.txt").absolute()
