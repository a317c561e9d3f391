"""ReproMPI's ``mpibenchmark``: what it can measure, what a run is asked, and what its rows tell.

One run works through a file of jobs (call, size, repetitions) with one datatype, one operation and
one way of synchronising. It writes a job's rows when the job is done.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from colltune import process
from colltune.bench.schedule import Cell
from colltune.dataset.importers.reprompi import ReproMpiOutput, parse_output
from colltune.domain import Collective, Instance, Shape
from colltune.errors import DataError, say
from colltune.text import counted

_VARIABLE = "COLLTUNE_REPROMPI"
_MEND = (
    "build ReproMPI (https://github.com/hunsa/reprompi) with the MPI that you measure, and put its"
    f" mpibenchmark on PATH or name it in the variable {_VARIABLE}"
)
PROBED_NPROCS = 2
_PROBED_NREP = 3
_NOT_STARTED = 127
_OTHER_SYMBOLS = "symbol lookup error"
_NO_LIBRARY = "error while loading shared libraries"
_MOST_ELEMENTS = 2**31 - 2  # mpibenchmark asserts that all counts are less than INT_MAX
# measures offsets alone, as the default of later releases does; linear models take seconds per job
_OFFSETS = ("--clock-sync=SKaMPI", "--params=alg:skampi@skampi_offset@5@20")
BROADCAST_MULTIPLE = 3.0
"""A window begins so many broadcasts after it was agreed upon, unless it is told otherwise."""
ABSENT = frozenset({Collective.ALLGATHERV, Collective.ALLTOALLV})


class BenchmarkMode(StrEnum):
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
        return "dissem_barrier" if self is BenchmarkMode.COUNTED else "roundtime"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that keep releases since 2025 from synchronising clocks for nothing."""
        return {} if self is BenchmarkMode.CLOCKS else {"MPITS_PARAMS": "--clock-sync=None"}


class Elements(NamedTuple):
    """Datatype and operation of a run; the native benchmark uses the same ones."""

    datatype: str
    operation: str
    size_bytes: int


BYTES = Elements("MPI_BYTE", "MPI_BOR", 1)
INTEGERS = Elements("MPI_INT", "MPI_SUM", 4)


class BenchmarkJob(NamedTuple):
    """A visit to `cell`: up to `nrep` valid repetitions."""

    cell: Cell
    nrep: int


class Program(NamedTuple):
    """An mpibenchmark that works; ``timed``: a job can be bounded in time (releases since 2019)."""

    timed: bool
    commit: str


def find(named: str | None) -> Path:
    """Return the path of mpibenchmark: `named`, or as the environment says, or on PATH."""
    return process.find(named or os.environ.get(_VARIABLE) or "mpibenchmark", _MEND)


def probe(
    path: Path, start: Callable[[Sequence[str | Path], BenchmarkMode], process.ProcessResult]
) -> Program:
    """Run `path` briefly by `start`, on two processes, and return what it proved to be."""
    what = ("--calls-list=MPI_Bcast", "--msizes-list=8", f"--nrep={_PROBED_NREP}")
    for mode in (BenchmarkMode.TIMED, BenchmarkMode.COUNTED):
        outcome = start([path, *what, *options(mode, BYTES, 1.0)], mode)
        output = _answer(path, outcome)
        rows = output.rows.values() if output and outcome.ok and output.complete else ()
        if output and any(row.n_valid == _PROBED_NREP for row in rows):
            return Program(mode is BenchmarkMode.TIMED, commit_of(output))
    told = outcome.explain()
    raise say("useless-benchmark", path=path, why="cannot measure", mend=_MEND, told=told)


def commit_of(output: ReproMpiOutput) -> str:
    """Return the revision that wrote `output`."""
    return output.facts.get("reproMPIcommitSHA1", "unknown")


def clocks(
    path: Path, start: Callable[[Sequence[str | Path], BenchmarkMode], process.ProcessResult]
) -> str:
    """Return which clocks `path` keeps windows by on two processes; empty if it keeps none."""
    what = ("--calls-list=MPI_Bcast", "--msizes-list=8", f"--nrep={_PROBED_NREP}")
    outcome = start([path, *what, *options(BenchmarkMode.CLOCKS, BYTES, 1.0)], BenchmarkMode.CLOCKS)
    output = _answer(path, outcome)
    kept = output and any(row.n_valid for row in output.rows.values())
    return output.facts.get("clocksync", "") if output and kept else ""


