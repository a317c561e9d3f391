"""Hydra's mpiexec."""

from __future__ import annotations

from pathlib import Path

from colltune.bench.launchers import Mpiexec, Start
from colltune.domain import Shape

MPIEXEC = Mpiexec(Path("/opt/mpich/bin/mpiexec"))


def test_one_node_needs_the_number_of_processes() -> None:
    """Hydra oversubscribes by itself, whatever the number of cores."""
    command = MPIEXEC.command(Start(Shape(1, 4), ("prog", Path("/p")), cores=2))
    assert command == ("/opt/mpich/bin/mpiexec", "-n", "4", "prog", "/p")


def test_several_nodes_get_their_processes_and_variables() -> None:
    """On several nodes ppn is given, and variables are handed on with their values."""
    start = Start(
        Shape(2, 8),
        ("prog",),
        cores=8,
        exported={"MPIR_CVAR_BCAST_INTRA_ALGORITHM": "binomial"},
        hostfile=Path("/h"),
    )
    variable = ("-genv", "MPIR_CVAR_BCAST_INTRA_ALGORITHM", "binomial")
    assert MPIEXEC.command(start)[1:] == ("-n", "16", "-f", "/h", "-ppn", "8", *variable, "prog")


def test_the_batch_system_does_not_place_the_processes() -> None:
    """Intel MPI would ignore -ppn within a job; one node has no placement to be ignored."""
    ours = {"I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "0"}
    assert MPIEXEC.environment({}, {}, Shape(2, 4)) == ours
    assert MPIEXEC.environment({}, {}, Shape(1, 4)) == {}
