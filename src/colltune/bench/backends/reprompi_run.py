"""One start of ReproMPI's ``mpibenchmark``: watching it, reading what it wrote, judging its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage

from colltune import process
from colltune.bench.backends import reprompi_jobs
from colltune.bench.backends.protocol import Ending
from colltune.bench.backends.reprompi_jobs import Elements, Job, Mode
from colltune.bench.schedule import Cell
from colltune.dataset.importers.reprompi import ReproMpiOutput, parse
from colltune.domain import Measurement, RunStatus, Shape
from colltune.errors import OutputError, ProgramError

_SILENCE_S = 15.0
_STUCK_S = 5.0
_LEAST_FREE_BYTES = 4096
_CANNOT_OPEN = "Cannot open output file"
_BLAME = {Ending.CRASH: RunStatus.CRASH, Ending.HANG: RunStatus.TIMEOUT}
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
    """Reports progress, and gives a start up when it has been silent for too long.

    Its output grows whenever a job is done.
    """

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
        blamed = {self.suspect: _BLAME[self.ending]} if self.suspect else {}
        found = []
        for cell in self.request.cells:
            times_s = _times_s(self.output, cell)
            status = blamed.get(cell, RunStatus.OK)
            if status is RunStatus.OK and not times_s and self._refused:
                status = RunStatus.NOT_APPLICABLE
            if status is not RunStatus.OK or times_s:
                times_s = times_s if status is RunStatus.OK else ()
                measured = (cell.instance, cell.configuration, launch, status, times_s)
                found.append(Measurement(*measured))
        return tuple(found)

    @property
    def _refused(self) -> bool:
        """Whether a cell without a repetition is one that mpibenchmark does not have."""
        whole = self.output is not None and self.output.complete
        return whole and self.request.mode is not Mode.CLOCKS


def judged(request: Request, outcome: process.Outcome, output_path: Path, watch: Watch) -> Attempt:
    """Return how a start went."""
    output = read(output_path)
    if output is not None:
        _check(request, output, output_path)
    ending = _ending(outcome, output, output_path, watch)
    suspect = None
    if ending in _BLAME and output_path.exists():
        index = reprompi_jobs.in_flight(request.jobs, output)
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
    timed = [(cell, _times_s(output, cell)) for cell in cells]
    return tuple(
        Measurement(cell.instance, cell.configuration, launch, RunStatus.OK, times_s)
        for cell, times_s in timed
        if times_s
    )


def _times_s(output: ReproMpiOutput | None, cell: Cell) -> tuple[float, ...]:
    row = output.rows.get(reprompi_jobs.key_of(cell)) if output else None
    return reprompi_jobs.warm_times_s(row) if row else ()


def _check(request: Request, output: ReproMpiOutput, path: Path) -> None:
    """Hold a run against its request: mpibenchmark ignores what it does not understand."""
    asked = {reprompi_jobs.key_of(cell) for cell in request.cells}
    wrong = reprompi_jobs.contradictions(
        output, request.mode, request.elements, request.shape.nprocs
    )
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
