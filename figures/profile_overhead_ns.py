"""What a recorded call of a collective costs more than one that libcolltune only passes on."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from colltune import process
from colltune.bench import build
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from figures.figure import Figure

SOURCE = Path(__file__).parents[1] / "tests" / "integration" / "interposed" / "profiled.c"
_CALLS, _ROUNDS, _TIMEOUT_S = 200_000, 5, 120.0


def run() -> Figure:
    """Return the nanoseconds that a timed call takes longer than one without a profile.

    ``facts`` have the same for what a site records, one call in 20 timed.
    """
    off, users, sites = call_ns(installation.find(None))
    facts = {"site_ns": round(sites - off, 1)}
    return Figure("profile_overhead_ns", users - off, "ns", users, off, facts)


def call_ns(mpi: Installation) -> tuple[float, float, float]:
    """Return the nanoseconds of a call that is not recorded, one that is timed, and a site's.

    The call is a broadcast of 0 bytes on 2 processes, which Open MPI answers at once. Each round
    runs all, one after the other, and each takes the best of 9 loops; medians over the rounds.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "profiled"
        words: list[str | Path] = ["-O2", "-std=c11", "-o", program, SOURCE, "-lpthread"]
        environment = dict(os.environ) | mpi.launch_environment()
        compiled = process.run([mpi.mpicc, *words], timeout_s=_TIMEOUT_S, env=environment)
        process.check(compiled, "compiling the program")
        sides: list[Mapping[str, str]] = [{}]
        sides += [{name: f"{folder}/{name}"} for name in ("COLLTUNE_PROFILE", "COLLTUNE_RECORD")]
        rounds = [[_best_ns(mpi, program, side) for side in sides] for _ in range(_ROUNDS)]
    for off, users, sites in rounds:
        told = f"{off:8.1f} ns without, {users:8.1f} ns with a profile, {sites:8.1f} ns for a site"
        print(told, file=sys.stderr)
    off, users, sites = (statistics.median(side) for side in zip(*rounds, strict=True))
    return off, users, sites


def _best_ns(mpi: Installation, program: Path, variables: Mapping[str, str]) -> float:
    """Return the best mean of a loop, with what libcolltune is told."""
    told = {"LD_PRELOAD": str(build.interposed_library(mpi)), **variables}
    words = [f"{name}={value}" for name, value in told.items()]
    many = ["--oversubscribe"] if mpi.library == "openmpi" else []
    outcome = process.run(
        [mpi.mpirun, "-n", "2", *many, "env", *words, program, "time", str(_CALLS)],
        timeout_s=_TIMEOUT_S,
        env=dict(os.environ) | mpi.launch_environment(),
    )
    process.check(outcome, "timing calls")
    return float(outcome.stdout)
