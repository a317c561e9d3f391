"""Finds ReproMPI's ``mpibenchmark`` and asks it once what it is.

It is a program of its own, under the GPL; colltune only starts it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.bench.backends import reprompi_jobs
from colltune.bench.backends.reprompi_jobs import Mode
from colltune.dataset.importers.reprompi import ReproMpiOutput, parse
from colltune.errors import DataError, ProgramError

VARIABLE = "COLLTUNE_REPROMPI"
_NAME = "mpibenchmark"
_MEND = (
    "build ReproMPI (https://github.com/hunsa/reprompi) with the MPI to be measured, and put its"
    f" mpibenchmark on PATH or name it in the variable {VARIABLE}"
)
_NPROCS = 2
_NREP = 3
_SLOT_S = 1.0
_NOT_STARTED = 127
_NO_LIBRARY = "error while loading shared libraries"

Start = Callable[[Sequence[str | Path], Mode], process.Outcome]
"""Starts a program on two processes of one node, with the environment of the mode."""


@dataclass(frozen=True)
class Program:
    """An mpibenchmark that works.

    ``timed`` tells that a job can be bounded in time (all releases since 2019). ``commit`` is that
    of its source where the build knew it.
    """

    path: Path
    timed: bool
    commit: str


def find(named: str | None) -> Path:
    """Return the path of mpibenchmark: `named`, or as the environment says, or on PATH."""
    return process.find(named or os.environ.get(VARIABLE) or _NAME, _MEND)


def probe(path: Path, start: Start) -> Program:
    """Run `path` briefly on two processes and return what it proved to be."""
    for mode in (Mode.TIMED, Mode.COUNTED):
        what = ("--calls-list=MPI_Bcast", "--msizes-list=8", f"--nrep={_NREP}")
        outcome = start([path, *what, *_options(mode)], mode)
        output = _answer(path, outcome)
        rows = output.rows.values() if output else ()
        if output and outcome.ok and output.complete and any(row.n_valid == _NREP for row in rows):
            commit = output.facts.get("reproMPIcommitSHA1", "unknown")
            return Program(path, mode is Mode.TIMED, commit)
    raise ProgramError(f"{path} does not measure; {_MEND}\n{outcome.explain()}")


def _options(mode: Mode) -> list[str]:
    """Return the options of `mode` for a run that prints to its standard output."""
    words = reprompi_jobs.options(mode, reprompi_jobs.BYTES, _SLOT_S, Path(), Path())
    return [word for word in words if not word.startswith(("--input-file=", "--output-file="))]


def _answer(path: Path, outcome: process.Outcome) -> ReproMpiOutput | None:
    """Return what mpibenchmark said; None if it is one but refuses the options."""
    if outcome.returncode == _NOT_STARTED or _NO_LIBRARY in outcome.stderr:
        raise ProgramError(
            f"{path} does not start, as a library of its is not found (libmpits is installed"
            f" beside it: name its folder in LD_LIBRARY_PATH)\n{outcome.explain()}"
        )
    if outcome.timed_out:
        raise ProgramError(f"{path} does not come to an end; {_MEND}\n{outcome.explain()}")
    if "#@nprocs=1\n" in outcome.stdout:
        raise ProgramError(
            f"{path} was built for another MPI than that which starts it: its {_NPROCS} processes"
            f" do not find each other; {_MEND}"
        )
    if "#command-line arguments:" not in outcome.stdout.lower():
        raise ProgramError(f"{path} is not ReproMPI's mpibenchmark; {_MEND}\n{outcome.explain()}")
    try:
        return parse(outcome.stdout, str(path))
    except DataError:
        return None
