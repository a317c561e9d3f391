"""The hierarchical allgather and the ring allreduce of libcolltune, with real MPI libraries."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process
from tests.integration.real import HEADERS, TIMEOUT_S, Real, with_libcolltune
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts, skip_without

pytestmark = pytest.mark.mpi
FORCED = (
    "colltune.allreduce.ring:exchange=ring,leaders=1"
    ";colltune.allgather.hierarchical:exchange=ring,leaders=1"
)
LONG = "COLLTUNE_TEST_HIERARCHICAL"


@dataclass(frozen=True)
class Program:
    """The program of random calls for one MPI, with libcolltune preloaded into it."""

    mpi: Real

    def command(self, *words: str) -> list[str | Path]:
        """Return the program and its arguments."""
        return [self.mpi.compiled("hierarchical.c"), *words]

    def run(self, nprocs: int, ppn: int, *words: str) -> process.ProcessResult:
        """Run the program on nodes of `ppn` processes each, laid over this host by rank."""
        settings = {"COLLTUNE_FORCE": FORCED, "COLLTUNE_NODES": f"by-rank:{ppn}"}
        return self.mpi.run(nprocs, self.command(*words), settings)


@pytest.fixture(scope="module")
def openmpi(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return the program for Open MPI, or skip with the reason."""
    return Program(with_libcolltune(tmp_path_factory.mktemp("openmpi"), "openmpi"))


def _insist(outcome: process.ProcessResult) -> None:
    assert outcome.ok, outcome.explain()
    assert "checked " in outcome.stdout
    assert "3 threads" in outcome.stdout


def test_results_are_those_of_openmpi(openmpi: Program) -> None:
    """Random calls on two nodes of two processes and one of one: as the library's own, bit by bit.

    All datatypes and operations, with gaps, in place, on permuted and partial communicators, in
    rounds, with one leader or several, from several threads at a time. Their shared memory has
    no name any more while they run, so that nothing is left behind.
    """
    _insist(openmpi.run(5, 2, "1", "10"))


def test_results_are_those_of_mpich(tmp_path: Path) -> None:
    """The same with MPICH, which never gives up the processor: fewer processes."""
    _insist(Program(with_libcolltune(tmp_path, "mpich")).run(3, 2, "2", "10"))


def test_results_on_one_node_are_those_of_openmpi(openmpi: Program) -> None:
    """The same where all communicators lie on one node, so that doubling runs on each."""
    _insist(openmpi.run(4, 4, "4", "10"))


def test_real_nodes(openmpi: Program, spaces: Namespaces, tmp_path: Path) -> None:
    """Across two nodes that share no memory, found by MPI itself, the results are right too.

    Compared without coll/han, whose allgather mixes up blocks of datatypes with other orders.
    """
    settings = {"OMPI_MCA_coll": "^han", "COLLTUNE_FORCE": FORCED}
    options = [*openmpi_hosts(tmp_path, ["na", "nb"], slots=2), "-x", "COLLTUNE_FORCE"]
    command, before = openmpi.command("3", "5"), spaces.enter([])
    _insist(openmpi.mpi.run(4, command, settings, options=options, before=before))


def test_little_shared_memory(openmpi: Program) -> None:
    """Where memory is short, rounds are smaller or the MPI library runs the call: none fails."""
    skip_without()
    small = 'mount -t tmpfs -o size=1M tmpfs /dev/shm && exec "$@"'
    settings = {"COLLTUNE_NODES": "by-rank:2", "COLLTUNE_FORCE": FORCED, "COLLTUNE_LOG": "1"}
    before = ["unshare", "--mount", "sh", "-c", small, "sh"]
    few = {"OMPI_MCA_btl": "tcp,self"}
    outcome = openmpi.mpi.run(4, openmpi.command("51", "5"), settings | few, before=before)
    _insist(outcome)
    assert "no shared memory of 8388608 bytes" in outcome.stderr


@pytest.mark.parametrize("collective", ["allgather", "allreduce"])
def test_other_counts_are_noticed(openmpi: Program, collective: str) -> None:
    """A process with another count ends the job as without us: with MPI_ERR_TRUNCATE, no hang."""
    outcome = openmpi.run(4, 2, "mismatch", collective)
    assert not outcome.ok
    assert "MPI_ERR_TRUNCATE" in outcome.stderr + outcome.stdout
    assert "unnoticed" not in outcome.stdout


def test_plans_reach_every_node(openmpi: Program) -> None:
    """Both exchanges bring every node's part to every node exactly once, for 1 to 70 nodes."""
    program = openmpi.mpi.compiled("plans.c", options=HEADERS)
    outcome = process.run([program, "70"], timeout_s=TIMEOUT_S)
    assert outcome.ok, outcome.explain()
    assert outcome.stdout == "2 exchanges between 1 to 70 nodes\n"


@pytest.mark.parametrize("layout", [(4, 1), (6, 4), (7, 2), (7, 3), (8, 3), (6, 6)])
@pytest.mark.parametrize("seed", range(10, 14))
def test_many_layouts(openmpi: Program, layout: tuple[int, int], seed: int) -> None:
    """Hundreds of further cases over more layouts give the library's results too."""
    if not os.environ.get(LONG):
        pytest.skip(f"takes minutes; {LONG} is not set")
    _insist(openmpi.run(*layout, str(seed), "30"))
