"""Nanoseconds that libcolltune adds to a call that it does not change."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from colltune.bench import build
from colltune.domain import Configuration, Shape
from colltune.mpi import installation
from colltune.mpi.libcolltune.table.text import (
    LIBRARY_CHOICE,
    Content,
    TableConfiguration,
    rendered,
)
from colltune.mpi.rules import Entry, Numbers, Rule
from figures.figure import Figure

_SOURCE = Path(__file__).with_name("interposition.c")
_ROUNDS, _CALLS, _LAUNCHES = "301", "20000", 3
_FROM_BYTES = 1 << 20


def run() -> Figure:
    """Return the larger median difference of MPI_Bcast and PMPI_Bcast under a preloaded library.

    Two processes broadcast nothing, for which Open MPI sends no message; one of them measures. Both
    functions are called in turn in one process. ``ours`` and ``baseline`` are the two times.
    """
    mpi = installation.find(library="openmpi")
    variables = dict(os.environ) | mpi.launch_environment()
    library = build.interposed_library(mpi)
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "interposition"
        subprocess.run([mpi.mpicc, "-O2", "-o", program, _SOURCE], check=True, env=variables)
        for name, setting in _situations(mpi.release, Path(folder)).items():
            command: list[str | Path] = [
                mpi.mpirun,
                "-n",
                "2",
                "--oversubscribe",
                "env",
                f"LD_PRELOAD={library}",
            ]
            command += [setting, program, _ROUNDS, _CALLS]
            launches = [_answer(command, variables) for _ in range(_LAUNCHES)]
            with_us, without_us, difference = sorted(launches, key=lambda a: a[2])[_LAUNCHES // 2]
            print(f"{name}: {with_us:.1f} ns, without us {without_us:.1f} ns", file=sys.stderr)
            measured.append((difference, with_us, without_us))
    return Figure("interposition_ns", max(measured)[0], "ns", max(measured)[1], max(measured)[2])


def _situations(release: str, folder: Path) -> dict[str, str]:
    """Return settings that have another collective looked at, and this one to no effect."""
    large = Configuration.parse("colltune.bcast.hierarchical:groups=2,inner=flat")
    steps = ((0, LIBRARY_CHOICE), (_FROM_BYTES, 1))
    rules = (Rule(0, "", large.collective, large, n, numbers=Numbers(which)) for n, which in steps)
    entry = Entry(large.collective, 0, 2, 2, tuple(rules))
    content = Content(
        "openmpi", release, Shape(1, 2), choices={1: TableConfiguration(1, large)}, entries=(entry,)
    )
    table = folder / "table"
    table.write_text(rendered(content))
    return {
        "another collective": "COLLTUNE_FORCE=openmpi.allgather.default",
        "a table, no effect": f"COLLTUNE_TABLE={table}",
    }


def _answer(command: list[str | Path], variables: dict[str, str]) -> tuple[float, float, float]:
    done = subprocess.run(command, check=True, env=variables, capture_output=True, text=True)
    ours, baseline, difference = map(float, done.stdout.split())
    return ours, baseline, difference
