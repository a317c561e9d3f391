"""libcolltune compiled for a real MPI, and programs run with it preloaded.

The variables COLLTUNE_TEST_MPI and COLLTUNE_TEST_MPICH name other MPIs than those found.
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
from tests.integration.install import VARIABLES

LIBRARIES = ("openmpi", "mpich")
TIMEOUT_S = 60.0
_OPTIONS = {"openmpi": ("--oversubscribe",)}
# more processes than processors: who waits must let others run
_QUIET = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml": "ob1",
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
}


@dataclass(frozen=True)
class Preloaded:
    """An installed MPI and the library that is preloaded."""

    installation: Installation
    library: Path

    def compiled(self, source: Path, folder: Path, *options: str) -> Path:
        """Return the program that `source` is compiled to, in `folder`."""
        target = folder / f"{source.stem}-{self.installation.library}"
        outcome = process.run(
            [self.installation.mpicc, "-O1", "-o", target, source, *options, "-ldl", "-lpthread"],
            timeout_s=TIMEOUT_S,
            env=dict(os.environ) | self.installation.launch_environment(),
        )
        process.check(outcome, f"compiling {source.name}")
        return target

    def run(
        self,
        nprocs: int,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        *,
        preload: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> process.Outcome:
        """Run `command` as `nprocs` processes on this host."""
        found = self.installation
        foreign = ("OMPI_MCA_coll", "COLLTUNE_", "MPIR_CVAR_")
        free = {n: v for n, v in os.environ.items() if not n.startswith(foreign)}
        with_us = ["env", f"LD_PRELOAD={self.library}"] if preload else []
        return process.run(
            [found.mpirun, "-n", str(nprocs), *_OPTIONS.get(found.library, ()), *with_us, *command],
            timeout_s=timeout_s,
            env=free | _QUIET | found.launch_environment() | dict(environment or {}),
        )


def prepared(library: str) -> Preloaded:
    """Return the MPI of that name with libcolltune for it, or skip the test with the reason."""
    try:
        found = installation.find(os.environ.get(VARIABLES[library]), library)
    except ProgramError as error:
        pytest.skip(str(error))
    built = build.interposed_library(found)
    return Preloaded(found, built)
