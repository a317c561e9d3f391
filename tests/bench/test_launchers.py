"""Command lines and environments of each launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.launchers import Mpiexec, Mpirun, Placed, Srun, Start
from colltune.domain import Shape
from colltune.errors import ProgramError
from colltune.mpi.installation import Installation
from tests.refusals import refused

MPIRUN = Mpirun(Path("/opt/mpi/bin/mpirun"))
MPIEXEC = Mpiexec(Path("/opt/mpich/bin/mpiexec"))
SRUN = Srun(Path("/usr/bin/srun"), "pmix")
ONE, TWO = Shape(1, 4), Shape(2, 8)
EXPORTED = {"OMPI_MCA_x": "1", "A": "2"}
LAYOUT = ("--nodes=2", "--ntasks=16", "--ntasks-per-node=8")
STEP = ("--overlap", "--kill-on-bad-exit=1", "--export=ALL")
COMMANDS = {
    # a launch that fits the cores needs the number of processes and nothing else
    "mpirun on one node": (MPIRUN, Start(ONE, ("p", Path("/p")), 4), ("-np", "4", "p", "/p")),
    # oversubscription is asked for only where it is needed
    "mpirun on few cores": (
        MPIRUN,
        Start(ONE, ("p",), 2, options=("--tag-output",)),
        ("-np", "4", "--oversubscribe", "--tag-output", "p"),
    ),
    # variables are handed on by name
    "mpirun on several nodes": (
        MPIRUN,
        Start(TWO, ("p",), 8, exported=EXPORTED),
        (
            "-np",
            "16",
            "--map-by",
            "ppr:8:node",
            "-x",
            "COLLTUNE_LAUNCH",
            "-x",
            "A",
            "-x",
            "OMPI_MCA_x",
            "p",
        ),
    ),
    # Hydra oversubscribes by itself
    "mpiexec on few cores": (MPIEXEC, Start(ONE, ("p", Path("/p")), 2), ("-n", "4", "p", "/p")),
    # variables are handed on with their values
    "mpiexec on several nodes": (
        MPIEXEC,
        Start(TWO, ("p",), 8, exported={"X": "b"}, hostfile=Path("/h")),
        ("-n", "16", "-f", "/h", "-ppn", "8", "-genv", "X", "b", "p"),
    ),
    # all are given, also where the job has others
    "srun": (SRUN, Start(TWO, ("p",), 8, exported={"A": "1"}), (*LAYOUT, *STEP, "p")),
    "srun on few cores": (
        SRUN,
        Start(TWO, ("p",), 4, options=("--mpi=pmi2",)),
        (*LAYOUT, *STEP, "--overcommit", "--mpi=pmi2", "p"),
    ),
}


def test_commands_hold_what_is_needed_and_no_more() -> None:
    """The launcher, its own words, the user's options, the program."""
    for name, (launcher, start, words) in COMMANDS.items():
        assert launcher.command(start) == (str(launcher.program), *words), name


def test_what_a_user_set_is_above_what_launchers_set() -> None:
    """Adapters are left out on one node, placement by the batch system on several."""
    ours = {
        (MPIRUN, ONE): {"OMPI_MCA_btl": "^ofi"},
        (MPIRUN, TWO): {},
        # Intel MPI would ignore -ppn within a job; one node has no placement to be ignored
        (MPIEXEC, ONE): {},
        (MPIEXEC, TWO): {"I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "0"},
        (SRUN, TWO): {"SLURM_MPI_TYPE": "pmix", "SLURM_DISTRIBUTION": "block"},
    }
    for (launcher, shape), variables in ours.items():
        assert launcher.environment({}, {}, shape) == variables, launcher
        user = dict.fromkeys(variables, "theirs")
        assert launcher.environment(user, {}, shape) == user, launcher


def test_a_hostfile_is_given_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a slash srun would take the file's name for a node's."""
    monkeypatch.chdir(tmp_path)
    start = Start(TWO, ("prog",), cores=8, hostfile=Path("hosts"))
    assert f"--nodelist={tmp_path}/hosts" in SRUN.command(start)


def test_without_slurm_the_mend_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what is missing and what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    here = Path("/mpirun")
    with refused("program-missing", ProgramError, program="srun"):
        Srun.of(Installation("openmpi", "5.0.11", here, here, here, "cc"))


def test_a_campaigns_nodes_and_options_reach_the_launcher() -> None:
    """Processors, host file and options are those of the campaign; a start's own options follow."""
    placed = Placed(Mpirun(Path("/mpirun")), 2, Path("hosts"), ("--bind-to", "core"))
    start = Start(Shape(2, 4), ("./p",), cores=64, options=("--tag-output",))
    assert placed.command(start) == (
        *("/mpirun", "-np", "8", "--hostfile", "hosts", "--map-by", "ppr:4:node"),
        *("-x", "COLLTUNE_LAUNCH"),
        *("--oversubscribe", "--bind-to", "core", "--tag-output", "./p"),
    )
    wanted = {"OMPI_MCA_pml": "ob1"}
    assert placed.environment({}, wanted, Shape(2, 4)) == wanted


def test_a_campaign_that_says_nothing_changes_nothing() -> None:
    """Without nodes, processors and options the start is passed on as it is."""
    start = Start(Shape(1, 2), ("./p",), cores=4, hostfile=Path("h"))
    assert Placed(Mpirun(Path("/m"))).command(start) == Mpirun(Path("/m")).command(start)
