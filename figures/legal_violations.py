"""How many legal calls go wrong under algorithms that may be written for every legal program.

Takes every MPI that `make test-mpi` has installed, and those on PATH. Every algorithm and
parameter that `Release.safe` lets a file for any legal program have makes calls of all modes, of
random sizes, on other numbers of processes than those by which the catalogue's outcomes were
measured. So do libcolltune's algorithms, over the newest Open MPI and the newest MPICH. What the
library's own decision cannot do is not asked.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from colltune.domain import Collective, Configuration
from colltune.errors import ColltuneError
from colltune.mpi import LIBRARIES, Release, installation
from colltune.mpi.installation import Installation
from colltune.mpi.programs import ANY_LEGAL, ProgramOutcome
from colltune.mpi.running import Promises
from colltune.verify import legal_programs
from colltune.verify.legal_programs import LegalCall, LegalityMeasurement, Matrix
from figures.figure import Figure
from tests.integration import install

PROCESSES = (3, 6)
_MOST_INTS = 40000
_LEAST_CALLS = 20000
_SEED = int(os.environ.get("COLLTUNE_BENCH_SEED", "27"))


def drawn(collective: Collective, nprocs: int) -> Iterator[LegalCall]:
    """Yield one call of random size for each way of each mode."""
    ways = dict.fromkeys(
        (call.mode, call.variant) for call in legal_programs.calls(collective, nprocs)
    )
    for mode, variant in ways:
        chance = random.Random(f"{_SEED} {collective} {mode} {variant} {nprocs}")  # noqa: S311
        ints = round(_MOST_INTS ** chance.random())
        yield LegalCall(collective, mode, variant, ints, nprocs)


def may_be_written(release: Release, configuration: Configuration) -> bool:
    """Tell whether a file for any legal program may have it."""
    return not release.runs(configuration, promises=Promises(ANY_LEGAL)).refusal


def installations() -> list[Installation]:
    """Return the MPIs at hand, each release once."""
    folders = [folder for one in install.rounds() for folder in one.values()]
    found: dict[tuple[str, str], Installation] = {}
    for named, library in [*((f, None) for f in folders), *((None, each) for each in LIBRARIES)]:
        try:
            mpi = installation.find(named, library)
        except ColltuneError:
            continue
        found.setdefault((mpi.library, mpi.release), mpi)
    return list(found.values())


def newest(mpis: list[Installation]) -> list[Installation]:
    """Return the newest release each of Open MPI and MPICH."""
    libraries = [[mpi for mpi in mpis if mpi.library == name] for name in ("openmpi", "mpich")]
    return [
        max(found, key=lambda mpi: tuple(map(int, mpi.release.split("."))))
        for found in libraries
        if found
    ]


def run() -> Figure:
    """Return the calls that went wrong, over all MPIs here."""
    chosen = Matrix(PROCESSES, calls=drawn, keeps=may_be_written)
    return over_all("legal_violations", chosen, _violations)


def over_all(
    figure: str, chosen: Matrix, counted: Callable[[Installation, Matrix], tuple[int, int]]
) -> Figure:
    """Return the calls that went wrong, over all MPIs here and libcolltune over the newest ones.

    `counted` returns for one of them how many did, and how many were made.
    """
    mpis = installations()
    if not mpis:
        sys.exit(f"{figure}: no MPI here; `make test-mpi` installs some")
    runs = [(mpi, chosen) for mpi in mpis]
    runs += [(mpi, replace(chosen, own=True)) for mpi in newest(mpis)]
    violations = total = 0
    by_release: dict[str, list[int]] = {}
    for mpi, matrix in runs:
        wrong, made = counted(mpi, matrix)
        name = f"{'libcolltune over ' * matrix.own}{mpi.mpi.title} {mpi.release}"
        by_release[name] = [wrong, made]
        print(f"{name}: {wrong} of {made} calls", flush=True)
        violations, total = violations + wrong, total + made
    if total < _LEAST_CALLS:
        print(f"only {total} calls; install more MPIs", file=sys.stderr)
    return Figure(figure, violations, "calls", violations, total, {"by_release": by_release})


def _violations(mpi: Installation, matrix: Matrix) -> tuple[int, int]:
    """Return how many calls went wrong, and how many were made."""
    with tempfile.TemporaryDirectory() as folder:
        measurement = LegalityMeasurement(mpi, Path(folder) / "outcomes.toml", matrix)
        measured = measurement.run()
    made = sum(measurement.answers.values())
    for collective, kinds in measured.outcomes.items():
        for kind, seen in kinds.items():
            for mode, outcome in seen.items():
                if kind != "default" and outcome is not ProgramOutcome.NOT_MEASURED:
                    print(f"  {collective} {kind}: {outcome} in {mode}", flush=True)
    return made - measurement.answers[ProgramOutcome.RIGHT], made
