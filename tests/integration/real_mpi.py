"""A real Open MPI for tests: found, with the call tracer and the test program compiled for it.

The variable COLLTUNE_TEST_MPI names another one than that of this environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from colltune import process
from colltune.errors import ProgramError
from colltune.mpi import installation, trace
from colltune.mpi.installation import Installation
from colltune.mpi.trace import Observation

CALLS = Path(__file__).with_name("calls.c")
TIMEOUT_S = 60.0
# on a busy machine mpirun gives up now and then before it starts anything
_NOT_STARTED = "listener thread failed to start"
_STARTS = 3


@dataclass(frozen=True)
class RealMpi:
    """An installation with what the tests need of it."""

    installation: Installation
    tracer: Path
    calls: Path

    @property
    def release(self) -> str:
        """The release under test."""
        return self.installation.release

    def run(
        self,
        nprocs: int,
        steps: Sequence[str],
        environment: Mapping[str, str],
        options: Sequence[str] = ("--oversubscribe",),
        before: Sequence[str] = (),
    ) -> process.Outcome:
        """Run the test program; `options` go to mpirun, `before` stands in front of it."""
        free = {n: v for n, v in os.environ.items() if not n.startswith("OMPI_MCA_coll")}
        quiet = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_pml": "ob1"}
        return process.run(
            [
                *before,
                self.installation.mpirun,
                "-np",
                str(nprocs),
                *trace.launch_options(self.tracer),
                *options,
                self.calls,
                *steps,
            ],
            timeout_s=TIMEOUT_S,
            env=free | quiet | self.installation.launch_environment() | dict(environment),
        )

    def observe(
        self,
        nprocs: int,
        steps: Sequence[str],
        environment: Mapping[str, str],
        options: Sequence[str] = ("--oversubscribe",),
        before: Sequence[str] = (),
    ) -> list[Observation]:
        """Run the test program, insist on right results, and return what ran."""
        for _ in range(_STARTS):
            outcome = self.run(nprocs, steps, environment, options, before)
            if outcome.ok or _NOT_STARTED not in outcome.stderr:
                break
        assert outcome.ok, outcome.explain()
        assert "WRONG" not in outcome.stderr
        return trace.observed(outcome.stderr)


def on_request(variable: str) -> None:
    """Skip what takes minutes unless `variable` names an MPI, as ``make test-mpi`` lets it."""
    if not os.environ.get(variable):
        pytest.skip(f"compares hundreds of calls; {variable} is not set, make test-mpi sets it")


def prepare(folder: Path) -> RealMpi:
    """Return the MPI under test, or skip the test with the reason."""
    if reason := trace.unavailable():
        pytest.skip(reason)
    try:
        found = installation.find(os.environ.get("COLLTUNE_TEST_MPI"))
        tracer = trace.build(found, folder)
    except ProgramError as error:
        pytest.skip(str(error))
    calls = folder / "calls"
    compiled = process.run([found.mpicc, "-O1", "-o", calls, CALLS], timeout_s=TIMEOUT_S)
    process.check(compiled, "compiling the test program")
    return RealMpi(found, tracer, calls)
