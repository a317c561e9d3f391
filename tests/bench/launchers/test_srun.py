"""Slurm's srun."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.launchers import Srun, Start
from colltune.domain import Shape
from colltune.errors import ProgramError
from colltune.mpi.installation import Installation

SRUN = Srun(Path("/usr/bin/srun"), "pmix")
LAYOUT = ("--nodes=2", "--ntasks=16", "--ntasks-per-node=8")
STEP = ("--overlap", "--kill-on-bad-exit=1", "--export=ALL")


def test_a_step_has_its_whole_layout() -> None:
    """Nodes, processes and processes per node are all given, also where the job has others."""
    command = SRUN.command(Start(Shape(2, 8), ("prog", Path("/p")), cores=8, exported={"A": "1"}))
    assert command == ("/usr/bin/srun", *LAYOUT, *STEP, "prog", "/p")


def test_more_processes_than_cores_are_allowed_explicitly() -> None:
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