def _answer(path: Path, outcome: process.ProcessResult) -> ReproMpiOutput | None:
    """Return what mpibenchmark said; None if it is one but refuses the options."""
    why, mend = "", _MEND
    if _OTHER_SYMBOLS in outcome.stderr:
        why = "was built for another MPI than the one that starts it"
    elif outcome.returncode == _NOT_STARTED or _NO_LIBRARY in outcome.stderr:
        why = "does not start, because a shared library is missing"
        mend = "add the folder of libmpits to LD_LIBRARY_PATH (colltune doctor looks for it)"
    elif outcome.timed_out:
        why = "does not finish"
    elif "#@nprocs=1\n" in outcome.stdout:
        raise say("built-for-another-mpi", path=path, probed_nprocs=PROBED_NPROCS, mend=_MEND)
    elif outcome.returncode and not outcome.stdout:
        why = "was not started, or is not ReproMPI's mpibenchmark"
        mend = f"If the launcher's words say why, mend that; otherwise {_MEND}"
    elif "#command-line arguments:" not in outcome.stdout.lower():
        why = "is not ReproMPI's mpibenchmark"
    if why:
        raise say("useless-benchmark", path=path, why=why, mend=mend, told=outcome.explain())
    try:
        return parse_output(outcome.stdout, str(path))
    except DataError:
        return None


def elements_of(instance: Instance) -> Elements:
    """Return integers for a reduction of whole integers, else bytes."""
    whole = instance.msize_bytes % INTEGERS.size_bytes == 0
    return INTEGERS if instance.collective.reduces and whole else BYTES


def why_not(instance: Instance) -> str:
    """Return why mpibenchmark cannot measure `instance`; empty if it can."""
    collective, nprocs = instance.collective, instance.shape.nprocs
    if collective in ABSENT:
        return f"mpibenchmark has no {collective.mpi_name}"
    if collective is Collective.BARRIER:
        return "" if instance.msize_bytes == 0 else "a barrier has no message"
    if instance.msize_bytes == 0:
        return "mpibenchmark cannot measure empty messages"
    size_bytes = elements_of(instance).size_bytes
    if instance.msize_bytes % (size_bytes * _ranks_sharing(instance)):
        return (
            "mpibenchmark scatters equal blocks only, and this size cannot be divided among "
            f"{counted(nprocs, 'process', 'es')}"
        )
    scattered = collective.has_block_per_rank or collective is Collective.REDUCE_SCATTER
    blocks = nprocs if scattered else 1
    if _asked_bytes(instance) // size_bytes * blocks > _MOST_ELEMENTS:
        return "the buffer has more elements than mpibenchmark can count"
    return ""


def _asked_bytes(instance: Instance) -> int:
    """Return the size that mpibenchmark is asked for: of reduce_scatter the block per process."""
    if instance.collective is Collective.BARRIER:
        return BYTES.size_bytes
    return instance.msize_bytes // _ranks_sharing(instance)


def _ranks_sharing(instance: Instance) -> int:
    """Return how many ranks share the message that is ours, where ReproMPI's is one rank's."""
    return instance.shape.nprocs if instance.collective is Collective.REDUCE_SCATTER else 1


def job_file(jobs: Iterable[BenchmarkJob]) -> str:
    return "".join(
        f"{cell.instance.collective.mpi_name} {_asked_bytes(cell.instance)} {nrep}\n"
        for cell, nrep in jobs
    )


