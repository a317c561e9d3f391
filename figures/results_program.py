"""How many different outputs programs have in all arms that a production with `same-bits` may give.

One is a solver in C, which reduces with operations of MPI on the job's communicator. The other one
is in Python (mpi4py, as `make test-foreign` builds it), and makes reductions of all kinds on parts
of the job: results_calls_program.py. The control arm has no file. For each algorithm of a reduction
or a broadcast, with one setting of its parameters, there is one more: a file that chooses it
wherever the promise lets it, on communicators of all sizes. The same arms under `any` show what the
promise is for.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
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
from tests.foreign import suite
from tests.foreign.run import CACHE

RUNS = int(os.environ.get("COLLTUNE_BENCH_RUNS", "50"))
_CALLS, _SEEDS = 300, 4
_NPROCS = 5
_TIMEOUT_S = 120.0
_FORMATS = {"openmpi": "openmpi-classic", "mpich": "mpich-json"}
# who waits must let others run, on fewer cores than processes; no library decides by it
_CALM = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
}
_SOURCE = Path(__file__).with_suffix(".c")
_CALLING = Path(__file__).with_name("results_calls_program.py")


@dataclass(frozen=True)
class Program:
    """A program with what it needs, and what is promised of it.

    ``commands`` are made once in each arm under `any`, and ``runs`` times under `same-bits`.
    """

    name: str
    commands: tuple[tuple[str | Path, ...], ...]
    used: tuple[Collective, ...]
    programs: Programs
    runs: int


def solver(mpi: Installation, folder: Path) -> Program:
    """Return the conjugate gradient."""
    used = (Collective.ALLREDUCE, Collective.REDUCE, Collective.BCAST)
    promised = Programs(same_types=True, builtin_operations=True)
    return Program("solver", ((compiled(mpi, folder),),), used, promised, RUNS)


def caller(mpi: Installation, _folder: Path) -> Program:
    """Return the program that makes all kinds of reductions."""
    found = suite.built(mpi, CACHE)
    commands = tuple(
        ("env", f"PYTHONPATH={found.variables['PYTHONPATH']}", "OPENBLAS_NUM_THREADS=1",
         sys.executable, "-m", "mpi4py", _CALLING, str(seed), str(_CALLS))
        for seed in range(_SEEDS)
    )  # fmt: skip
    used = tuple(each for each in Collective if each.reduces)
    return Program("calls", commands, used, Programs(), 1)


PROGRAMS: tuple[Callable[[Installation, Path], Program], ...] = (solver, caller)


def run() -> Figure:
    """Return the outputs beyond the first one of each command; 0: all are the same."""
    mpis = newest(installations())
    if not mpis:
        sys.exit("results_program: no MPI here; `make test-mpi` installs some")
    others = runs = 0
    facts: dict[str, object] = {}
    for mpi, made in product(mpis, PROGRAMS):
        with tempfile.TemporaryDirectory() as folder:
            program = made(mpi, Path(folder))
            for results in (Results.SAME_BITS, Results.ANY):
                arms = dict(arms_of(mpi, program, results, Path(folder)))
                found = _outputs(mpi, program, results, list(arms.values()))
                outputs, n_runs = [len(each) for each in found], sum(c.total() for c in found)
                name = f"{program.name}, {mpi.library} {mpi.release}, {results}"
                facts[name] = {"arms": len(arms), "runs": n_runs, "outputs": outputs}
                print(f"{name}: {facts[name]}", flush=True)
                if results is Results.SAME_BITS:
                    others, runs = others + sum(outputs) - len(outputs), runs + n_runs
    return Figure("results_program", others, "other outputs", others, runs, facts)


def _outputs(
    mpi: Installation, program: Program, results: Results, arms: Sequence[dict[str, str]]
) -> list[Counter[str]]:
    """Return how often there was each output of each command."""
    many = program.runs if results is Results.SAME_BITS else 1
    return [
        Counter(output(mpi, command, arm) for arm, _ in product(arms, range(many)))
        for command in program.commands
    ]


def compiled(mpi: Installation, folder: Path) -> Path:
    """Return the solver, compiled for an MPI."""
    program = folder / f"solver-{mpi.library}-{mpi.release}"
    command: list[str | Path] = [mpi.mpicc, "-O2", "-std=c11", "-o", program, _SOURCE, "-lm"]
    environment = os.environ | mpi.launch_environment()
    made = process.run(command, timeout_s=_TIMEOUT_S, env=environment)
    process.check(made, "compiling the solver")
    return program


def arms_of(
    mpi: Installation, program: Program, results: Results, folder: Path
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the environment of each arm, the control group's first; like files are one arm."""
    yield "control", {}
    known: set[str] = set()
    programs = replace(program.programs, results=results)
    target = Target.named(_FORMATS[mpi.library], mpi.release, programs=programs)
    for collective in program.used:
        every = target.bound.portfolio(collective).configurations
        for one in {each.algorithm: each for each in every}.values():
            if not one.is_default and not target.bound.harms(one).sentence(programs):
                always: tuple[Interval, ...] = (Interval(0, None, one),)
                rules = {(collective, n): always for n in range(2, _NPROCS + 1)}
                table = DecisionTable(mpi.library, Shape(1, _NPROCS), rules)
                found = rendered(target, table)
                texts = str(found.written.texts).replace(one.id, "")
                if found.written.texts[""] and texts not in known:
                    known.add(texts)
                    path = folder / f"{results}-{one.id}".replace(":", "-")
                    yield one.id, write_rendered(found, path).environment


def output(mpi: Installation, command: tuple[str | Path, ...], environment: dict[str, str]) -> str:
    """Return what one run prints as its result."""
    starter, shape = InstalledMpi(mpi), Shape(1, _NPROCS)
    words, variables = starter.command(shape, command, environment | _CALM)
    done = process.run(words, timeout_s=_TIMEOUT_S, env=variables)
    process.check(done, "running the program")
    return next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
