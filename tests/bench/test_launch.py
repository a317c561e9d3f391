"""Command lines and environments."""

from __future__ import annotations

from pathlib import Path

from colltune.bench.launch import launch_environment, mpirun_command
from colltune.domain import Shape

MPIRUN = Path("/opt/mpi/bin/mpirun")


def test_one_node_within_its_cores() -> None:
    """A launch that fits the cores needs the number of processes and nothing else."""
    assert mpirun_command(MPIRUN, Shape(1, 4), ["prog", Path("/p")], cores=4) == (
        "/opt/mpi/bin/mpirun",
        "-np",
        "4",
        "prog",
        "/p",
    )


def test_more_processes_than_cores_are_allowed_explicitly() -> None:
    """Oversubscription is asked for only where it is needed."""
    command = mpirun_command(MPIRUN, Shape(1, 4), ["prog"], cores=2, options=["--tag-output"])
    assert command[3:] == ("--oversubscribe", "--tag-output", "prog")


def test_several_nodes_get_their_processes_and_variables() -> None:
    """On several nodes ppn is fixed by the mapping, and variables are handed on."""
    command = mpirun_command(MPIRUN, Shape(2, 8), ["prog"], cores=8, exported=["OMPI_MCA_x"])
    assert command[1:] == ("-np", "16", "--map-by", "ppr:8:node", "-x", "OMPI_MCA_x", "prog")


def test_the_users_settings_win() -> None:
    """What the user has set is never replaced, neither a parameter nor the transport."""
    user = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_x": "mine"}
    wanted = {"OMPI_MCA_x": "ours", "OMPI_MCA_y": "ours"}
    environment = launch_environment(user, wanted, shape=Shape(1, 4))
    assert environment == {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_x": "mine", "OMPI_MCA_y": "ours"}


def test_a_single_node_skips_the_adapters() -> None:
    """The one-sided ofi transport is left out on a single node only."""
    assert launch_environment({}, {}, shape=Shape(1, 4)) == {"OMPI_MCA_btl": "^ofi"}
    assert launch_environment({}, {}, shape=Shape(2, 4)) == {}
