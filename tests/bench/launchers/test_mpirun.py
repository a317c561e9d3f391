"""Open MPI's mpirun."""

from __future__ import annotations

from pathlib import Path

from colltune.bench.launchers import Mpirun, Start
from colltune.domain import Shape

MPIRUN = Mpirun(Path("/opt/mpi/bin/mpirun"))


def test_one_node_within_its_cores() -> None:
    """A launch that fits the cores needs the number of processes and nothing else."""
    command = MPIRUN.command(Start(Shape(1, 4), ("prog", Path("/p")), cores=4))
    assert command == ("/opt/mpi/bin/mpirun", "-np", "4", "prog", "/p")


def test_more_processes_than_cores_are_allowed_explicitly() -> None:
    """Oversubscription is asked for only where it is needed."""
    command = MPIRUN.command(Start(Shape(1, 4), ("prog",), cores=2, options=("--tag-output",)))
    assert command[3:] == ("--oversubscribe", "--tag-output", "prog")


def test_several_nodes_get_their_processes_and_variables() -> None:
    """On several nodes ppn is fixed by the mapping, and variables are handed on by name."""
    start = Start(Shape(2, 8), ("prog",), cores=8, exported={"OMPI_MCA_x": "1", "A": "2"})
    where = ("-np", "16", "--map-by", "ppr:8:node")
    assert MPIRUN.command(start)[1:] == (*where, "-x", "A", "-x", "OMPI_MCA_x", "prog")


def test_a_single_node_skips_the_adapters() -> None:
    """The one-sided ofi transport is left out on a single node only."""
    assert MPIRUN.environment({}, {}, Shape(1, 4)) == {"OMPI_MCA_btl": "^ofi"}
    assert MPIRUN.environment({}, {}, Shape(2, 4)) == {}
    user = {"OMPI_MCA_btl": "self,tcp"}
    assert MPIRUN.environment(user, {}, Shape(1, 4)) == user
