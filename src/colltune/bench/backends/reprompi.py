"""The ReproMPI backend: one launch of its ``mpibenchmark`` per configuration and shape.

The algorithm is forced from outside, by the environment of the launch. Jobs are bounded in time
wherever the program can do that; its raw rows are read while it is still known what was asked.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import disk_usage
from statistics import median
from typing import Self

from colltune import process
from colltune.bench.backends import mpibenchmark, raw
from colltune.bench.backends.installed import InstalledMpi, runs_as_itself, started_shape
from colltune.bench.backends.mpibenchmark import (
    BenchmarkJob,
    BenchmarkMode,
    Elements,
    Program,
    warm_times_s,
)
from colltune.bench.backends.protocol import (
    BLAME,
    Ending,
    LaunchPlan,
    LaunchResult,
    Means,
)
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Launcher
from colltune.bench.schedule import Cell, grouped
from colltune.dataset.importers.reprompi import ReproMpiOutput
from colltune.dataset.method import IN_PLACE_OF, LAYOUT
from colltune.dataset.noise.measured import enough, possible
from colltune.domain import Collective, Measurement, Portfolio, RunStatus, Shape, Synchronisation
from colltune.errors import ProgramError, say
from colltune.files import writing
from colltune.mpi import library
from colltune.mpi.installation import Installation
from colltune.text import counted

_LAUNCH_S = 1.0
_NETWORK_REPS = 12
_NETWORK_SLOTS_S = (1.0, 4.0, 16.0)
_WIDER = 4.0
_MOST_MULTIPLE = 400.0
# barriers and agreements around a repetition, each about as long as a small broadcast
_BROADCASTS_AROUND = 3.0
_LEAST_REPS = 10
_PINGS = 25
_PROBE_TIMEOUT_S = 60.0
_BLIND_REPS = 10
_STUCK_S = 5.0
_ROUND_TRIP = "round-trip-s.txt"
_LEAST_FREE_BYTES = 4096
_CANNOT_OPEN = "Cannot open output file"
_ON_ONE_NODE = "are running on the same node"
_MAPPED = "ranks do not fill node by node; take out the launcher's options that map processes"
_SYNCHRONISATIONS = {
    BenchmarkMode.CLOCKS: "start time agreed upon by synchronised clocks (ReproMPI's roundtime)",
    BenchmarkMode.TIMED: "the library's barrier before each repetition (ReproMPI's roundtime)",
    BenchmarkMode.COUNTED: "dissemination barrier before each repetition "
    "(ReproMPI's dissem_barrier)",
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
        synchronisation: Sequence[Synchronisation] = (Synchronisation.BARRIER,),
    ) -> None:
        super().__init__(installation, launcher, cores)
        self._release = library(installation.library).at(installation.release)
        # a `Path` is not looked for, so that a campaign can be planned where the program is not
        self._path = program if isinstance(program, Path) else mpibenchmark.find(program)
        self._program: Program | None = None
        self._probed = Shape(1, mpibenchmark.PROBED_NPROCS)
        self._networks: dict[Shape, _Network | None] = {}
        self._asked = tuple(synchronisation)
        self._time_s: dict[Cell, float] = {}
        self._around_s = _LAUNCH_S

    @classmethod
    def made_for(cls, campaign: Campaign, means: Means) -> Self:
        if campaign.interposed:
            raise say("reprompi-without-libcolltune")
        installation = means.installation()
        program = Path("mpibenchmark") if means.imagined else campaign.mpibenchmark
        launcher = means.launcher(installation)
        cores, asked = campaign.cores_per_node, campaign.synchronisation
        return cls(installation, launcher, program, cores, asked)

    @property
    def launch_s(self) -> float:
        """Seconds that a launch costs beside its steps, with the least that one job takes."""
        least_s = 0.0
        if self._asked[0] is Synchronisation.WINDOW:
            known = [(shape, found) for shape, found in self._networks.items() if found]
            each = [
                n.job_s(shape) + _LEAST_REPS * n.around_s(BenchmarkMode.CLOCKS)
                for shape, n in known
            ]
            least_s = max(each, default=0.0)
        return self._around_s + least_s

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
            "mpirun": str(self.mpi.starts_by),
            "mpibenchmark": str(self._path),
            "clock": "MPI_Wtime, each rank's own start and end, maximum over ranks",
            "left_out": "the first repetition of each visit, unless it is the only one",
        }

    def program(self) -> Program:
        """Return what mpibenchmark has proved to be; it is asked once."""
        if self._program is None:
            self._program = mpibenchmark.probe(self._path, self._start_probe)
        return self._program

    def _proved_by(self, output: ReproMpiOutput | None, mode: BenchmarkMode) -> None:
        """Take note of a run that is bounded in time: it spares the start of asking for that."""
        rows = output.rows.values() if output and mode is not BenchmarkMode.COUNTED else ()
        if output and self._program is None and any(row.n_valid for row in rows):
            self._program = Program(timed=True, commit=mpibenchmark.commit_of(output))

    @property
    def _timed(self) -> bool:
        return self._program is None or self._program.timed

    def clocks(self) -> str:
        """Return which clocks keep windows on two processes here; empty: none do."""
        return mpibenchmark.clocks(self._path, self._start_probe) if self.program().timed else ""

    def _start_probe(
        self, words: Sequence[str | Path], mode: BenchmarkMode
    ) -> process.ProcessResult:
        command, environment = self.command(self._probed, words, mode.environment)
        return self.start(self._probed, command, environment, _PROBE_TIMEOUT_S)

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        started = time.monotonic()
        if plan.shape.ppn < mpibenchmark.PROBED_NPROCS <= plan.shape.nodes:
            # all that an allocation may allow
            self._probed = Shape(mpibenchmark.PROBED_NPROCS, 1)
        result = failure = None
        try:
            result = self._launched(plan, launch, folder, progress)
        except ProgramError as error:
            if self._program is not None:
                raise
            failure = error
        fine = result is not None and (result.cut or any(m.times_s for m in result.measurements))
        # whose first run brought nothing has to say what it is: it may be of before 2019
        if not fine and self._program is None and not self.program().timed:
            spent_s = time.monotonic() - started
            left = replace(plan, budget_s=plan.budget_s - spent_s, latest_s=plan.latest_s - spent_s)
            return self._launched(left, launch, folder, progress)
        if failure is not None:
            raise failure
        assert result is not None
        return result

    def _launched(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        started = time.monotonic()
        ends = started + plan.limit_s
        cells = [plan.cells[step.cell] for step in plan.steps]
        if len({_group(cell) for cell in cells}) != 1:
            raise ValueError("the steps are not of one group; see `together`")
        raw.save_cells(folder / "cells.json", [*dict.fromkeys(cells)], launch)

        asked = time.monotonic()
        told = self._network(plan, folder)
        ends += time.monotonic() - asked
        round_trip_s = told.round_trip_s if told else None
        _keep(folder / _ROUND_TRIP, f"{round_trip_s or ''}")
        note, asked_for = "", plan.synchronisation
        synchronisation = asked_for
        if synchronisation is Synchronisation.WINDOW and (why := self._why_no_windows(plan.shape)):
            if Synchronisation.BARRIER not in self._asked:
                raise say("no-windows", shape=plan.shape, why=why)
            note = f"barriers in place of windows on {plan.shape}: {why}"
            synchronisation = Synchronisation.BARRIER
        plan = replace(plan, synchronisation=synchronisation)

        def attempt() -> _Attempt:
            return self._attempt(plan, folder, ends, lambda: progress(time.monotonic() - started))

        made = attempt()
        if made.mode is BenchmarkMode.CLOCKS and made.measured_nothing:
            # this launch alone; what others have seen of the network still holds for them
            self._widen(plan.shape)
            again = attempt()
            # the second one may have been cut short by the end of the time
            made = made if made.is_whole and again.measured_nothing else again
        result = made.result(launch, time.monotonic() - started, round_trip_s)
        lost = sum(m.status is RunStatus.NO_WINDOW for m in result.measurements)
        if lost:
            note = (
                f"{cells[0].configuration.id} on {plan.shape}: no repetition of "
                f"{counted(lost, 'cell')} began within its window (status no_window)"
            )
        self._time_s |= {
            Cell(m.configuration, m.instance): median(m.times_s)
            for m in result.measurements
            if m.times_s
        }
        if synchronisation is not asked_for:
            result = replace(result, facts={**result.facts, IN_PLACE_OF: asked_for.value})
        if told and not told.in_blocks:
            result = replace(result, facts={**result.facts, LAYOUT: "ranks not node by node"})
            where = f"on {plan.shape} rank {plan.shape.ppn} runs on the node of rank 0"
            note = "; ".join(filter(None, (note, f"{where}: {_MAPPED}")))
        return replace(result, note=note)

    def _why_no_windows(self, shape: Shape) -> str:
        if shape.ppn > self.cores:
            return f"{shape.ppn} processes share {self.cores} cores of a node"
        if not self._timed:
            return "this mpibenchmark, of before 2019, has no roundtime"
        if self._networks.get(shape) is None:
            return (
                f"in {_NETWORK_SLOTS_S[-1]:g} s no broadcast began on all processes at the time "
                "agreed upon"
            )
        return ""

    def _network(self, plan: LaunchPlan, folder: Path) -> _Network | None:
        """Return what is known of the network between the nodes of `plan`; it is measured once."""
        shape, windows = plan.shape, plan.synchronisation is Synchronisation.WINDOW
        wanted = shape.nprocs > 1 and (windows or shape.nodes > 1)
        if wanted and shape not in self._networks:
            mode = self._mode(Collective.BCAST, plan)
            self._networks[shape] = self._measured_network(shape, mode, folder)
        return self._networks.get(shape)

    def _measured_network(self, shape: Shape, mode: BenchmarkMode, folder: Path) -> _Network | None:
        """Measure round trips and a broadcast, in ever wider windows until one is kept."""
        multiple = mpibenchmark.BROADCAST_MULTIPLE
        jobs, options = mpibenchmark.network_job(shape, _NETWORK_REPS)
        jobs_path, output_path = folder / "network-jobs.txt", folder / "network.txt"
        _keep(jobs_path, jobs)
        for slot_s in _NETWORK_SLOTS_S:
            files = (f"--input-file={jobs_path}", f"--output-file={output_path}")
            words: list[str | Path] = [self._path, *files]
            words += [*options, *mpibenchmark.options(mode, mpibenchmark.BYTES, slot_s, multiple)]
            command, environment = self.command(shape, words, mode.environment)
            outcome = self.start(shape, command, environment, _PROBE_TIMEOUT_S)
            output = mpibenchmark.read(output_path)
            if output is None or not output.complete:
                what = f"mpibenchmark on {shape}"
                raise say("did-not-start", what=what, why="", told=outcome.explain())
            self._proved_by(output, mode)
            rows = output.rows.values()
            if any(row.n_valid > 1 for row in rows):
                around_s = mpibenchmark.broadcast_s(output) or 0.0
                on_one_host = shape.nodes == 1 or started_shape(shape) != shape
                in_blocks = on_one_host or _ON_ONE_NODE not in outcome.stderr
                return _Network(output.round_trip_s, around_s, multiple, in_blocks)
            multiple *= _WIDER
        return None

    def _widen(self, shape: Shape) -> None:
        known = self._networks[shape]
        if known is not None:
            multiple = min(_MOST_MULTIPLE, _WIDER * known.multiple)
            self._networks[shape] = replace(known, multiple=multiple)

    def _attempt(
        self, plan: LaunchPlan, folder: Path, ends: float, progress: Callable[[], None]
    ) -> _Attempt:
        """Start mpibenchmark once; what it was asked and what it said stays in `folder`."""
        first = plan.cells[plan.steps[0].cell]
        mode = self._mode(first.instance.collective, plan)
        network = self._networks.get(plan.shape) or _Network()
        slot_s = self._slot_s(plan, mode, network)
        jobs = self._jobs(mode, plan)
        if mode is BenchmarkMode.CLOCKS:
            left_s = plan.budget_s - self._around_s
            jobs = _fitting(jobs, left_s, network.job_s(plan.shape) + slot_s)
        jobs_path, output_path = _file(folder, "jobs", mode), _file(folder, "output", mode)
        _keep(jobs_path, mpibenchmark.job_file(jobs))
        elements = mpibenchmark.elements_of(first.instance)
        options = mpibenchmark.options(mode, elements, slot_s, network.multiple)
        files = (f"--input-file={jobs_path}", f"--output-file={output_path}")
        wanted = self._release.forced_environment(first.configuration) | mode.environment
        command, environment = self.command(
            first.instance.shape, [self._path, *files, *options], wanted
        )
        settings = [f"{name}={environment[name]}" for name in sorted(wanted)]
        _keep(_file(folder, "command", mode), shlex.join(["env", *settings, *command]) + "\n")
        watch = _Watch(output_path, plan, slot_s, progress)
        left_s = max(0.0, ends - time.monotonic())
        outcome = self.start(first.instance.shape, command, environment, left_s, watch)
        _keep(_file(folder, "stdout", mode), outcome.stdout)
        _keep(_file(folder, "stderr", mode), outcome.stderr)
        output = mpibenchmark.read(output_path)
        if output and (wrong := mpibenchmark.contradictions(output, mode, jobs)):
            raise say("not-as-asked", path=output_path, wrong=wrong)
        self._proved_by(output, mode)
        ending = _ending(outcome, output, output_path, watch)
        to_blame = ending in BLAME and output_path.exists()
        suspect = mpibenchmark.in_flight(jobs, output) if to_blame else None
        around_s = watch.launch_s(outcome.seconds, whole=ending is Ending.PLAN)
        clocks_s = len(jobs) * network.job_s(plan.shape) if mode is BenchmarkMode.CLOCKS else 0.0
        cut = output is None and not watch.opened
        if not cut:
            self._around_s = around_s
        launch_s = around_s + clocks_s
        made = _Attempt(mode, jobs, outcome, output, ending, suspect, launch_s, cut)
        if mode is BenchmarkMode.CLOCKS and made.loses_windows(slot_s, network):
            self._widen(plan.shape)
        return made

    def _slot_s(self, plan: LaunchPlan, mode: BenchmarkMode, network: _Network) -> float:
        """Return how long each job may take: what it was granted, but some repetitions at least.

        It is one number for all of them.
        """
        granted_s = min(step.max_seconds for step in plan.steps)
        known = [self._time_s.get(plan.cells[step.cell], 0.0) for step in plan.steps]
        return max(granted_s, _LEAST_REPS * (network.around_s(mode) + max(known)))

    def _mode(self, collective: Collective, plan: LaunchPlan) -> BenchmarkMode:
        """Return how to synchronise and to end jobs: by time unless that would bend the result.

        Processes that share cores leave the library's barrier so far apart that small messages are
        there before they are waited for; and a barrier must not be synchronised by itself.
        """
        oversubscribed = plan.shape.ppn > self.cores
        if oversubscribed or not self._timed:
            return BenchmarkMode.COUNTED
        if plan.synchronisation is Synchronisation.WINDOW:
            return BenchmarkMode.CLOCKS
        return BenchmarkMode.COUNTED if collective is Collective.BARRIER else BenchmarkMode.TIMED

    def _jobs(self, mode: BenchmarkMode, plan: LaunchPlan) -> tuple[BenchmarkJob, ...]:
        """Return the visits; where only the number of repetitions ends a job, as many as fit."""
        jobs = []
        for step in plan.steps:
            cell, nrep = plan.cells[step.cell], step.max_reps
            if mode is BenchmarkMode.COUNTED:
                known_s = self._time_s.get(cell)
                nrep = min(nrep, int(step.max_seconds / known_s) if known_s else _BLIND_REPS)
            jobs.append(BenchmarkJob(cell, max(1, nrep)))
        return tuple(jobs)

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        cells, launch = raw.load_cells(folder / "cells.json")
        outputs = [mpibenchmark.read(_file(folder, "output", mode)) for mode in BenchmarkMode]
        found = (
            Measurement(cell.instance, cell.configuration, launch, RunStatus.OK, times_s)
            for output in outputs
            for cell in cells
            if (times_s := warm_times_s(output, cell))
        )
        kept = folder / _ROUND_TRIP
        round_trip_s = kept.read_text() if kept.exists() else ""
        return enough(possible(found, float(round_trip_s) if round_trip_s else None))


@dataclass(frozen=True)
class _Network:
    """What is known of the network of a shape; seconds, and the ``multiple`` of `mpibenchmark`.

    With ``in_blocks`` ranks fill node by node, as far as it can be seen.
    """

    round_trip_s: float | None = None
    broadcast_s: float = 0.0
    multiple: float = mpibenchmark.BROADCAST_MULTIPLE
    in_blocks: bool = True

    def around_s(self, mode: BenchmarkMode) -> float:
        """Return what a repetition takes beside its collective."""
        waited = self.multiple if mode is BenchmarkMode.CLOCKS else 0.0
        return (waited + _BROADCASTS_AROUND) * self.broadcast_s

    def job_s(self, shape: Shape) -> float:
        """Return what synchronising clocks takes before each job."""
        return _PINGS * (self.round_trip_s or 0.0) * math.ceil(math.log2(max(2, shape.nprocs)))


def _fitting(
    jobs: Sequence[BenchmarkJob], left_s: float, each_s: float
) -> tuple[BenchmarkJob, ...]:
    """Return as many jobs as fit: visits of a cell become one, and the last cells are left out."""
    most = max(1, int(left_s / each_s))
    if len(jobs) <= most:
        return tuple(jobs)
    nrep: dict[Cell, int] = {}
    for job in jobs:
        nrep[job.cell] = nrep.get(job.cell, 0) + job.nrep
    return tuple(map(BenchmarkJob, nrep, nrep.values()))[:most]


def _group(cell: Cell) -> tuple[str, Shape, Elements, bool]:
    """Return what the cells of one launch have in common; the defaults of all collectives do."""
    instance, configuration = cell.instance, cell.configuration
    forced = "" if configuration.is_default else configuration.id
    is_barrier = instance.collective is Collective.BARRIER
    return forced, instance.shape, mpibenchmark.elements_of(instance), is_barrier


def _file(folder: Path, what: str, mode: BenchmarkMode) -> Path:
    return (folder / f"{what}-{mode}.txt").absolute()


def _keep(path: Path, text: str) -> None:
    with writing(path, "Is the disk full?"):
        path.write_text(text)


class _Watch:
    """Reports progress, and gives a run up when its output has not grown for too long."""

    def __init__(
        self, output_path: Path, plan: LaunchPlan, slot_s: float, progress: Callable[[], None]
    ) -> None:
        self._path, self._slot_s, self._progress = output_path, slot_s, progress
        self._start_s, self._patience_s = (s + 3 * slot_s for s in (plan.start_s, plan.patience_s))
        self._started = self._grown = time.monotonic()
        self._opened: float | None = None
        self._jobs_s = plan.budget_s
        self._began: float | None = None
        self._gave_up = False
        self._size = -1

    def __call__(self) -> bool:
        self._progress()
        now = time.monotonic()
        size = self._path.stat().st_size if self._path.exists() else -1
        if size != self._size:
            self._size, self._grown = size, now
            self._opened = self._opened or now
            if size > 0 and self._began is None:
                self._began = now
        patience_s = self._start_s if self._began is None else self._patience_s
        self._gave_up = now - self._grown >= patience_s
        return not self._gave_up and now - (self._opened or now) <= self._jobs_s

    @property
    def stuck(self) -> bool:
        """Whether the job in flight has taken far longer than it may, or the start has."""
        if not self.opened:
            return self._gave_up
        return time.monotonic() - self._grown > min(_STUCK_S + 3 * self._slot_s, self._patience_s)

    @property
    def opened(self) -> bool:
        """Whether the run came to its jobs, as far as was seen."""
        return self._opened is not None

    def launch_s(self, wall_s: float, *, whole: bool) -> float:
        """Return what a run of `wall_s` seconds took beside its jobs; `whole`: to its end."""
        if self._opened is None:
            return wall_s
        end_s = self._started + wall_s - self._grown if whole else 0.0
        return self._opened - self._started + end_s


@dataclass(frozen=True)
class _Attempt:
    """A run of mpibenchmark; ``output`` is None where it wrote nothing."""

    mode: BenchmarkMode
    jobs: tuple[BenchmarkJob, ...]
    outcome: process.ProcessResult
    output: ReproMpiOutput | None
    ending: Ending
    suspect: Cell | None
    launch_s: float
    cut: bool

    @property
    def measured_nothing(self) -> bool:
        """Whether there is no valid repetition, though it went to its end or for all its time."""
        rows = self.output.rows.values() if self.output else ()
        return self.ending not in BLAME and not any(row.n_valid for row in rows)

    @property
    def is_whole(self) -> bool:
        return self.output is not None and self.output.complete

    def loses_windows(self, slot_s: float, network: _Network) -> bool:
        """Whether most of the time went into repetitions that did not begin within their window."""
        around_s = network.around_s(self.mode)
        rows = self.output.rows if self.output else {}
        for job in self.jobs:
            row = rows.get(mpibenchmark.key_of(job.cell))
            if row and row.n_valid < job.nrep:
                used_s = row.n_valid * around_s + sum(row.times_s)
                if used_s < slot_s * max(1, len(row.visits)) / 3:
                    return True
        return False

    def result(self, launch: str, wall_s: float, round_trip_s: float | None = None) -> LaunchResult:
        """Return what it brought, the cold repetitions left out of all but the seconds timed."""
        output, message = self.output, ""
        if not self.outcome.ok:
            message = self.outcome.explain()
        elif output:
            message = "; ".join(output.errors + output.remarks)
        return LaunchResult(
            measurements=enough(possible(self._measurements(launch), round_trip_s)),
            ending=self.ending,
            timed_s=self._loops_s(),
            wall_s=wall_s,
            suspect=self.suspect,
            message=message,
            facts={
                "synchronisation": _SYNCHRONISATIONS[self.mode],
                "clock_synchronisation": (output.facts.get("clocksync") if output else "")
                or "unknown",
                **({"round_trip_s": f"{round_trip_s:.3g}"} if round_trip_s else {}),
                **({"reprompi_commit": mpibenchmark.commit_of(output)} if output else {}),
            },
            launch_s=self.launch_s,
            cut=self.cut,
        )

    def _loops_s(self) -> float:
        """Return the seconds in timed loops, what repetitions wait for each other included."""
        if self.output is None:
            return 0.0
        times_s = sum(sum(row.times_s) for row in self.output.rows.values())
        if self.ending in BLAME:
            return times_s
        return max(times_s, self.outcome.seconds - self.launch_s)

    def _measurements(self, launch: str) -> tuple[Measurement, ...]:
        """Return one measurement per cell that was timed, refused or is to blame."""
        # a cell without a repetition is one that mpibenchmark does not have, or lost its windows
        untimed = RunStatus.OK
        if self.is_whole:
            by_clocks = self.mode is BenchmarkMode.CLOCKS
            untimed = RunStatus.NO_WINDOW if by_clocks else RunStatus.NOT_APPLICABLE
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
    outcome: process.ProcessResult, output: ReproMpiOutput | None, path: Path, watch: _Watch
) -> Ending:
    if output is not None and output.complete:
        return Ending.PLAN
    refused = "ERROR" in outcome.stdout + outcome.stderr
    cut = outcome.ok and path.exists() and not refused
    # mpibenchmark does not notice a full disk: it goes on, and looks as if it hung
    if cut or _CANNOT_OPEN in outcome.stderr or disk_usage(path.parent).free < _LEAST_FREE_BYTES:
        raise say("mpibenchmark-not-written", told=outcome.explain())
    if outcome.timed_out:
        return Ending.HANG if watch.stuck else Ending.BUDGET
    if outcome.ok or not path.exists():
        raise say("did-not-start", what="mpibenchmark", why="", told=outcome.explain())
    return Ending.CRASH
