"""What a recorded call of a collective costs more than one that libcolltune only passes on."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.figure import Figure
from colltune import process
from colltune.bench import build
from colltune.mpi import installation

SOURCE = Path(__file__).parents[1] / "tests" / "integration" / "interposed" / "profiled.c"
_CALLS, _ROUNDS, _TIMEOUT_S = 200_000, 5, 120.0


def run() -> Figure:
    """Return the nanoseconds that a timed call takes longer than one without a profile.

    The call is a broadcast of 0 bytes on 2 processes, which Open MPI answers at once. Each round
    runs both, one after the other, and each takes the best of 9 loops; the value is the median
    over the rounds.
    """
    mpi = installation.find(None)
    environment = dict(os.environ) | mpi.launch_environment()
    library = build.interposed_library(mpi)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "profiled"
        compiler: list[str | Path] = [
            mpi.mpicc,
            "-O2",
            "-std=c11",
            "-o",
            program,
            SOURCE,
            "-lpthread",
        ]
        compiled = process.run(compiler, timeout_s=_TIMEOUT_S, env=environment)
        process.check(compiled, "compiling the program")

        start: list[str | Path] = [mpi.mpirun, "-np", "2", "--oversubscribe"]

        def best_ns(variables: dict[str, str]) -> float:
            """Return the best mean of a loop, with what libcolltune is told."""
            words = [f"{name}={value}" for name, value in variables.items()]
            outcome = process.run(
                [*start, "env", *words, program, "time", str(_CALLS)],
                timeout_s=_TIMEOUT_S,
                env=environment,
            )
            process.check(outcome, "timing calls")
            return float(outcome.stdout)

        preload = {"LD_PRELOAD": str(library)}
        recorded = preload | {"COLLTUNE_PROFILE": str(Path(folder) / "profiles")}
        sides = [(best_ns(preload), best_ns(recorded)) for _ in range(_ROUNDS)]
    for off, on in sides:
        print(f"{off:8.1f} ns without, {on:8.1f} ns with a profile", file=sys.stderr)
    extra = statistics.median(on - off for off, on in sides)
    off, on = (statistics.median(side) for side in zip(*sides, strict=True))
    return Figure("profile_overhead_ns", extra, "ns", on, off)
