"""The programs that tell of an installed MPI: missing, failing, strange, or of another MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective
from colltune.errors import ProgramError
from colltune.mpi import LIBRARIES
from colltune.mpi.installation import LauncherProgram
from colltune.mpi.installation_facts import (
    INSPECTORS,
    CatalogueDifference,
    DifferenceKind,
    Variable,
    compare,
)
from tests.refusals import refused

RECORDED = Path(__file__).parent.parent / "golden" / "installed"
BCAST = Collective.BCAST
OPENMPI, MPICH, INTELMPI = (LIBRARIES[name] for name in ("openmpi", "mpich", "intelmpi"))


def recorded(name: str) -> str:
    """Return the text of a recorded output."""
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8")


def launcher(
    folder: Path, library: str, release: str, program: str, script: str
) -> LauncherProgram:
    """Return a launcher beside which stands one program."""
    (folder / program).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / program).chmod(0o755)
    return LauncherProgram(library, release, folder / "mpirun")


def mpich_like(folder: Path, mpicc: str) -> LauncherProgram:
    """Return the launcher of an MPICH 5.0.2, or of a derivative, with an mpicc that says that."""
    for name, answer in {
        "mpirun": "echo HYDRA build details: Version: 5.0.2",
        "mpicc": mpicc,
        "mpivars": f'cat "{RECORDED}/mpivars-5.0.2.txt"',
    }.items():
        (folder / name).write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return LauncherProgram("mpich", "5.0.2", folder / "mpirun")


def test_what_is_set_in_the_environment_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPICH and Intel MPI do not tell who set a variable; the former is asked without it."""
    monkeypatch.setenv("MPICH_BCAST_TREE_KVAL", "3")
    script = f'cat "{RECORDED}/mpivars-5.0.2.txt"; test -z "$MPICH_BCAST_TREE_KVAL"'
    mpich = mpich_like(tmp_path, "exit 1")
    (tmp_path / "mpicc").unlink()
    (tmp_path / "mpivars").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    told = INSPECTORS["mpich"](mpich, MPICH.catalogue_of("5.0.2"))
    assert told.variables["MPIR_CVAR_BCAST_TREE_KVAL"] == Variable("3", "environment")
    assert told.variables["MPIR_CVAR_BARRIER_DISSEM_KVAL"] == Variable("2")
    monkeypatch.setenv("I_MPI_ADJUST_BCAST", "3")
    intel = launcher(tmp_path, "intelmpi", "2021.15", "impi_info", 'echo "range: 0-5"')
    told = INSPECTORS["intelmpi"](intel, INTELMPI.catalogue_of("2021.15"))
    assert told.variables["I_MPI_ADJUST_BCAST"] == Variable("3", "environment", writable=False)
    found = compare(INTELMPI.at("2021.15"), told)
    assert (
        CatalogueDifference(
            DifferenceKind.SET_HERE, "bcast", "", "I_MPI_ADJUST_BCAST=3 (set: environment)"
        )
        in found
    )


@pytest.mark.parametrize(
    ("library", "release", "program", "script", "code"),
    [
        ("openmpi", "5.0.11", "other", "", "no-program-beside-mpirun name=ompi_info"),
        ("openmpi", "5.0.11", "ompi_info", "echo nonsense", "no-algorithms-listed"),
        ("openmpi", "5.0.11", "ompi_info", "exit 3", "program-failed"),
        ("intelmpi", "2021.15", "other", "", "no-program-beside-mpirun name=impi_info"),
        ("intelmpi", "2021.15", "impi_info", "echo nonsense", "no-presets"),
        (
            "intelmpi",
            "2021.15",
            "impi_info",
            'echo "Didn\'t find it"; exit 255',
            "no-presets",
        ),
        ("mpich", "4.0.2", "mpirun", "echo nonsense", "mpirun-of-no-mpi"),
    ],
)
def test_programs_that_are_missing_or_answer_nonsense_are_named(
    tmp_path: Path, library: str, release: str, program: str, script: str, code: str
) -> None:
    """A missing, failing or strange program ends with one error that names it."""
    found = launcher(tmp_path, library, release, program, script)
    with refused(code, ProgramError):
        INSPECTORS[library](found, LIBRARIES[library].catalogue_of(release))


def test_a_control_variable_without_a_number_is_named(tmp_path: Path) -> None:
    """An MPICH whose variable shows no number ends with an error that names the variable."""
    listing = recorded("mpivars-5.0.2").replace("ALGORITHM =0", "ALGORITHM =none")
    (tmp_path / "listing").write_text(listing, encoding="utf-8")
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho HYDRA build details: Version: 5.0.2\n")
    (tmp_path / "mpirun").chmod(0o755)
    found = launcher(tmp_path, "mpich", "5.0.2", "mpivars", f'cat "{tmp_path}/listing"')
    with refused(
        "control-variable-not-a-number",
        ProgramError,
        name="MPIR_CVAR_BCAST_INTRA_ALGORITHM",
        value="none",
    ):
        INSPECTORS["mpich"](found, MPICH.catalogue_of("5.0.2"))


def test_without_a_compiler_mpivars_is_asked(tmp_path: Path) -> None:
    """An installation whose mpicc calls no compiler is asked through mpivars."""
    said = 'case "$1" in -v) echo mpicc for MPICH version 5.0.2 ;; *) echo no-such-cc ;; esac'
    told = INSPECTORS["mpich"](mpich_like(tmp_path, said), MPICH.catalogue_of("5.0.2"))
    assert told.asked == str(tmp_path / "mpivars")
    assert set(told.algorithms) == {BCAST, Collective.BARRIER}


def test_a_derivative_of_mpich_is_not_taken_for_it(tmp_path: Path) -> None:
    """MVAPICH's launcher says the same as MPICH's; its mpicc tells them apart."""
    derivative = mpich_like(tmp_path, "echo mpicc for MVAPICH version 4.0")
    with refused("mpicc-of-another-mpi", ProgramError):
        INSPECTORS["mpich"](derivative, MPICH.catalogue_of("5.0.2"))


def test_a_program_of_recorded_outputs_is_asked(tmp_path: Path) -> None:
    """Where --parsable tells no algorithms the readable answer is taken."""
    script = f'case "$*" in *parsable) ;; *) cat "{RECORDED}/ompi_info-4.1.8.txt" ;; esac'
    found = launcher(tmp_path, "openmpi", "4.1.8", "ompi_info", script)
    told = INSPECTORS["openmpi"](found, OPENMPI.catalogue_of("4.1.8"))
    assert told.algorithms[BCAST][9] == "scatter_allgather_ring"
    assert told.asked == str(tmp_path / "ompi_info")
