"""How many reductions give other bits than is promised, under decisions that promise results.

Takes every MPI that `make test-mpi` has installed, and those on PATH, and libcolltune's algorithms
over the newest Open MPI and MPICH. Every algorithm and parameter that may run under ``same-bits``,
or under ``ranks-agree``, makes calls of random sizes with all kinds of numbers and operations of
native/legal_bits.c, on 2 to 16 processes. The catalogue's facts were measured with other sizes.

With COLLTUNE_BENCH_NODES=2 the processes lie on so many emulated nodes, which needs root; only
releases of Open MPI whose bits are known there are tried.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from colltune.bench.backends.installed import InstalledMpi
from colltune.bench.launchers import Launcher, Start, launcher_of
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi import Release
from colltune.mpi.installation import Installation
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.programs import Programs, Results
from colltune.mpi.running import Promises
from colltune.verify.legal_programs import (
    BITS,
    FIRST,
    ON_NODES,
    LegalCall,
    LegalityMeasurement,
    Matrix,
)
from figures.figure import Figure
from figures.legal_violations import over_all
from tests.integration.virtual_nodes import Inside, Namespaces, openmpi_hosts

PROCESSES = tuple(range(2, 17))
_SIZES = 4
_MOST_BYTES = 1 << 20
_MOST_IN_ALL = 1 << 22
_SEED = int(os.environ.get("COLLTUNE_BENCH_SEED", "33"))
NODES = int(os.environ.get("COLLTUNE_BENCH_NODES", "1"))
_ONE_IN = 4
"""Of the configurations that only ``ranks-agree`` allows, one in so many is tried."""


def drawn(collective: Collective, nprocs: int) -> Iterator[LegalCall]:
    """Yield calls of random sizes, with operations of MPI and of a program's own."""
    if not collective.reduces or nprocs % NODES:
        return
    chance = random.Random(f"{_SEED} {collective} {nprocs}")  # noqa: S311
    blocks = nprocs * (nprocs if collective.has_block_per_rank else 1)
    most = min(_MOST_BYTES, _MOST_IN_ALL // blocks) // 4
    for _ in range(_SIZES):
        n_bytes = 4 * round(most ** chance.random())
        for own in (0, 1):
            turn = ON_NODES if NODES > 1 else FIRST
            yield LegalCall(collective, BITS, 2 * turn + own, n_bytes, nprocs)


def may_run(
    release: Release, configuration: Configuration, call: LegalCall, results: Results
) -> bool:
    """Tell whether a decision that promises `results` may choose it for such a call."""
    builtin = not call.variant % 2
    programs = Programs(same_types=True, builtin_operations=builtin, results=results)
    nodes = NODES if call.turn == ON_NODES else 1
    place = Shape(nodes, call.nprocs // nodes)
    return not release.runs(configuration, place, Promises(programs)).why_not_at(call.ints)


def is_asked(release: Release, configuration: Configuration, call: LegalCall) -> bool:
    """Tell whether a call is made: all that keep the bits, some of the others."""
    if may_run(release, configuration, call, Results.SAME_BITS):
        return True
    chance = random.Random(f"{_SEED} {configuration.id} {call.nprocs}")  # noqa: S311
    others = chance.randrange(_ONE_IN) == 0 and call.collective is Collective.ALLREDUCE
    return others and may_run(release, configuration, call, Results.RANKS_AGREE)


def run() -> Figure:
    """Return the calls that broke a promise, over all MPIs here."""
    chosen = Matrix(PROCESSES, calls=drawn, fits=is_asked, bits=True, nodes=NODES)
    return over_all("results_violations", chosen, _violations)


def _violations(mpi: Installation, matrix: Matrix) -> tuple[int, int]:
    """Return how many calls broke a promise, and how many were made."""
    release = with_libcolltune(mpi.mpi).at(mpi.release)
    wrong = made = 0
    if NODES > 1 and (mpi.library != "openmpi" or matrix.own):
        return 0, 0
    with tempfile.TemporaryDirectory() as folder, _starting(mpi, Path(folder)) as starter:
        out = Path(folder) / "outcomes.json"
        measurement = LegalityMeasurement(mpi, out, matrix, starter=starter)
        measurement.run()
        for every in matrix.configurations(release).values():
            for one in every:
                for each in measurement.compared(one):
                    same_bits = may_run(release, one, each.call, Results.SAME_BITS)
                    broken = not each.ranks_agree or (same_bits and not each.as_default)
                    made, wrong = made + each.numbers, wrong + broken * each.numbers
                    if broken:
                        print(f"  {one.id}: {each}", flush=True)
    return wrong, made


@dataclass(frozen=True)
class _OnNodes:
    """Starts what asks for several nodes on emulated ones."""

    plain: Launcher
    inside: Launcher

    def command(self, start: Start) -> tuple[str, ...]:
        return (self.inside if start.shape.nodes > 1 else self.plain).command(start)

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        chosen = self.inside if shape.nodes > 1 else self.plain
        return chosen.environment(user, wanted, shape)


@contextmanager
def _starting(mpi: Installation, folder: Path) -> Iterator[InstalledMpi]:
    """Yield what starts programs of an MPI, on emulated nodes where they are asked for."""
    plain = launcher_of(mpi)
    if NODES == 1:
        yield InstalledMpi(mpi)
        return
    names = [f"n{at}" for at in range(NODES)]
    with Namespaces(names[0]) as spaces:
        options = openmpi_hosts(folder, names, max(PROCESSES) // NODES, mpi.release)
        yield InstalledMpi(mpi, _OnNodes(plain, Inside(plain, spaces, tuple(options))))
