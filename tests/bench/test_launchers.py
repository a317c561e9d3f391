"""Command lines and environments of each launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.launchers import Mpiexec, Mpirun, Placed, Srun, Start
from colltune.domain import Shape
from colltune.errors import ProgramError
from colltune.mpi.installation import Installation

MPIRUN = Mpirun(Path("/opt/mpi/bin/mpirun"))


def test_mpirun_one_node_within_its_cores() -> None:
    """A launch that fits the cores needs the number of processes and nothing else."""
    command = MPIRUN.command(Start(Shape(1, 4), ("prog", Path("/p")), cores=4))
    assert command == ("/opt/mpi/bin/mpirun", "-np", "4", "prog", "/p")


def test_mpirun_allows_more_processes_than_cores_explicitly() -> None:
    """Oversubscription is asked for only where it is needed."""
    command = MPIRUN.command(Start(Shape(1, 4), ("prog",), cores=2, options=("--tag-output",)))
    assert command[3:] == ("--oversubscribe", "--tag-output", "prog")


def test_mpirun_gives_several_nodes_their_processes_and_variables() -> None:
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


MPIEXEC = Mpiexec(Path("/opt/mpich/bin/mpiexec"))


def test_mpiexec_one_node_needs_the_number_of_processes() -> None:
    """Hydra oversubscribes by itself, whatever the number of cores."""
    command = MPIEXEC.command(Start(Shape(1, 4), ("prog", Path("/p")), cores=2))
    assert command == ("/opt/mpich/bin/mpiexec", "-n", "4", "prog", "/p")


def test_mpiexec_gives_several_nodes_their_processes_and_variables() -> None:
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


SRUN = Srun(Path("/usr/bin/srun"), "pmix")
LAYOUT = ("--nodes=2", "--ntasks=16", "--ntasks-per-node=8")
STEP = ("--overlap", "--kill-on-bad-exit=1", "--export=ALL")


def test_a_step_has_its_whole_layout() -> None:
    """Nodes, processes and processes per node are all given, also where the job has others."""
    command = SRUN.command(Start(Shape(2, 8), ("prog", Path("/p")), cores=8, exported={"A": "1"}))
    assert command == ("/usr/bin/srun", *LAYOUT, *STEP, "prog", "/p")


def test_srun_allows_more_processes_than_cores_explicitly() -> None:
    """Overcommitting is asked for only where it is needed, and options of the user come last."""
    start = Start(Shape(2, 8), ("prog",), cores=4, options=("--mpi=pmi2",))
    assert SRUN.command(start)[1:] == (*LAYOUT, *STEP, "--overcommit", "--mpi=pmi2", "prog")


def test_a_hostfile_is_given_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a slash srun would take the file's name for a node's."""
    monkeypatch.chdir(tmp_path)
    start = Start(Shape(2, 8), ("prog",), cores=8, hostfile=Path("hosts"))
    assert f"--nodelist={tmp_path}/hosts" in SRUN.command(start)


def test_the_plugin_is_asked_for_by_a_variable() -> None:
    """A user's own choice, by variable or by option, is above ours."""
    assert SRUN.environment({}, {}, Shape(2, 8)) == {
        "SLURM_MPI_TYPE": "pmix",
        "SLURM_DISTRIBUTION": "block",
    }
    user = {"SLURM_MPI_TYPE": "pmix_v4", "SLURM_DISTRIBUTION": "cyclic"}
    assert SRUN.environment(user, {}, Shape(2, 8)) == user


def test_without_slurm_the_mend_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what is missing and what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    here = Path("/mpirun")
    with pytest.raises(ProgramError, match=r"'srun' not found; install Slurm's client"):
        Srun.of(Installation("openmpi", "5.0.11", here, here, here, "cc"))


def test_a_campaigns_nodes_and_options_reach_the_launcher() -> None:
    """Processors, host file and options are those of the campaign; a start's own options follow."""
    placed = Placed(Mpirun(Path("/mpirun")), 2, Path("hosts"), ("--bind-to", "core"))
    start = Start(Shape(2, 4), ("./p",), cores=64, options=("--tag-output",))
    assert placed.command(start) == (
        *("/mpirun", "-np", "8", "--hostfile", "hosts", "--map-by", "ppr:4:node"),
        *("--oversubscribe", "--bind-to", "core", "--tag-output", "./p"),
    )
    wanted = {"OMPI_MCA_pml": "ob1"}
    assert placed.environment({}, wanted, Shape(2, 4)) == wanted


def test_a_campaign_that_says_nothing_changes_nothing() -> None:
    """Without nodes, processors and options the start is passed on as it is."""
    start = Start(Shape(1, 2), ("./p",), cores=4, hostfile=Path("h"))
    assert Placed(Mpirun(Path("/m"))).command(start) == Mpirun(Path("/m")).command(start)
