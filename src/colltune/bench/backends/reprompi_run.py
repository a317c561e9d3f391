"""One start of ReproMPI's ``mpibenchmark``: what it is asked, how it is watched, how it ended.

One run works through a file of jobs (call, size, repetitions) with one datatype, one operation and
one way of synchronising. It writes a job's rows when the job is done.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from shutil import disk_usage

from colltune import process
from colltune.bench.backends.protocol import Ending
from colltune.bench.schedule import Cell
from colltune.dataset.importers.reprompi import ReproMpiCell, ReproMpiOutput, parse
from colltune.domain import (
    Collective,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import OutputError, ProgramError

_MOST_ELEMENTS = 2**31 - 2  # mpibenchmark asserts that all counts are less than INT_MAX
# measures offsets alone, as the default of later releases does; linear models take seconds per job
_OFFSETS = ("--clock-sync=SKaMPI", "--params=alg:skampi@skampi_offset@5@20")
_ABSENT = frozenset({Collective.ALLGATHERV, Collective.ALLTOALLV})
_SILENCE_S = 15.0
_STUCK_S = 5.0
_LEAST_FREE_BYTES = 4096
_CANNOT_OPEN = "Cannot open output file"
_BLAME = {Ending.CRASH: RunStatus.CRASH, Ending.HANG: RunStatus.TIMEOUT}


class Mode(StrEnum):
    """How a repetition starts, and what ends a job.

    ``clocks``: at a time agreed upon by synchronised clocks, until the job's time is up; ``timed``:
    after the library's barrier, until the job's time is up; ``counted``: after a dissemination
    barrier of ReproMPI's own, for a number of repetitions.
    """

    CLOCKS = "clocks"
    TIMED = "timed"
    COUNTED = "counted"

    @property
    def synchronisation(self) -> str:
        """Name of ReproMPI's method, as its output tells it."""
        return "dissem_barrier" if self is Mode.COUNTED else "roundtime"


@dataclass(frozen=True)
class Elements:
    """Datatype and operation of a run; the native benchmark uses the same ones."""

    datatype: str
    operation: str
    size_bytes: int


BYTES = Elements("MPI_BYTE", "MPI_BOR", 1)
INTEGERS = Elements("MPI_INT", "MPI_SUM", 4)


@dataclass(frozen=True)
class Job:
    """A visit to `cell`: up to `nrep` valid repetitions."""

    cell: Cell
    nrep: int


def elements_of(instance: Instance) -> Elements:
    """Return integers for a reduction of whole integers, else bytes."""
    whole = instance.msize_bytes % INTEGERS.size_bytes == 0
    return INTEGERS if instance.collective.reduces and whole else BYTES


def why_not(instance: Instance) -> str:
    """Return why mpibenchmark cannot measure `instance`; empty if it can."""
    collective, nprocs = instance.collective, instance.shape.nprocs
    if collective in _ABSENT:
        return f"mpibenchmark has no {collective.mpi_name}"
    if collective is Collective.BARRIER:
        return "" if instance.msize_bytes == 0 else "a barrier has no message"
    if instance.msize_bytes == 0:
        return "mpibenchmark measures no empty messages"
    size_bytes = elements_of(instance).size_bytes
    if instance.msize_bytes % (size_bytes * _ranks_sharing(instance)):
        return f"mpibenchmark scatters equal blocks only, and {nprocs} processes cannot have them"
    scattered = collective.has_block_per_rank or collective is Collective.REDUCE_SCATTER
    blocks = nprocs if scattered else 1
    if asked_bytes(instance) // size_bytes * blocks > _MOST_ELEMENTS:
        return "the buffer has more elements than mpibenchmark can count"
    return ""


def asked_bytes(instance: Instance) -> int:
    """Return the size that mpibenchmark is asked for: of reduce_scatter the block per process."""
    if instance.collective is Collective.BARRIER:
        return BYTES.size_bytes
    return instance.msize_bytes // _ranks_sharing(instance)


def _ranks_sharing(instance: Instance) -> int:
    """Return how many ranks share the message that is ours, where ReproMPI's is one rank's."""
    return instance.shape.nprocs if instance.collective is Collective.REDUCE_SCATTER else 1


def job_file(jobs: Iterable[Job]) -> str:
    """Return the text of the input file that lists `jobs`."""
    return "".join(
        f"{job.cell.instance.collective.mpi_name} {asked_bytes(job.cell.instance)} {job.nrep}\n"
        for job in jobs
    )


