"""Fortran programs under libcolltune."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from colltune import process
from tests.integration.real import OF_LIBCOLLTUNE, with_libcolltune

pytestmark = pytest.mark.mpi
# of three processes the root sends two messages per broadcast
FLAT = {"COLLTUNE_FORCE": "colltune.bcast.hierarchical:groups=1,inner=flat"}


def test_names_of_open_mpis_fortran_functions_are_ours(tmp_path: Path) -> None:
    """Whatever the compiler's name; MPI_BOTTOM and MPI_IN_PLACE are known by their addresses."""
    mpi = with_libcolltune(tmp_path, "openmpi")
    program = mpi.compiled("fortran_names.c", options=[mpi.preload])
    outcome = mpi.run(3, [program], FLAT)
    assert outcome.ok, outcome.explain()
    assert outcome.stdout == "3 right, 4 messages\n"


def test_mpichs_fortran_interfaces_come_to_us(tmp_path: Path) -> None:
    """Calls by mpif.h and by mpi_f08 in one program, which begins and ends by mpi_f08."""
    mpi = with_libcolltune(tmp_path, "mpich")
    folder = mpi.installation.mpicc.parent
    mpifort = shutil.which("mpifort.mpich", path=folder) or shutil.which("mpifort", path=folder)
    if mpifort is None:
        pytest.skip(f"no mpifort beside {mpi.installation.mpicc}")
    counter, program = tmp_path / "messages.o", tmp_path / "calls"
    calls = OF_LIBCOLLTUNE / "fortran_calls.f90"
    commands: tuple[list[str | Path], ...] = (
        [mpi.installation.mpicc, "-c", "-o", counter, OF_LIBCOLLTUNE / "fortran_messages.c"],
        [mpifort, f"-J{tmp_path}", "-o", program, calls, counter, "-ldl"],
    )
    for command in commands:
        outcome = process.run(command, timeout_s=60.0, env=dict(os.environ))
        process.check(outcome, "compiling the test program")
    outcome = mpi.run(3, [program], FLAT)
    assert outcome.ok, outcome.explain()
    assert outcome.stdout == "9 right, 4 messages\n"
