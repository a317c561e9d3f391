"""Seconds of HAN's tuning by tasks over those of an exhaustive search, on one virtual cluster.

Four hosts with two processes each, 2 ms apart: what costs time is the number of messages one after
another. Both tune MPI_Bcast and MPI_Allreduce for the same message sizes over the same setups of
coll/han (Luo et al., CLUSTER 2020, sec. III-C), with the same repetitions; setups that run in the
same way for a message are measured once in either. The picks' regret is what the exhaustive search
measured of them over the best it found.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from cluster import Network, obstacle, virtual_cluster
from cluster.launching import OnCluster
from colltune.bench import build
from colltune.bench.backends import LaunchPlan
from colltune.bench.backends.native import NativeBackend
from colltune.bench.launchers import Launcher, launcher_of
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import (
    Collective,
    Context,
    Instance,
    Measurement,
    Shape,
    Synchronisation,
)
from colltune.errors import ProgramError
from colltune.han.choosing import HanComparison, compare, exhaustive_of
from colltune.han.measuring import TaskBench, measure
from colltune.han.space import Setups, Space, TuningInputs, TuningRequest, setups_of
from colltune.han.tasks_file import TaskTimes
from colltune.mpi import LIBRARIES, installation
from colltune.mpi.installation import Installation
from figures.figure import Figure

_SHAPE = Shape(4, 2)
_NETWORK = Network(nodes=4, ppn=2, latency_us=2000, rates_mbit=(1000,))
_COLLECTIVES = (Collective.BCAST, Collective.ALLREDUCE)
_MSIZES = (1024, 4096, 16384, 65536, 262144, 1048576)
_REPS, _BUDGET_S, _VISIT_S = 3, 900.0, 60.0


def run() -> Figure:
    """Return the share of the exhaustive search's wall time that tuning by tasks takes."""
    if why := obstacle():
        sys.exit(f"han_tuning_vs_exhaustive: {why}")
    try:
        found = installation.find(library="openmpi")
    except ProgramError as error:
        sys.exit(f"han_tuning_vs_exhaustive: {error}")
    build.native_benchmark(found)
    with (
        virtual_cluster(_NETWORK) as cluster,
        tempfile.TemporaryDirectory(prefix="colltune-") as folder,
    ):
        launcher = OnCluster(launcher_of(found), cluster, realtime=True)
        ways = {
            name: _by_tasks(found, launcher, Path(folder) / f"{name}.jsonl", heuristics=by)
            for name, by in (("tasks", False), ("heuristics", True))
        }
        started = time.monotonic()
        measurements = _exhaustively(found, launcher, Path(folder))
        exhaustive_s = time.monotonic() - started
    exhaustive = exhaustive_of(found.release, measurements)
    compared = {
        name: compare(tasks, setups, exhaustive) for name, (_, tasks, setups) in ways.items()
    }
    seconds = {"exhaustive": exhaustive_s} | {name: way[0] for name, way in ways.items()}
    _print(compared, seconds)
    return Figure(
        "han_tuning_vs_exhaustive",
        seconds["tasks"] / exhaustive_s,
        "share",
        seconds["tasks"],
        exhaustive_s,
        {
            "share_with_heuristics": round(seconds["heuristics"] / exhaustive_s, 4),
            "mean_regret": round(compared["tasks"].mean_regret, 4),
            "mean_regret_with_heuristics": round(compared["heuristics"].mean_regret, 4),
        },
    )


def _by_tasks(
    found: Installation, launcher: Launcher, path: Path, *, heuristics: bool
) -> tuple[float, TaskTimes, dict[Collective, Setups]]:
    """Return the seconds that it took, the task times, and the setups to pick from."""
    request = TuningRequest(
        TuningInputs(_COLLECTIVES, (_SHAPE,), _MSIZES), Space(), _REPS, heuristics
    )
    bench = TaskBench(found, launcher=launcher)
    context = Context("virtual cluster", found.library, found.release)
    started = time.monotonic()
    done = measure(bench, context, request, path, _BUDGET_S)
    spent_s = time.monotonic() - started
    if not done.complete:
        sys.exit("han_tuning_vs_exhaustive: the tasks were not measured within the budget")
    return spent_s, done.tasks, setups_of(request, found.release, _SHAPE)


def _exhaustively(found: Installation, launcher: Launcher, folder: Path) -> tuple[Measurement, ...]:
    """Measure every setup as a whole collective for every message size."""
    backend, library = NativeBackend(found, launcher=launcher), LIBRARIES[found.library]
    cells: dict[Cell, None] = {}
    for collective in _COLLECTIVES:
        for setup in Space().setups(found.release, collective):
            for msize in _MSIZES:
                runs = library.at(found.release).effective(setup, _SHAPE.nprocs, msize)
                cells[Cell(runs, Instance(collective, _SHAPE, msize))] = None
    measured: list[Measurement] = []
    for number, group in enumerate(backend.together(list(cells))):
        steps = tuple(ScheduleStep(i, _REPS, _VISIT_S) for i in range(len(group)))
        plan = LaunchPlan(_SHAPE, group, steps, _BUDGET_S, Synchronisation.WINDOW)
        (folder / str(number)).mkdir()
        result = backend.run(plan, f"{number}", folder / str(number), lambda _: None)
        measured += result.measurements
    return tuple(measured)


def _print(compared: dict[str, HanComparison], seconds: dict[str, float]) -> None:
    for name, value in seconds.items():
        print(f"{name:12}{value:8.1f} s{value / seconds['exhaustive']:8.1%}")
    for name, found in compared.items():
        print(f"\npicked by {name}, in milliseconds: composed, measured; best, median of all")
        for one in found.instances:
            times = (one.composed_s, one.picked_s, one.best_s, one.median_s)
            print(
                f"{one.instance.collective:10}{one.instance.msize_bytes:>9}"
                + "".join(f"{1e3 * t:9.2f}" for t in times)
                + f"{one.regret:8.1%}  {one.picked.parameter_text}"
            )