def options(
    mode: Mode, elements: Elements, slot_s: float, jobs_path: Path, output_path: Path
) -> tuple[str, ...]:
    """Return the options of a run whose jobs take up to `slot_s` seconds each.

    The last one must stay the last one: any option behind it resets it. ``--clock-sync`` is for the
    releases before 2025; later ones choose by themselves (see `environment`) and ignore it.
    """
    words = [f"--input-file={jobs_path}", f"--output-file={output_path}"]
    words += [f"--datatype={elements.datatype}", f"--operation={elements.operation}"]
    words.append(f"--proc-sync={mode.synchronisation}")
    if mode is not Mode.COUNTED:
        words.append(f"--rt-bench-time-ms={slot_s * 1e3:.3f}")
    words += _OFFSETS if mode is Mode.CLOCKS else ("--clock-sync=None",)
    if mode is Mode.TIMED:
        # from messages of this many elements on a barrier starts a repetition, clocks or not
        words.append("--rt-barrier-count=0")
    return (*words, "--runtime-type=local")


def environment(mode: Mode) -> dict[str, str]:
    """Return the variables that keep releases since 2025 from synchronising clocks for nothing."""
    return {} if mode is Mode.CLOCKS else {"MPITS_PARAMS": "--clock-sync=None"}


def contradictions(output: ReproMpiOutput, mode: Mode, elements: Elements, nprocs: int) -> str:
    """Return what a run did otherwise than asked; it ignores what it does not understand."""
    asked = {
        "nprocs": str(nprocs),
        "datatype": elements.datatype,
        "operation": elements.operation,
        "procsync": mode.synchronisation,
        "runtime_type": "local",
    }
    return ", ".join(
        f"{name} is {output.facts[name]} instead of {value}"
        for name, value in asked.items()
        if output.facts.get(name, value) != value
    )


def warm_times_s(row: ReproMpiCell) -> tuple[float, ...]:
    """Return the repetitions without the first of each visit, unless it is the visit's only one."""
    ends = (*row.visits[1:], len(row.times_s))
    kept: list[float] = []
    for first, end in zip(row.visits, ends, strict=True):
        kept += row.times_s[first + (end - first > 1) : end]
    return tuple(kept)


def in_flight(jobs: Sequence[Job], output: ReproMpiOutput | None) -> int | None:
    """Return the index of the job that a run that broke off was at; None if all were done."""
    rows = output.rows if output else {}
    left = Counter({key: len(row.visits) for key, row in rows.items()})
    current = 0
    for index, job in enumerate(jobs):
        key = key_of(job.cell)
        if left[key] > 0:
            left[key] -= 1
            current = index + 1
    return current if current < len(jobs) else None


def key_of(cell: Cell) -> tuple[Collective, int]:
    """Return the name of the cell's row in a run's output."""
    return cell.instance.collective, cell.instance.msize_bytes


_SYNCHRONISATIONS = {
    Mode.CLOCKS: "start time agreed upon by synchronised clocks (ReproMPI's roundtime)",
    Mode.TIMED: "the library's barrier before each repetition (ReproMPI's roundtime)",
    Mode.COUNTED: "dissemination barrier before each repetition (ReproMPI's dissem_barrier)",
}


