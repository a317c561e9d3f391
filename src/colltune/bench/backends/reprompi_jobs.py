"""What ReproMPI's ``mpibenchmark`` is asked, and how its rows are matched with it; pure functions.

One run works through a file of jobs (call, size, repetitions) with one datatype, one operation and
one way of synchronising. It writes a job's rows when the job is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from colltune.bench.schedule import Cell
from colltune.dataset.importers.reprompi import ReproMpiCell, ReproMpiOutput
from colltune.domain import Collective, Instance

_MOST_ELEMENTS = 2**31 - 2  # mpibenchmark asserts that all counts are less than INT_MAX
# measures offsets alone, as the default of later releases does; linear models take seconds per job
_OFFSETS = ("--clock-sync=SKaMPI", "--params=alg:skampi@skampi_offset@5@20")
_ABSENT = frozenset({Collective.ALLGATHERV, Collective.ALLTOALLV})
_REDUCING = frozenset(
    {
        Collective.ALLREDUCE,
        Collective.EXSCAN,
        Collective.REDUCE,
        Collective.REDUCE_SCATTER,
        Collective.REDUCE_SCATTER_BLOCK,
        Collective.SCAN,
    }
)
_BLOCK_PER_RANK = frozenset(
    {
        Collective.ALLGATHER,
        Collective.ALLTOALL,
        Collective.GATHER,
        Collective.REDUCE_SCATTER,
        Collective.REDUCE_SCATTER_BLOCK,
        Collective.SCATTER,
    }
)


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
    return INTEGERS if instance.collective in _REDUCING and whole else BYTES


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
    blocks = nprocs if collective in _BLOCK_PER_RANK else 1
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
    """Return the repetitions without the first of each visit, unless it is the visit's only one.

    Its buffers have never been touched before; the native benchmark's first call is not timed
    either.
    """
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
