"""A program whose ranks tell where they are, and what a right launch makes them say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from colltune import process
from colltune.domain import Shape
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation

SOURCE = Path(__file__).with_suffix(".c")
TIMEOUT_S = 60.0
TOLD = {"COLLTUNE_TOLD": "it"}
# quiet and cheap, also where nodes are emulated
TRANSPORT = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm,tcp",
}


def find_or_skip(library: str) -> Installation:
    """Return an installation of `library`, or skip the test with the reason."""
    named = os.environ.get("COLLTUNE_TEST_MPI") if library == "openmpi" else None
    try:
        return installation.find(named, library)
    except ProgramError as error:
        pytest.skip(str(error))


def compiled(mpi: Installation, folder: Path) -> Path:
    """Compile the program for `mpi`; return its path."""
    program = folder / f"where-{mpi.library}"
    env = dict(os.environ) | mpi.launch_environment()
    command: list[str | Path] = [mpi.mpicc, "-o", program, SOURCE]
    process.check(process.run(command, timeout_s=TIMEOUT_S, env=env), "compiling the test program")
    return program


def said(output: str) -> list[str]:
    """Return the ranks' lines of a launch's output."""
    return sorted(line for line in output.splitlines() if line.startswith("rank"))


def expected(shape: Shape, hosts: Sequence[str]) -> list[str]:
    """Return what the ranks say where `shape` was started on the first of `hosts`."""
    return sorted(
        f"rank {rank} of {shape.nprocs} on {hosts[rank // shape.ppn]}, told it"
        for rank in range(shape.nprocs)
    )
