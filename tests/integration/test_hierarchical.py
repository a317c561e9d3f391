"""The hierarchical allgather and the ring allreduce of libcolltune, with real MPI libraries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process
from colltune.bench.build import interposed_library
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts, skip_without

pytestmark = pytest.mark.mpi
HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "src/colltune/mpi/libcolltune/native"
FORCED = (
    "colltune.allreduce.ring:exchange=ring,leaders=1"
    ";colltune.allgather.hierarchical:exchange=ring,leaders=1"
)
TIMEOUT_S = 120.0
LONG = "COLLTUNE_TEST_HIERARCHICAL"


@dataclass(frozen=True)
class Program:
    """The program of random calls, compiled for one MPI, and the library preloaded into it."""

    mpi: Installation
    calls: Path
    library: Path

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a launch."""
        quiet = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_pml": "ob1"}
        own = {"LD_PRELOAD": str(self.library), "COLLTUNE_FORCE": FORCED}
        return dict(os.environ) | self.mpi.launch_environment() | quiet | own | dict(more)

    def check(self, nprocs: int, ppn: int, seed: int, cases: int) -> process.Outcome:
        """Run random cases on nodes of `ppn` processes each, laid over this host by rank."""
        return self.run(nprocs, ppn, [str(seed), str(cases)])

    def run(self, nprocs: int, ppn: int, arguments: Sequence[str]) -> process.Outcome:
        """Run the program on nodes of `ppn` processes each, laid over this host by rank."""
        crowded = ["--oversubscribe"] if self.mpi.library == "openmpi" else []
        return process.run(
            [self.mpi.mpirun, "-n", str(nprocs), *crowded, self.calls, *arguments],
            timeout_s=TIMEOUT_S,
            env=self.environment({"COLLTUNE_NODES": f"by-rank:{ppn}"}),
        )


def _program(library: str, folder: Path) -> Program:
    try:
        mpi = installation.find(library=library)
    except ProgramError as error:
        pytest.skip(str(error))
    made = interposed_library(mpi)
    calls = folder / "hierarchical"
    compiled = process.run(
        [mpi.mpicc, "-O1", "-o", calls, HERE / "hierarchical.c", "-ldl", "-pthread"],
        timeout_s=TIMEOUT_S,
        env=dict(os.environ) | mpi.launch_environment(),
    )
    process.check(compiled, "compiling the test program")
    return Program(mpi, calls, made)


@pytest.fixture(scope="module")
def openmpi(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return the program for Open MPI, or skip with the reason."""
    return _program("openmpi", tmp_path_factory.mktemp("openmpi"))


@pytest.fixture(scope="module")
def mpich(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return the program for MPICH, or skip with the reason."""
    return _program("mpich", tmp_path_factory.mktemp("mpich"))


def _insist(outcome: process.Outcome) -> None:
    assert outcome.ok, outcome.explain()
    assert "checked " in outcome.stdout
    assert "3 threads" in outcome.stdout


def test_results_are_those_of_openmpi(openmpi: Program) -> None:
    """Random calls on two nodes of two processes and one of one: as the library's own, bit by bit.

    All datatypes and operations, with gaps, in place, on permuted and partial communicators, in
    rounds, with one leader or several, from several threads at a time. Their shared memory has
    no name any more while they run, so that nothing is left behind.
    """
    _insist(openmpi.check(5, 2, seed=1, cases=10))


def test_results_are_those_of_mpich(mpich: Program) -> None:
    """The same with MPICH, which never gives up the processor: fewer processes."""
    _insist(mpich.check(3, 2, seed=2, cases=10))


def test_real_nodes(openmpi: Program, tmp_path: Path) -> None:
    """Across two nodes that share no memory, found by MPI itself, the results are right too.

    Compared without coll/han, whose allgather mixes up blocks of datatypes with other orders.
    """
    skip_without()
    launched = [str(openmpi.mpi.mpirun), *openmpi_hosts(tmp_path, ["na", "nb"], slots=2)]
    shown = [part for name in ("LD_PRELOAD", "COLLTUNE_FORCE") for part in ("-x", name)]
    with Namespaces("launcher") as spaces:
        command = [*launched, *shown, "-n", "4", str(openmpi.calls), "3", "5"]
        _insist(spaces.run(command, openmpi.environment({"OMPI_MCA_coll": "^han"})))


def test_little_shared_memory(openmpi: Program) -> None:
    """Where memory is short, rounds are smaller or the MPI library runs the call: none fails."""
    skip_without()
    small = 'mount -t tmpfs -o size=1M tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", small, "sh"]
    outcome = process.run(
        [*command, openmpi.mpi.mpirun, "-n", "4", "--oversubscribe", openmpi.calls, "51", "5"],
        timeout_s=TIMEOUT_S,
        env=openmpi.environment({"COLLTUNE_NODES": "by-rank:2", "OMPI_MCA_btl": "tcp,self"})
        | {"COLLTUNE_LOG": "1"},
    )
    _insist(outcome)
    assert "no shared memory of 8388608 bytes" in outcome.stderr


@pytest.mark.parametrize("collective", ["allgather", "allreduce"])
def test_other_counts_are_noticed(openmpi: Program, collective: str) -> None:
    """A process with another count ends the job as without us: with MPI_ERR_TRUNCATE, no hang."""
    outcome = openmpi.run(4, 2, ["mismatch", collective])
    assert not outcome.ok
    assert "MPI_ERR_TRUNCATE" in outcome.stderr + outcome.stdout
    assert "unnoticed" not in outcome.stdout


def test_plans_reach_every_node(tmp_path: Path) -> None:
    """Both exchanges bring every node's part to every node exactly once, for 1 to 70 nodes."""
    try:
        mpi = installation.find()
    except ProgramError as error:
        pytest.skip(str(error))
    program = tmp_path / "plans"
    compiled = process.run(
        [mpi.mpicc, "-D_POSIX_C_SOURCE=200809L", f"-I{NATIVE}", "-o", program, HERE / "plans.c"],
        timeout_s=TIMEOUT_S,
    )
    process.check(compiled, "compiling the test program")
    outcome = process.run([program, "70"], timeout_s=TIMEOUT_S)
    assert outcome.ok, outcome.explain()
    assert outcome.stdout == "2 exchanges between 1 to 70 nodes\n"


@pytest.mark.parametrize("layout", [(4, 1), (6, 4), (7, 2), (7, 3), (8, 3), (6, 6)])
@pytest.mark.parametrize("seed", range(10, 14))
def test_many_layouts(openmpi: Program, layout: tuple[int, int], seed: int) -> None:
    """Hundreds of further cases over more layouts give the library's results too."""
    if not os.environ.get(LONG):
        pytest.skip(f"takes minutes; {LONG} is not set")
    _insist(openmpi.check(*layout, seed=seed, cases=30))