@dataclass(frozen=True)
class Request:
    """What one start of mpibenchmark is asked: its jobs, each of at most ``slot_s`` seconds."""

    mode: Mode
    elements: Elements
    shape: Shape
    jobs: tuple[Job, ...]
    slot_s: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that are visited, each once."""
        return tuple(dict.fromkeys(job.cell for job in self.jobs))


class Watch:
    """Reports progress, and gives a start up when it has been silent for too long."""

    def __init__(self, output_path: Path, slot_s: float, progress: Callable[[], None]) -> None:
        self._path, self._slot_s, self._progress = output_path, slot_s, progress
        self._grown = time.monotonic()
        self._began: float | None = None
        self._size = -1

    def __call__(self) -> bool:
        """Tell whether to wait on."""
        self._progress()
        now = time.monotonic()
        try:
            size = self._path.stat().st_size
        except OSError:
            size = -1
        if size != self._size:
            self._size, self._grown = size, now
            if size > 0 and self._began is None:
                self._began = now
        return now - self._grown < _SILENCE_S + 3 * self._slot_s

    @property
    def stuck(self) -> bool:
        """Whether the job in flight has taken far longer than it may."""
        return time.monotonic() - self._grown > _STUCK_S + 3 * self._slot_s

    def around_s(self, wall_s: float) -> float:
        """Return what a start of `wall_s` seconds took beside its jobs."""
        began = self._grown if self._began is None else self._began
        return wall_s - (self._grown - began)


@dataclass(frozen=True)
class Attempt:
    """How a start of mpibenchmark went; ``output`` is None where it wrote nothing."""

    request: Request
    outcome: process.Outcome
    output: ReproMpiOutput | None
    ending: Ending
    suspect: Cell | None

    @property
    def measured_nothing(self) -> bool:
        """Whether there is no valid repetition, though it went to its end or for all its time."""
        rows = self.output.rows.values() if self.output else ()
        went_on = self.ending in (Ending.PLAN, Ending.BUDGET)
        return went_on and not any(row.n_valid for row in rows)

    @property
    def timed_s(self) -> float:
        """Seconds in repetitions, the cold ones included."""
        return sum(sum(row.times_s) for row in self.output.rows.values()) if self.output else 0.0

    @property
    def facts(self) -> dict[str, str]:
        """What the start tells of itself."""
        clocks = self.output.clocksync if self.output else ""
        return {
            "synchronisation": _SYNCHRONISATIONS[self.request.mode],
            "clock_synchronisation": clocks or "unknown",
        }

    @property
    def message(self) -> str:
        """What the program said where it failed, and what it left out."""
        if not self.outcome.ok:
            return self.outcome.explain()
        return "; ".join(self.output.errors + self.output.remarks) if self.output else ""

    def measurements(self, launch: str) -> tuple[Measurement, ...]:
        """Return one measurement per cell that was timed, refused or is to blame."""
        # a cell without a repetition is one that mpibenchmark does not have
        whole = self.output is not None and self.output.complete
        refuses = whole and self.request.mode is not Mode.CLOCKS
        found = []
        for cell in self.request.cells:
            times_s = _times_s(self.output, cell)
            status = RunStatus.NOT_APPLICABLE if refuses and not times_s else RunStatus.OK
            if cell == self.suspect:
                status, times_s = _BLAME[self.ending], ()
            if times_s or status is not RunStatus.OK:
                found.append(
                    Measurement(cell.instance, cell.configuration, launch, status, times_s)
                )
        return tuple(found)


def judged(request: Request, outcome: process.Outcome, output_path: Path, watch: Watch) -> Attempt:
    """Return how a start went."""
    output = read(output_path)
    if output is not None:
        _check(request, output, output_path)
    ending = _ending(outcome, output, output_path, watch)
    suspect = None
    if ending in _BLAME and output_path.exists():
        index = in_flight(request.jobs, output)
        suspect = None if index is None else request.jobs[index].cell
    return Attempt(request, outcome, output, ending, suspect)


def keep(path: Path, text: str) -> None:
    """Write `text` beside a launch's output."""
    try:
        path.write_text(text)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; is the disk full?") from error


def read(output_path: Path) -> ReproMpiOutput | None:
    """Return what mpibenchmark wrote; None if it has not come to write anything."""
    try:
        text = output_path.read_text(errors="replace")
    except FileNotFoundError:
        return None
    return parse(text, str(output_path)) if "#@nprocs=" in text else None


def salvaged(
    output: ReproMpiOutput | None, cells: Sequence[Cell], launch: str
) -> tuple[Measurement, ...]:
    """Return the cells of a killed launch that were timed."""
    return tuple(
        Measurement(cell.instance, cell.configuration, launch, RunStatus.OK, times_s)
        for cell in cells
        if (times_s := _times_s(output, cell))
    )


def _times_s(output: ReproMpiOutput | None, cell: Cell) -> tuple[float, ...]:
    row = output.rows.get(key_of(cell)) if output else None
    return warm_times_s(row) if row else ()


def _check(request: Request, output: ReproMpiOutput, path: Path) -> None:
    """Hold a run against its request: mpibenchmark ignores what it does not understand."""
    asked = {key_of(cell) for cell in request.cells}
    wrong = contradictions(output, request.mode, request.elements, request.shape.nprocs)
    for collective, msize_bytes in sorted(set(output.rows) - asked):
        wrong = wrong or f"{collective} of {msize_bytes} bytes was not asked for"
    if wrong:
        raise ProgramError(f"{path}: mpibenchmark did otherwise than asked: {wrong}")


def _ending(
    outcome: process.Outcome, output: ReproMpiOutput | None, path: Path, watch: Watch
) -> Ending:
    if output is not None and output.complete:
        return Ending.PLAN
    refused = "ERROR" in outcome.stdout + outcome.stderr
    cut = outcome.ok and path.exists() and not refused
    # mpibenchmark does not notice a full disk: it goes on, and looks as if it hung
    if cut or _CANNOT_OPEN in outcome.stderr or disk_usage(path.parent).free < _LEAST_FREE_BYTES:
        raise OutputError(
            "mpibenchmark cannot write its raw output; is the disk full?"
            f" What was measured before is kept\n{outcome.explain()}"
        )
    if outcome.timed_out:
        return Ending.HANG if watch.stuck else Ending.BUDGET
    if outcome.ok or not path.exists():
        raise ProgramError(f"mpibenchmark did not begin\n{outcome.explain()}")
    return Ending.CRASH
