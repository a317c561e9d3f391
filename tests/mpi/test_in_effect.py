"""Which settings are in effect, and which values are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.mpi import LIBRARIES
from colltune.mpi.in_effect import Rank, Setting
from colltune.mpi.installation import LauncherProgram
from colltune.mpi.openmpi.library import OPENMPI

HAN, TUNED = "OMPI_MCA_coll_han_priority", "OMPI_MCA_coll_tuned_priority"
USE = "OMPI_MCA_coll_tuned_use_dynamic_rules"
DEVICE = "MPIR_CVAR_BCAST_DEVICE_COLLECTIVE"
SAME = [
    ("openmpi", USE, "1", ("true", "yes", "t", "enabled", "2", " 1")),
    ("openmpi", USE, "0", ("false", "no", "", "00", "disabled")),
    ("openmpi", TUNED, "30", ("036", "0x1e", "+30", "30 # why")),
    ("openmpi", "OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize", "8192", ("8k", "8K")),
    ("openmpi", "OMPI_MCA_coll", "^han,ucc", ("^ucc,han",)),
    ("mpich", DEVICE, "0", ("no", "false", "off", "OFF", "FALSE", "00")),
    ("mpich", DEVICE, "1", ("yes", "TRUE", "on")),
    ("intelmpi", "I_MPI_ADJUST_BCAST", "3:0-8;1", ("3:0-8; 1 ",)),
]
OTHER = [
    ("openmpi", USE, "1", ("on", "True", "0", "no", "01x")),
    ("openmpi", TUNED, "30", ("29", "x30", "true", '"30"')),
    ("openmpi", "OMPI_MCA_coll", "^han", ("han", "^han,ucc", "")),
    ("mpich", DEVICE, "0", ("False", "No", "disabled", " 0", "1", "")),
    ("intelmpi", "I_MPI_ADJUST_BCAST", "1", ("2", "1:0-8")),
]


@pytest.mark.parametrize(("library", "name", "value", "others"), SAME)
def test_the_library_reads_the_same(
    library: str, name: str, value: str, others: tuple[str, ...]
) -> None:
    """Switches, numbers and lists are equal where the library takes them alike."""
    for other in others:
        assert LIBRARIES[library].same(name, other, value), other
        assert LIBRARIES[library].same(name, value, other), other


@pytest.mark.parametrize(("library", "name", "value", "others"), OTHER)
def test_the_library_reads_something_else(
    library: str, name: str, value: str, others: tuple[str, ...]
) -> None:
    """What it refuses, or reads as another value, is another one."""
    for other in others:
        assert not LIBRARIES[library].same(name, other, value), other


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with a file of parameters."""
    folder = tmp_path / "home" / ".openmpi"
    folder.mkdir(parents=True)
    (folder / "mca-params.conf").write_text("# mine\ncoll_han_priority = 1\n")
    return folder.parent


def _installed(tmp_path: Path, release: str) -> LauncherProgram:
    """Return an Open MPI of which ompi_info tells the folder of its files."""
    folder = tmp_path / "mpi" / "bin"
    folder.mkdir(parents=True)
    info = folder / "ompi_info"
    info.write_text('#!/bin/sh\necho "path:prefix:/opt"; echo "path:sysconfdir:/opt/etc"\n')
    info.chmod(0o755)
    (folder.parent / "etc").mkdir()
    return LauncherProgram("openmpi", release, folder / "mpirun")


@pytest.mark.parametrize(("release", "first"), [("4.1.8", "tuned"), ("5.0.11", "home")])
def test_files_in_the_librarys_order(tmp_path: Path, home: Path, release: str, first: str) -> None:
    """The system's stands behind the user's, and both behind the environment; one overrides."""
    launcher = _installed(tmp_path, release)
    system = launcher.mpirun.parent.parent / "etc" / "openmpi-mca-params.conf"
    system.write_text("coll_han_priority = 2\ncoll_tuned_priority = 2\n")
    override = system.with_name("openmpi-mca-params-override.conf")
    override.write_text("coll_adapt_priority=9\n")
    tuned = tmp_path / "tuned"
    tuned.write_text("--mca coll_han_priority 3 --mca coll 3\n")
    environment = {
        "HOME": str(home),
        "OMPI_MCA_mca_base_envar_file_prefix": str(tuned),
        "OMPI_MCA_coll_adapt_priority": "8",
        USE: "1",
    }
    found = OPENMPI.in_effect(environment, launcher)
    own = Setting("1", f"{home}/.openmpi/mca-params.conf:2", Rank.FILE)
    assert found[HAN] == (own if first == "home" else Setting("3", f"{tuned}:1", Rank.FILE))
    assert found[TUNED] == Setting("2", f"{system}:2", Rank.FILE)
    assert found["OMPI_MCA_coll_adapt_priority"] == Setting("9", f"{override}:1", Rank.OVERRIDE)
    assert found["OMPI_MCA_coll"].value == "3"
    assert found[USE] == Setting("1")


def test_named_files_stand_for_the_usual_ones(tmp_path: Path, home: Path) -> None:
    """Of several files the first one counts, and in a file the last line."""
    files = [tmp_path / name for name in ("a", "b")]
    for number, file in enumerate(files):
        file.write_text(f"coll_tuned_priority = 9\ncoll_tuned_priority = 5{number}\n")
    listed = ",".join(map(str, files))
    environment = {"OMPI_MCA_mca_base_param_files": listed}
    found = OPENMPI.in_effect(environment | {"HOME": str(home)}, _installed(tmp_path, "4.1.8"))
    assert found[TUNED] == Setting("50", f"{files[0]}:2", Rank.FILE)
    assert HAN not in found


def test_hydras_file_goes_before_the_environment(tmp_path: Path) -> None:
    """What mpiexec is told in the user's file, or in the one that a variable names, counts."""
    (tmp_path / ".mpiexec.hydra.conf").write_text(f"-genv {DEVICE} 0\n")
    (tmp_path / "mine").write_text(f"-genv {DEVICE} 1 # why\n")
    mpich, home = LIBRARIES["mpich"], {"HOME": str(tmp_path), DEVICE: "7"}
    assert mpich.in_effect(home)[DEVICE].value == "0"
    named = mpich.in_effect(home | {"HYDRA_CONFIG_FILE": str(tmp_path / "mine")})
    assert named[DEVICE] == Setting("1", f"{tmp_path}/mine:1", Rank.LAUNCHER)
    assert mpich.in_effect({DEVICE: "7"})[DEVICE] == Setting("7")


def test_a_deciding_line_of_a_file_is_named(home: Path) -> None:
    """Where nothing is set beside a user's file, the reason names it with the line."""
    user = OPENMPI.in_effect({"HOME": str(home)})
    reason = OPENMPI.user_overrides({USE: "1"}, user).reason
    assert f"{home}/.openmpi/mca-params.conf:2" in reason
    assert OPENMPI.user_overrides({HAN: "01", USE: "1"}, user).environment == {USE: "1"}
