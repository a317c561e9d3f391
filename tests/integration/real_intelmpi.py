"""A real Intel MPI for tests: found, with a test program compiled for it.

The variable COLLTUNE_TEST_INTELMPI names an mpirun, or the folder of an installation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation

TIMEOUT_S = 120.0
CALLS = Path(__file__).with_name("calls.c")


@dataclass(frozen=True)
class RealIntelMpi:
    """An installation with a test program compiled for it."""

    installation: Installation
    program: Path

    @property
    def release(self) -> str:
        """The release under test."""
        return self.installation.release

    def ask(self, words: Sequence[str | Path], environment: Mapping[str, str]) -> process.Outcome:
        """Run a program of the installation on one node, without a network."""
        chosen = ("I_MPI_ADJUST", "I_MPI_TUNING")
        free = {n: v for n, v in os.environ.items() if not n.startswith(chosen)}
        own = {"I_MPI_FABRICS": "shm"} | self.installation.launch_environment()
        return process.run(words, timeout_s=TIMEOUT_S, env=free | own | dict(environment))

    def run(
        self, nprocs: int, steps: Sequence[str], environment: Mapping[str, str]
    ) -> process.Outcome:
        """Run the test program."""
        words: list[str | Path] = [self.installation.mpirun, "-n", str(nprocs), self.program]
        return self.ask([*words, *steps], environment)


def prepare(folder: Path, source: Path = CALLS) -> RealIntelMpi:
    """Return the Intel MPI under test, or skip the test with the reason."""
    try:
        found = installation.find(os.environ.get("COLLTUNE_TEST_INTELMPI"), "intelmpi")
    except ProgramError as error:
        pytest.skip(str(error))
    real = RealIntelMpi(found, folder / source.stem)
    compiled = real.ask([found.mpicc, "-O1", "-o", real.program, source], {})
    process.check(compiled, "compiling the test program")
    return real
