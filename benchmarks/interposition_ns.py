"""Nanoseconds that libcolltune adds to a call that it does not change."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figure import Figure
from colltune.bench import build
from colltune.mpi import installation

_SOURCE = Path(__file__).with_name("interposition.c")
_ROUNDS, _CALLS, _LAUNCHES = "301", "20000", 3
# another collective is looked at, and this one is looked at, to no effect
_SITUATIONS = {
    "another": "openmpi.allgather.default",
    "looked at": "openmpi.bcast.default",
}


def run() -> Figure:
    """Return the larger median difference of MPI_Bcast and PMPI_Bcast under a preloaded library.

    Two processes broadcast nothing, for which Open MPI sends no message; one of them measures. Both
    functions are called in turn in one process. ``ours`` and ``baseline`` are the two times.
    """
    mpi = installation.find(library="openmpi")
    variables = dict(os.environ) | mpi.launch_environment()
    library = build.interposed_library(
        mpi.mpicc, mpi.compile_line, environment=mpi.launch_environment()
    )
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "interposition"
        subprocess.run([mpi.mpicc, "-O2", "-o", program, _SOURCE], check=True, env=variables)
        for name, forced in _SITUATIONS.items():
            preloaded: list[str | Path] = [
                "env",
                f"LD_PRELOAD={library}",
                f"COLLTUNE_FORCE={forced}",
                program,
            ]
            command: list[str | Path] = [
                mpi.mpirun,
                "-n",
                "2",
                "--oversubscribe",
                *preloaded,
                _ROUNDS,
                _CALLS,
            ]
            launches = [_answer(command, variables) for _ in range(_LAUNCHES)]
            with_us, without_us, difference = sorted(launches, key=lambda a: a[2])[_LAUNCHES // 2]
            print(f"{name}: {with_us:.1f} ns, without us {without_us:.1f} ns", file=sys.stderr)
            measured.append((difference, with_us, without_us))
    return Figure("interposition_ns", max(measured)[0], "ns", max(measured)[1], max(measured)[2])


def _answer(command: list[str | Path], variables: dict[str, str]) -> tuple[float, float, float]:
    done = subprocess.run(command, check=True, env=variables, capture_output=True, text=True)
    ours, baseline, difference = map(float, done.stdout.split())
    return ours, baseline, difference
