"""Real MPIs for tests: found, with test programs compiled for them, and what these preload.

COLLTUNE_TEST_MPI, COLLTUNE_TEST_MPICH and COLLTUNE_TEST_INTELMPI name an mpirun, or the folder of
an installation, other than those found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process
from colltune.bench import build
from colltune.bench.backends.native import NativeBackend
from colltune.domain import Shape
from colltune.errors import ProgramError
from colltune.mpi import installation, trace
from colltune.mpi.installation import Installation
from colltune.mpi.libcolltune import NATIVE
from tests.integration.install import VARIABLES

SOURCES = Path(__file__).parent
OF_LIBCOLLTUNE = NATIVE / "tests"
HEADERS = tuple(f"-I{NATIVE / folder}" for folder in ("include", "src"))
TIMEOUT_S = 120.0
# what would decide in the place of a test
DECIDING = ("OMPI_MCA_coll", "COLLTUNE_", "MPIR_CVAR_", "I_MPI_ADJUST", "I_MPI_TUNING")
# more processes than processors, of which who waits must let others run; one host, no network
QUIET = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml": "ob1",
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
    "I_MPI_FABRICS": "shm",
}
# on a busy machine mpirun gives up now and then before it starts anything
_NOT_STARTED, _STARTS = "listener thread failed to start", 3


def on_request(variable: str) -> None:
    """Skip what takes minutes unless `variable` names an MPI, as ``make test-mpi`` lets it."""
    if not os.environ.get(variable):
        pytest.skip(f"compares hundreds of calls; {variable} is not set, make test-mpi sets it")


def installed(library: str | None = None) -> Installation:
    """Return the installation of a library, or the first one found, or skip with the reason."""
    try:
        return installation.find(os.environ.get(VARIABLES[library or "openmpi"]), library)
    except ProgramError as error:
        pytest.skip(str(error))


def native_backend(library: str | None = None) -> NativeBackend:
    """Return the native backend for an installation, or skip with the reason."""
    return NativeBackend(installed(library))


def _source(name: str) -> Path:
    """Return a source of this folder, or else of libcolltune's tests."""
    return next(p for folder in (SOURCES, OF_LIBCOLLTUNE) if (p := folder / name).exists())


@dataclass(frozen=True)
class Real:
    """An installed MPI, a folder for what is compiled for it, and what its programs preload."""

    installation: Installation
    folder: Path
    preload: str = ""

    @property
    def release(self) -> str:
        """The release under test."""
        return self.installation.release

    @property
    def crowded(self) -> tuple[str, ...]:
        """The launcher's options for more processes than processors."""
        return ("--oversubscribe",) if self.installation.library == "openmpi" else ()

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a launch with `more`, in which nothing else decides."""
        free = {n: v for n, v in os.environ.items() if not n.startswith(DECIDING)}
        return free | QUIET | self.installation.launch_environment() | dict(more or {})

    def compiled(self, *sources: str, options: Sequence[object] = ()) -> Path:
        """Return the program that tests' sources make, compiled at the first use."""
        program = self.folder / f"{Path(sources[0]).stem}-{self.installation.library}"
        if not program.exists():
            words = ["-O1", "-pthread", "-o", program, *map(_source, sources)]
            command = map(str, [self.installation.mpicc, *words, *options, "-ldl"])
            outcome = process.run([*command], timeout_s=TIMEOUT_S, env=self.environment())
            process.check(outcome, f"compiling {sources[0]}")
        return program

    def run(
        self,
        nprocs: int,
        command: Sequence[object],
        environment: Mapping[str, str] | None = None,
        *,
        preload: str | None = None,
        options: Sequence[str] | None = None,
        before: Sequence[str] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> process.ProcessResult:
        """Run `command`; `options` go to the launcher, `before` stands in front of it."""
        mpi, loaded = self.installation, self.preload if preload is None else preload
        options = self.crowded if options is None else options
        words = ["env", f"LD_PRELOAD={loaded}"] if loaded else []
        return process.run(
            [*before, mpi.mpirun, "-n", str(nprocs), *options, *words, *map(str, command)],
            timeout_s=timeout_s,
            env=self.environment(environment),
        )


def with_libcolltune(folder: Path, library: str | None = None) -> Real:
    """Return an MPI whose programs preload libcolltune, or skip with the reason."""
    found = installed(library)
    return Real(found, folder, str(build.interposed_library(found)))


# ---- Open MPI, whose functions a tracer shows ----


@dataclass(frozen=True)
class RealMpi(Real):
    """An Open MPI with the call tracer, what is preloaded behind it, and the program of calls."""

    tracer: Path = Path()
    behind: tuple[Path, ...] = ()
    program: Path = Path()

    def call(
        self,
        nprocs: int,
        steps: Sequence[str],
        environment: Mapping[str, str],
        options: Sequence[str] = ("--oversubscribe",),
        before: Sequence[str] = (),
    ) -> process.ProcessResult:
        """Run the test program with the tracer."""
        traced = (*trace.launch_options(self.tracer, *self.behind), *options)
        command = (self.program, *steps)
        return self.run(nprocs, command, environment, options=traced, before=before)

    def observe(
        self, nprocs: int, steps: Sequence[str], environment: Mapping[str, str], *how: Sequence[str]
    ) -> list[trace.Observation]:
        """Run the test program as `call` does; insist on right results, and return what ran."""
        for _ in range(_STARTS):
            outcome = self.call(nprocs, steps, environment, *how)
            if outcome.ok or _NOT_STARTED not in outcome.stderr:
                break
        assert outcome.ok, outcome.explain()
        assert "WRONG" not in outcome.stderr
        return trace.observed(outcome.stderr)


def traced_openmpi(folder: Path) -> RealMpi:
    """Return the Open MPI under test, or skip with the reason."""
    if reason := trace.unavailable():
        pytest.skip(reason)
    found = installed()
    try:
        tracer = trace.build(found, folder)
    except ProgramError as error:
        pytest.skip(str(error))
    return RealMpi(found, folder, "", tracer, program=Real(found, folder).compiled("calls.c"))


# ---- MPICH, whose messages a preloaded library shows ----

# every process its own node, so that all messages pass UCX
ALL_VISIBLE = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "posix,self", "MPIR_CVAR_CH4_NETMOD": "ucx"}
Traffic = tuple[tuple[int, ...], ...]
"""For one call the bytes of the messages that each rank sent, in order."""


