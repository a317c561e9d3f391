"""A real MPI with libcolltune and programs to try it with, compiled for it.

The variable COLLTUNE_TEST_MPI names another MPI than that of this environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process
from colltune.bench import build
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation

SOURCES = Path(__file__).with_name("interposed")
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Interposed:
    """An installation and the library to be preloaded."""

    installation: Installation
    library: Path
    folder: Path

    def program(self, *names: str) -> Path:
        """Return the program made of the sources `names`, compiled at the first use."""
        program = self.folder / names[0].removesuffix(".c")
        if not program.exists():
            flags = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-pthread", f"-o{program}"]
            sources = [SOURCES / name for name in names]
            outcome = process.run(
                [self.installation.mpicc, *flags, *sources, "-ldl"],
                timeout_s=TIMEOUT_S,
                env=dict(os.environ) | self.installation.launch_environment(),
            )
            process.check(outcome, f"compiling {names[0]}")
        return program

    def run(
        self,
        nprocs: int,
        command: Sequence[str | Path],
        variables: Mapping[str, str] | None = None,
        *,
        preload: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> process.Outcome:
        """Run `command` on this host with the `variables`; preloaded unless told otherwise."""
        ours = dict(variables or {})
        if preload:
            ours.setdefault("LD_PRELOAD", str(self.library))
        quiet = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_pml": "ob1"}
        many = ["--oversubscribe"] if self.installation.library == "openmpi" else []
        words = [f"{name}={value}" for name, value in ours.items()]
        return process.run(
            [self.installation.mpirun, "-np", str(nprocs), *many, "env", *words, *command],
            timeout_s=timeout_s,
            env=dict(os.environ) | quiet | self.installation.launch_environment(),
        )


def prepare(folder: Path) -> Interposed:
    """Return the MPI under test with the library for it, or skip the test with the reason."""
    try:
        found = installation.find(os.environ.get("COLLTUNE_TEST_MPI"))
        library = build.interposed_library(found)
    except ProgramError as error:
        pytest.skip(str(error))
    return Interposed(found, library, folder)
