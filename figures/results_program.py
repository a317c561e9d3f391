"""How many different outputs a solver has in all arms that a production with `same-bits` may give.

The control arm has no file. For each algorithm of allreduce, reduce and bcast, with one setting of
its parameters, there is one more: a file that chooses it wherever the promise lets it. The same
arms under `any` show what the promise is for.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from colltune import process
from colltune.bench.backends.installed import InstalledMpi
from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.mpi.installation import Installation
from colltune.mpi.programs import Programs, Results
from colltune.selector.configuration import Target, rendered, write_rendered
from figures.figure import Figure
from figures.legal_violations import installations, newest

RUNS = int(os.environ.get("COLLTUNE_BENCH_RUNS", "50"))
_NPROCS = (5,)
_TIMEOUT_S = 60.0
_FORMATS = {"openmpi": "openmpi-classic", "mpich": "mpich-json"}
# who waits must let others run, on fewer cores than processes; no library decides by it
_CALM = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1", "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
_SOURCE = Path(__file__).with_suffix(".c")
_USED = (Collective.ALLREDUCE, Collective.REDUCE, Collective.BCAST)


def run() -> Figure:
    """Return the outputs beyond the first one of each number of processes; 0: all are the same."""
    mpis = newest(installations())
    if not mpis:
        sys.exit("results_program: no MPI here; `make test-mpi` installs some")
    others = runs = 0
    facts: dict[str, object] = {"runs_in_each_arm": RUNS}
    with tempfile.TemporaryDirectory() as folder:
        for mpi in mpis:
            program = compiled(mpi, Path(folder))
            for nprocs in _NPROCS:
                name = f"{mpi.library} {mpi.release}, {nprocs} processes"
                for results in (Results.SAME_BITS, Results.ANY):
                    arms = dict(arms_of(mpi, nprocs, results, Path(folder)))
                    count = RUNS if results is Results.SAME_BITS else 1
                    found: Counter[str] = Counter()
                    for environment in arms.values():
                        found.update(
                            output(mpi, nprocs, program, environment) for _ in range(count)
                        )
                    facts[f"{name}, {results}"] = {"arms": len(arms), "outputs": len(found)}
                    print(f"{name}, {results}: {len(found)} outputs of {len(arms)} arms")
                    if results is Results.SAME_BITS:
                        others, runs = others + len(found) - 1, runs + found.total()
    return Figure("results_program", others, "other outputs", others, runs, facts)


def compiled(mpi: Installation, folder: Path) -> Path:
    """Return the solver, compiled for an MPI."""
    program = folder / f"solver-{mpi.library}-{mpi.release}"
    command: list[str | Path] = [mpi.mpicc, "-O2", "-std=c11", "-o", program, _SOURCE, "-lm"]
    environment = os.environ | mpi.launch_environment()
    made = process.run(command, timeout_s=_TIMEOUT_S, env=environment)
    process.check(made, "compiling the solver")
    return program


def arms_of(
    mpi: Installation, nprocs: int, results: Results, folder: Path
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the environment of each arm, the control group's first; like files are one arm."""
    yield "control", {}
    known: set[str] = set()
    programs = Programs(same_types=True, builtin_operations=True, results=results)
    target = Target.named(_FORMATS[mpi.library], mpi.release, programs=programs)
    for collective in _USED:
        every = target.bound.portfolio(collective).configurations
        for one in {each.algorithm: each for each in every}.values():
            if not one.is_default and not target.bound.harms(one).sentence(programs):
                always: tuple[Interval, ...] = (Interval(0, None, one),)
                rules = {(collective, nprocs): always}
                table = DecisionTable(mpi.library, Shape(1, nprocs), rules)
                found = rendered(target, table)
                texts = str(found.written.texts).replace(one.id, "")
                if found.written.texts[""] and texts not in known:
                    known.add(texts)
                    path = folder / f"{results}-{nprocs}-{one.id}".replace(":", "-")
                    yield one.id, write_rendered(found, path).environment


def output(mpi: Installation, nprocs: int, program: Path, environment: dict[str, str]) -> str:
    """Return what one run prints."""
    starter = InstalledMpi(mpi)
    shape = Shape(1, nprocs)
    command, variables = starter.command(shape, [program], environment | _CALM)
    done = process.run(command, timeout_s=_TIMEOUT_S, env=variables)
    process.check(done, "running the solver")
    return next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