class RealMpich(Real):
    """An MPICH; `preload` shows the messages that it sends."""

    def call(
        self, nprocs: int, steps: Sequence[str], environment: Mapping[str, str]
    ) -> process.ProcessResult:
        """Run the test program without watching messages."""
        return self.run(nprocs, [self.compiled("calls.c"), *steps], environment, preload="")

    def traffic(self, nprocs: int, steps: Sequence[str], *how: Mapping[str, str]) -> list[Traffic]:
        """Return the messages of calls that all ranks make; else as `by_rank`."""
        by_rank = self.by_rank(nprocs, steps, *how)
        return [tuple(ranks) for ranks in zip(*by_rank, strict=True)]

    def by_rank(
        self,
        nprocs: int,
        steps: Sequence[str],
        environment: Mapping[str, str] | None = None,
        visible: Mapping[str, str] = ALL_VISIBLE,
    ) -> list[list[tuple[int, ...]]]:
        """Run the test program, insist on right results, and return each rank's messages."""
        watched = {**visible, **(environment or {})}
        outcome = self.run(nprocs, [self.compiled("calls.c"), *steps], watched)
        assert outcome.ok, outcome.explain()
        assert "WRONG" not in outcome.stderr, outcome.stderr
        return _sent(outcome.stderr.splitlines(), nprocs)


def _sent(lines: Iterable[str], nprocs: int) -> list[list[tuple[int, ...]]]:
    """Return each rank's messages in what the test program and the preloaded library print."""
    by_rank: list[list[list[int]]] = [[] for _ in range(nprocs)]
    within = [False] * nprocs
    for line in lines:
        words = line.split()
        if len(words) < 2 or words[0] not in ("CALL", "DONE", "SEND") or not words[1].isdigit():
            continue
        rank = int(words[1])
        if words[0] == "SEND":
            if within[rank]:
                by_rank[rank][-1].append(int(words[2]))
            continue
        within[rank] = words[0] == "CALL"
        if within[rank]:
            by_rank[rank].append([])
    return [[tuple(call) for call in calls] for calls in by_rank]


def visible_mpich(folder: Path) -> RealMpich:
    """Return the MPICH under test, or skip the test with the reason."""
    plain = Real(installed("mpich"), folder)
    sends = plain.compiled("sends.c", options=("-fPIC", "-shared"))
    real = RealMpich(plain.installation, folder, str(sends))
    if not any(real.traffic(2, ["bcast:64"])[0]):
        pytest.skip(f"{real.installation.mpirun} does not send by UCX, or not visibly")
    return real


# ---- a program whose ranks tell where they are ----

TOLD = {"COLLTUNE_TOLD": "it"}
# quiet and cheap, also where nodes are emulated
TRANSPORT = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm,tcp",
}


def said(output: str) -> list[str]:
    """Return the ranks' lines of what where.c prints."""
    return sorted(line for line in output.splitlines() if line.startswith("rank"))


def expected(shape: Shape, hosts: Sequence[str]) -> list[str]:
    """Return what the ranks say where `shape` was started on the first of `hosts`."""
    return sorted(
        f"rank {rank} of {shape.nprocs} on {hosts[rank // shape.ppn]}, told it"
        for rank in range(shape.nprocs)
    )
