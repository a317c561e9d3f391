"""The ReproMPI backend: one launch of its ``mpibenchmark`` per configuration and shape.

The algorithm is forced from outside, by the environment of the launch. Jobs are bounded in time
wherever the program can do that; its raw rows are read while it is still known what was asked.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from statistics import median
from typing import Self

from colltune import process
from colltune.bench.backends import mpibenchmark, raw
from colltune.bench.backends.installed import InstalledMpi, runs_as_itself
from colltune.bench.backends.mpibenchmark import Elements, Job, Mode, Program, warm_times_s
from colltune.bench.backends.protocol import (
    BLAME,
    MOST_PATIENCE_S,
    Ending,
    LaunchPlan,
    LaunchResult,
    Means,
)
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Launcher
from colltune.bench.schedule import Cell, grouped
from colltune.dataset.importers.reprompi import ReproMpiOutput
from colltune.domain import Collective, Measurement, Portfolio, RunStatus, Shape, Synchronisation
from colltune.errors import CampaignError, OutputError, ProgramError
from colltune.files import writing
from colltune.mpi import library
from colltune.mpi.installation import Installation

_LAUNCH_S = 1.0
_PROBE_TIMEOUT_S = 60.0
_BLIND_REPS = 10
_STUCK_S = 5.0
_LEAST_FREE_BYTES = 4096
_CANNOT_OPEN = "Cannot open output file"
_SYNCHRONISATIONS = {
    Mode.CLOCKS: "start time agreed upon by synchronised clocks (ReproMPI's roundtime)",
    Mode.TIMED: "the library's barrier before each repetition (ReproMPI's roundtime)",
    Mode.COUNTED: "dissemination barrier before each repetition (ReproMPI's dissem_barrier)",
}


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
        self._release = library(installation.library).at(installation.release)
        # a `Path` is not looked for, so that a campaign can be planned where the program is not
        self._path = program if isinstance(program, Path) else mpibenchmark.find(program)
        self._program: Program | None = None
        self._owed_s = 0.0
        self._clocks_fail = False
        self._time_s: dict[Cell, float] = {}
        self.launch_s = _LAUNCH_S

    @classmethod
    def made_for(cls, campaign: Campaign, means: Means) -> Self:
        if campaign.interposed:
            raise CampaignError(
                "backend reprompi cannot measure the algorithms of libcolltune. Use backend "
                "native, or leave out --interposed."
            )
        installation = means.installation()
        program = Path("mpibenchmark") if means.imagined else campaign.mpibenchmark
        launcher = means.launcher(installation)
        return cls(installation, launcher, program, campaign.cores_per_node)

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        offered = campaign.offered(library(self.mpi.library), self.mpi.release, collective)
        for configuration in offered.configurations:
            if not configuration.is_default:
                wanted = self._release.forced_environment(configuration)
                self.refuse_settings(self._release.mpi, wanted)
        return offered.filtered(campaign.only, campaign.skip)

    def feasible(self, cell: Cell) -> bool:
        return not mpibenchmark.why_not(cell.instance) and runs_as_itself(
            self._release, cell.configuration, cell.instance
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
                self._program = mpibenchmark.probe(self._path, self._start_probe)
            finally:
                self._owed_s += time.monotonic() - started
        return self._program

    def _start_probe(self, words: Sequence[str | Path], mode: Mode) -> process.Outcome:
        shape = Shape(1, mpibenchmark.PROBED_NPROCS)
        command, environment = self.command(shape, words, mode.environment)
        return self.start(shape, command, environment, _PROBE_TIMEOUT_S)

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        started = time.monotonic()
        self.program()
        # asking it what it is may have taken a part of the time that was granted
        ends, self._owed_s = started + plan.budget_s - self._owed_s, 0.0
        cells = [plan.cells[step.cell] for step in plan.steps]
        if len({_group(cell) for cell in cells}) != 1:
            raise ValueError("the steps are not of one group; see `together`")
        raw.save_cells(folder / "cells.json", [*dict.fromkeys(cells)], launch)

        def attempt() -> _Attempt:
            return self._attempt(plan, folder, ends, lambda: progress(time.monotonic() - started))

        made = attempt()
        if made.mode is Mode.CLOCKS and made.measured_nothing:
            self._clocks_fail = True
            made = attempt()
        result = made.result(launch, time.monotonic() - started)
        self._time_s |= {
            Cell(m.configuration, m.instance): median(m.times_s)
            for m in result.measurements
            if m.times_s
        }
        return result

    def _attempt(
        self, plan: LaunchPlan, folder: Path, ends: float, progress: Callable[[], None]
    ) -> _Attempt:
        """Start mpibenchmark once; what it was asked and what it said stays in `folder`."""
        first = plan.cells[plan.steps[0].cell]
        mode = self._mode(first.instance.collective, plan)
        jobs = self._jobs(mode, plan)
        # one number for all jobs: none may take longer than it was granted
        slot_s = min(step.max_seconds for step in plan.steps)
        jobs_path, output_path = _file(folder, "jobs", mode), _file(folder, "output", mode)
        _keep(jobs_path, mpibenchmark.job_file(jobs))
        options = mpibenchmark.options(mode, mpibenchmark.elements_of(first.instance), slot_s)
        files = (f"--input-file={jobs_path}", f"--output-file={output_path}")
        wanted = self._release.forced_environment(first.configuration) | mode.environment
        command, environment = self.command(
            first.instance.shape, [self._path, *files, *options], wanted
        )
        settings = [f"{name}={environment[name]}" for name in sorted(wanted)]
        _keep(_file(folder, "command", mode), shlex.join(["env", *settings, *command]) + "\n")
        watch = _Watch(output_path, plan.patience_s, slot_s, progress)
        left_s = max(0.0, ends - time.monotonic())
        outcome = self.start(first.instance.shape, command, environment, left_s, watch)
        _keep(_file(folder, "stdout", mode), outcome.stdout)
        _keep(_file(folder, "stderr", mode), outcome.stderr)
        output = mpibenchmark.read(output_path)
        if output and (wrong := mpibenchmark.contradictions(output, mode, jobs)):
            raise ProgramError(f"{output_path}: mpibenchmark did not do what was asked: {wrong}")
        ending = _ending(outcome, output, output_path, watch)
        if ending is Ending.PLAN:
            self.launch_s = watch.around_s(outcome.seconds)
        to_blame = ending in BLAME and output_path.exists()
        suspect = mpibenchmark.in_flight(jobs, output) if to_blame else None
        return _Attempt(mode, jobs, outcome, output, ending, suspect)

    def _mode(self, collective: Collective, plan: LaunchPlan) -> Mode:
        """Return how to synchronise and to end jobs: by time unless that would bend the result.

        Processes that share cores leave the library's barrier so far apart that small messages are
        there before they are waited for; and a barrier must not be synchronised by itself.
        """
        oversubscribed = plan.shape.ppn > self.cores
        if oversubscribed or not self.program().timed:
            return Mode.COUNTED
        if plan.synchronisation is Synchronisation.WINDOW and not self._clocks_fail:
            return Mode.CLOCKS
        return Mode.COUNTED if collective is Collective.BARRIER else Mode.TIMED

    def _jobs(self, mode: Mode, plan: LaunchPlan) -> tuple[Job, ...]:
        """Return the visits; where only the number of repetitions ends a job, as many as fit."""
        jobs = []
        for step in plan.steps:
            cell, nrep = plan.cells[step.cell], step.max_reps
            if mode is Mode.COUNTED:
                known_s = self._time_s.get(cell)
                nrep = min(nrep, int(step.max_seconds / known_s) if known_s else _BLIND_REPS)
            jobs.append(Job(cell, max(1, nrep)))
        return tuple(jobs)

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        cells, launch = raw.load_cells(folder / "cells.json")
        outputs = [mpibenchmark.read(_file(folder, "output", mode)) for mode in Mode]
        return tuple(
            Measurement(cell.instance, cell.configuration, launch, RunStatus.OK, times_s)
            for output in outputs
            for cell in cells
            if (times_s := warm_times_s(output, cell))
        )


def _group(cell: Cell) -> tuple[str, Shape, Elements, bool]:
    """Return what the cells of one launch have in common; the defaults of all collectives do."""
    instance, configuration = cell.instance, cell.configuration
    forced = "" if configuration.is_default else configuration.id
    is_barrier = instance.collective is Collective.BARRIER
    return forced, instance.shape, mpibenchmark.elements_of(instance), is_barrier


def _file(folder: Path, what: str, mode: Mode) -> Path:
    return (folder / f"{what}-{mode}.txt").absolute()


def _keep(path: Path, text: str) -> None:
    with writing(path, "Is the disk full?"):
        path.write_text(text)


class _Watch:
    """Reports progress, and gives a run up when its output has not grown for too long."""

    def __init__(
        self, output_path: Path, patience_s: float, slot_s: float, progress: Callable[[], None]
    ) -> None:
        self._path, self._slot_s, self._progress = output_path, slot_s, progress
        self._start_s, self._patience_s = (s + 3 * slot_s for s in (MOST_PATIENCE_S, patience_s))
        self._grown = time.monotonic()
        self._began: float | None = None
        self._size = -1

    def __call__(self) -> bool:
        self._progress()
        now = time.monotonic()
        size = self._path.stat().st_size if self._path.exists() else -1
        if size != self._size:
            self._size, self._grown = size, now
            if size > 0 and self._began is None:
                self._began = now
        return now - self._grown < (self._start_s if self._began is None else self._patience_s)

    @property
    def stuck(self) -> bool:
        """Whether the job in flight has taken far longer than it may."""
        return time.monotonic() - self._grown > min(_STUCK_S + 3 * self._slot_s, self._patience_s)

    def around_s(self, wall_s: float) -> float:
        """Return what a run of `wall_s` seconds took beside its jobs."""
        began = self._grown if self._began is None else self._began
        return wall_s - (self._grown - began)


@dataclass(frozen=True)
class _Attempt:
    """A run of mpibenchmark; ``output`` is None where it wrote nothing."""

    mode: Mode
    jobs: tuple[Job, ...]
    outcome: process.Outcome
    output: ReproMpiOutput | None
    ending: Ending
    suspect: Cell | None

    @property
    def measured_nothing(self) -> bool:
        """Whether there is no valid repetition, though it went to its end or for all its time."""
        rows = self.output.rows.values() if self.output else ()
        return self.ending not in BLAME and not any(row.n_valid for row in rows)

    def result(self, launch: str, wall_s: float) -> LaunchResult:
        """Return what it brought, the cold repetitions left out of all but the seconds timed."""
        output, message = self.output, ""
        if not self.outcome.ok:
            message = self.outcome.explain()
        elif output:
            message = "; ".join(output.errors + output.remarks)
        return LaunchResult(
            measurements=self._measurements(launch),
            ending=self.ending,
            timed_s=sum(sum(row.times_s) for row in output.rows.values()) if output else 0.0,
            wall_s=wall_s,
            suspect=self.suspect,
            message=message,
            facts={
                "synchronisation": _SYNCHRONISATIONS[self.mode],
                "clock_synchronisation": (output.facts.get("clocksync") if output else "")
                or "unknown",
            },
        )

    def _measurements(self, launch: str) -> tuple[Measurement, ...]:
        """Return one measurement per cell that was timed, refused or is to blame."""
        # a cell without a repetition is one that mpibenchmark does not have
        whole = self.output is not None and self.output.complete
        untimed = RunStatus.OK
        if whole and self.mode is not Mode.CLOCKS:
            untimed = RunStatus.NOT_APPLICABLE
        found = []
        for cell in dict.fromkeys(job.cell for job in self.jobs):
            times_s = warm_times_s(self.output, cell)
            status = RunStatus.OK if times_s else untimed
            if cell == self.suspect:
                status, times_s = BLAME[self.ending], ()
            if times_s or status is not RunStatus.OK:
                found.append(
                    Measurement(cell.instance, cell.configuration, launch, status, times_s)
                )
        return tuple(found)


def _ending(
    outcome: process.Outcome, output: ReproMpiOutput | None, path: Path, watch: _Watch
) -> Ending:
    if output is not None and output.complete:
        return Ending.PLAN
    refused = "ERROR" in outcome.stdout + outcome.stderr
    cut = outcome.ok and path.exists() and not refused
    # mpibenchmark does not notice a full disk: it goes on, and looks as if it hung
    if cut or _CANNOT_OPEN in outcome.stderr or disk_usage(path.parent).free < _LEAST_FREE_BYTES:
        raise OutputError(
            "mpibenchmark cannot write its raw output. Is the disk full? Earlier "
            f"measurements are kept.\n{outcome.explain()}"
        )
    if outcome.timed_out:
        return Ending.HANG if watch.stuck else Ending.BUDGET
    if outcome.ok or not path.exists():
        raise ProgramError(f"mpibenchmark did not start\n{outcome.explain()}")
    return Ending.CRASH