def options(
    mode: BenchmarkMode, elements: Elements, slot_s: float, multiple: float = BROADCAST_MULTIPLE
) -> tuple[str, ...]:
    """Return the options of a run whose jobs take up to `slot_s` seconds each.

    `multiple` is how many broadcasts lie between agreeing on a window and its beginning. The last
    option must stay the last one: any option behind it resets it. ``--clock-sync`` is for the
    releases before 2025; later ones choose by the environment and ignore it.
    """
    words = [f"--datatype={elements.datatype}", f"--operation={elements.operation}"]
    words.append(f"--proc-sync={mode.synchronisation}")
    if mode is not BenchmarkMode.COUNTED:
        words.append(f"--rt-bench-time-ms={slot_s * 1e3:.3f}")
    words += _OFFSETS if mode is BenchmarkMode.CLOCKS else ("--clock-sync=None",)
    if mode is BenchmarkMode.CLOCKS and multiple != BROADCAST_MULTIPLE:
        words.append(f"--bcast-mult={multiple:g}")
    if mode is BenchmarkMode.TIMED:
        # from messages of this many elements on a barrier starts a repetition, clocks or not
        words.append("--rt-barrier-count=0")
    return (*words, "--runtime-type=local")


def network_job(shape: Shape, nrep: int) -> tuple[str, tuple[str, ...]]:
    """Return the jobs and options that measure round trips and a small broadcast on `shape`."""
    other = shape.ppn if shape.nodes > 1 else shape.nprocs - 1
    jobs = f"Send_Recv {BYTES.size_bytes} {nrep}\nMPI_Bcast 8 {nrep}\n"
    return jobs, (f"--pingpong-ranks=0,{other}",)


def broadcast_s(output: ReproMpiOutput | None) -> float | None:
    """Return how long ReproMPI's own small broadcast took, which windows are laid out by."""
    told = (output.facts if output else {}).get("bcast_runtime_s", "")
    try:
        return float(told) or None
    except ValueError:
        return None


def read(output_path: Path) -> ReproMpiOutput | None:
    """Return what mpibenchmark wrote; None if it has not come to write anything."""
    try:
        text = output_path.read_text(errors="replace")
    except FileNotFoundError:
        return None
    return parse_output(text, str(output_path)) if "#@nprocs=" in text else None


def contradictions(
    output: ReproMpiOutput, mode: BenchmarkMode, jobs: Sequence[BenchmarkJob]
) -> str:
    """Return what a run did otherwise than asked; it ignores what it does not understand."""
    instance = jobs[0].cell.instance
    elements = elements_of(instance)
    asked = {
        "nprocs": str(instance.shape.nprocs),
        "datatype": elements.datatype,
        "operation": elements.operation,
        "procsync": mode.synchronisation,
        "runtime_type": "local",
    }
    wrong = [
        f"{name} is {output.facts[name]} instead of {value}"
        for name, value in asked.items()
        if output.facts.get(name, value) != value
    ]
    if mode is BenchmarkMode.CLOCKS and output.facts.get("clocksync", "").lower() == "none":
        wrong.append("clocksync is None, so that there are no windows (does MPITS_PARAMS say so?)")
    unasked = sorted(set(output.rows) - {key_of(job.cell) for job in jobs})
    wrong += [
        f"it measured {c} of {counted(m, 'byte')}, which was not asked for"
        for c, m in unasked[: not wrong]
    ]
    return ", ".join(wrong)


def warm_times_s(output: ReproMpiOutput | None, cell: Cell) -> tuple[float, ...]:
    """Return the cell's repetitions without the first of each visit, unless it is the only one."""
    # its buffers have never been touched before; the native benchmark does not time them either
    row = output.rows.get(key_of(cell)) if output else None
    if row is None:
        return ()
    ends = (*row.visits[1:], len(row.times_s))
    kept: list[float] = []
    for first, end in zip(row.visits, ends, strict=True):
        kept += row.times_s[first + (end - first > 1) : end]
    return tuple(kept)


def in_flight(jobs: Sequence[BenchmarkJob], output: ReproMpiOutput | None) -> Cell | None:
    """Return the cell that a run that broke off was at; None if all jobs were done."""
    rows = output.rows if output else {}
    left = Counter({key: len(row.visits) for key, row in rows.items()})
    current = 0
    for index, job in enumerate(jobs):
        key = key_of(job.cell)
        if left[key] > 0:
            left[key] -= 1
            current = index + 1
    return jobs[current].cell if current < len(jobs) else None


def key_of(cell: Cell) -> tuple[Collective, int]:
    """Return the name of the cell's row in a run's output."""
    return cell.instance.collective, cell.instance.msize_bytes
