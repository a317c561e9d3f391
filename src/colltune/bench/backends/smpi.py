"""The SMPI backend: times in SimGrid's simulated world, the same whenever they are asked for."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from colltune import process
from colltune.bench import build
from colltune.bench.backends import raw
from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult, Means
from colltune.bench.campaign import Campaign
from colltune.bench.schedule import Cell, grouped
from colltune.bench.simulated import Simulation
from colltune.domain import (
    INTERPOSED,
    Collective,
    Configuration,
    Context,
    Measurement,
    Portfolio,
    RunStatus,
    Shape,
)
from colltune.errors import say
from colltune.mpi.libcolltune import is_libcolltune
from colltune.mpi.libcolltune.space import LIBCOLLTUNE

LIBRARY = "smpi"
DEFAULT = "ompi"
TESTED = "3.32"
"""The release with which all of this was tried."""
_MEND = "install SimGrid with SMPI (Debian and Ubuntu: libsimgrid-dev)"
_ASK_S = 60.0
# they decide among the algorithms, and "default" is whichever was first
_SELECTORS = ("default", "automatic", "ompi", "mpich", "mvapich2", "impi")
_VERSION = re.compile(r"SimGrid version (\d+(?:\.\d+)+)")
_VALID = re.compile(r"Valid algorithms: ([^\n]*?)\.?\n")
_SETTINGS = (
    "--log=root.thresh:critical",
    "--cfg=smpi/simulate-computation:no",
    "--cfg=contexts/stack-size:256",
    "--cfg=network/crosstraffic:0",
    "--cfg=smpi/test:1e-7",
    "--cfg=smpi/iprobe:1e-7",
    "--cfg=smpi/wtime:0",
    # with its usual precision some runs are aborted
    "--cfg=maxmin/precision:1e-4",
)

ALGORITHMS: Mapping[Collective, tuple[str, ...]] = {
    Collective.ALLGATHER: (
        *("2dmesh", "3dmesh", "bruck", "GB", "loosely_lr", "NTSLR", "NTSLR_NB", "pair", "rdb"),
        *("rhv", "ring", "SMP_NTS", "smp_simple", "spreading_simple", "ompi_neighborexchange"),
        "mvapich2_smp",
    ),
    Collective.ALLGATHERV: (
        *("GB", "pair", "ring", "ompi_neighborexchange", "ompi_bruck", "mpich_rdb", "mpich_ring"),
    ),
    Collective.ALLREDUCE: (
        *("lr", "rab1", "rab2", "rab_rdb", "rdb", "smp_binomial", "smp_binomial_pipeline"),
        *("smp_rdb", "smp_rsag", "smp_rsag_lr", "smp_rsag_rab", "redbcast"),
        *("ompi_ring_segmented", "mvapich2_rs", "mvapich2_two_level", "rab"),
    ),
    Collective.ALLTOALL: (
        *("2dmesh", "3dmesh", "basic_linear", "bruck", "pair", "pair_rma", "pair_light_barrier"),
        *("pair_mpi_barrier", "pair_one_barrier", "rdb", "ring", "ring_light_barrier"),
        *("ring_mpi_barrier", "ring_one_barrier", "mvapich2_scatter_dest"),
    ),
    Collective.ALLTOALLV: (
        *("bruck", "pair", "pair_light_barrier", "pair_mpi_barrier", "pair_one_barrier", "ring"),
        *("ring_light_barrier", "ring_mpi_barrier", "ring_one_barrier", "ompi_basic_linear"),
    ),
    Collective.BARRIER: (
        *("ompi_basic_linear", "ompi_two_procs", "ompi_tree", "ompi_bruck"),
        *("ompi_recursivedoubling", "ompi_doublering", "mpich_smp", "mvapich2_pair"),
    ),
    Collective.BCAST: (
        *("arrival_pattern_aware", "arrival_pattern_aware_wait", "arrival_scatter"),
        *("binomial_tree", "flattree", "flattree_pipeline", "NTSB", "NTSL", "NTSL_Isend"),
        *("scatter_LR_allgather", "scatter_rdb_allgather", "SMP_binary", "SMP_binomial"),
        *("SMP_linear", "ompi_split_bintree", "ompi_pipeline", "mvapich2_inter_node"),
        *("mvapich2_intra_node", "mvapich2_knomial_intra_node"),
    ),
    Collective.GATHER: (
        *("ompi_basic_linear", "ompi_binomial", "ompi_linear_sync", "mvapich2_two_level"),
    ),
    Collective.REDUCE: (
        *("arrival_pattern_aware", "binomial", "flat_tree", "NTSL", "scatter_gather"),
        *("ompi_chain", "ompi_pipeline", "ompi_basic_linear", "ompi_in_order_binary"),
        *("ompi_binary", "ompi_binomial", "mvapich2_knomial", "mvapich2_two_level", "rab"),
    ),
    Collective.REDUCE_SCATTER: (
        *("ompi_basic_recursivehalving", "ompi_ring", "ompi_butterfly", "mpich_pair"),
        *("mpich_rdb", "mpich_noncomm"),
    ),
    Collective.SCATTER: (
        *("ompi_basic_linear", "ompi_linear_nb", "ompi_binomial"),
        *("mvapich2_two_level_binomial", "mvapich2_two_level_direct"),
    ),
}
"""What release 3.32 has, for planning where it is not installed; selectors are left out."""


@dataclass(frozen=True)
class SimGrid:
    smpirun: Path
    smpicc: Path
    release: str

    @classmethod
    def find(cls) -> SimGrid:
        smpirun, smpicc = process.find("smpirun", _MEND), process.find("smpicc", _MEND)
        told = process.run([smpirun, "-version"], timeout_s=_ASK_S)
        match = _VERSION.search(told.stdout)
        if match is None:
            what = "SimGrid's release"
            raise say("not-printed", program=smpirun, what=what, told=told.explain())
        return cls(smpirun, smpicc, match[1])

    def algorithms(self, collective: Collective) -> tuple[str, ...]:
        """Return the names of the algorithms of a collective, selectors left out."""
        # a wrong name makes smpirun tell the right ones
        wrong = f"--cfg=smpi/{collective}:none-of-them"
        words: list[str | Path] = [wrong, self.program(own=False)]
        outcome = self.run(Simulation(), Shape(1, 1), words, timeout_s=_ASK_S)
        match = _VALID.search(f"{outcome.stdout}\n{outcome.stderr}\n")
        if match is None:
            program = f"SimGrid {self.release} (known to work: {TESTED})"
            what = f"its algorithms of {collective}"
            raise say("not-printed", program=program, what=what, told=outcome.explain())
        return tuple(name for name in match[1].split(", ") if name not in _SELECTORS)

    def program(self, *, own: bool) -> Path:
        """Return the compiled benchmark; `own`: with libcolltune's algorithms in it."""
        return build.simulated_benchmark(self.smpicc, self.release, own=own)

    def run(
        self,
        simulation: Simulation,
        shape: Shape,
        words: Sequence[str | Path],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        watch: Callable[[], bool] | None = None,
    ) -> process.ProcessResult:
        """Give `words`, options and a program, to a smpirun of the simulated cluster."""
        with TemporaryDirectory(prefix="colltune-smpi-") as temporary:
            work = Path(temporary)
            platform, hostfile = work / "platform.xml", work / "hosts"
            platform.write_text(simulation.description_for(shape.nodes))
            hostfile.write_text(simulation.hostfile(shape))
            files = ("-platform", platform, "-hostfile", hostfile)
            # its own option for this takes the next word for the program
            command = [self.smpirun, *files, f"--cfg=smpi/tmpdir:{work}", *words]
            return process.run(command, timeout_s=timeout_s, env=env, cwd=work, watch=watch)


def options(simulation: Simulation, configuration: Configuration) -> tuple[str, ...]:
    """Return smpirun's options for a run of `configuration`."""
    own = configuration.library == INTERPOSED
    chosen = DEFAULT if own or configuration.is_default else configuration.algorithm
    return (
        # libcolltune has variables that each process must have for itself
        *(() if own else ("-no-privatize",)),
        *_SETTINGS,
        *simulation.options(),
        f"--cfg=smpi/coll-selector:{DEFAULT}",
        f"--cfg=smpi/{configuration.collective}:{chosen}",
    )


_LAUNCH_S = 0.3
_LEAST_S = 0.5
_MOST_BYTES = 2**31 - 1
_FORCE = "COLLTUNE_FORCE"
_OF_MESSAGES = (
    (Collective.BCAST, "hierarchical"),
    (Collective.ALLTOALLV, "eager_pairwise"),
)


class SmpiBackend:
    """Simulates SimGrid's algorithms on a platform; one repetition tells all."""

    measures_subshapes = False
    launch_s = _LAUNCH_S

    def __init__(self, simulation: Simulation, installed: SimGrid | None) -> None:
        self._simulation = simulation
        self._installed = installed
        self._algorithms: dict[Collective, tuple[str, ...]] = {}
        self._known: dict[Cell, tuple[float, ...]] = {}

    @classmethod
    def made_for(cls, campaign: Campaign, means: Means) -> Self:
        simulation = campaign.smpi or Simulation()
        simulation.hosts(max(campaign.nodes))
        return cls(simulation, None if means.imagined else SimGrid.find())

    def context(self, machine: str) -> Context:
        release = TESTED if self._installed is None else self._installed.release
        return Context(machine, LIBRARY, release, self._simulation.name)

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        if collective not in self._algorithms:
            self._algorithms[collective] = self._ask(collective)
        default = Configuration.default(LIBRARY, collective)
        named = (Configuration(LIBRARY, collective, a) for a in self._algorithms[collective])
        release = self.context("").library_version
        ours = _ours(collective) if campaign.interposed else ()
        portfolio = Portfolio(LIBRARY, release, collective, (default, *named, *ours))
        return portfolio.filtered(campaign.only, campaign.skip)

    def _ask(self, collective: Collective) -> tuple[str, ...]:
        if collective not in ALGORITHMS:
            return ()
        if self._installed is None:
            return ALGORITHMS[collective]
        return self._installed.algorithms(collective)

    def feasible(self, cell: Cell) -> bool:
        instance = cell.instance
        sized = instance.msize_bytes > 0 or instance.collective is Collective.BARRIER
        total_bytes = instance.shape.nprocs * instance.msize_bytes
        simulated = instance.collective in ALGORITHMS
        fits = simulated and sized and total_bytes <= _MOST_BYTES
        return fits and (not is_libcolltune(cell.configuration) or _as_itself(cell))

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        return grouped(cells, lambda cell: cell.instance.shape)

    def provenance(self) -> Mapping[str, str]:
        smpirun = "" if self._installed is None else str(self._installed.smpirun)
        return {
            "backend": "smpi",
            "smpirun": smpirun,
            "platform": self._simulation.description(),
            "simulation": repr(self._simulation),
            "repetition": "simulated time from a common start until the last process has left",
        }

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        """Start smpirun for each configuration that has a step, the smallest messages first."""
        if self._installed is None:
            raise say("only-planned")
        raw.save_cells(folder / "cells.json", plan.cells, launch)
        series = _SimulatedLaunch(self._installed, self._simulation, plan, folder, progress)
        ending = Ending.PLAN
        for number, indices in enumerate(self._unknown(plan)):
            if series.left_s() < _LEAST_S:
                ending = Ending.BUDGET
                break
            series.simulate(number, indices)
        else:
            ending = Ending.BUDGET if series.cut_short else Ending.PLAN
        found = series.found
        simulated = {plan.cells[index]: times_s for index, times_s in found.times_s.items()}
        for index in {step.cell for step in plan.steps}:
            if plan.cells[index] in self._known:
                found.times_s[index] = self._known[plan.cells[index]]
        self._known |= simulated
        return LaunchResult(
            raw.measurements(found, plan.cells, launch),
            ending,
            series.simulating_s,
            series.spent_s(),
            message=series.message,
        )

    def _unknown(self, plan: LaunchPlan) -> list[list[int]]:
        """Return the cells to be simulated: a list for each configuration, in the plan's order."""
        found: dict[Configuration, list[int]] = {}
        for index in dict.fromkeys(step.cell for step in plan.steps):
            cell = plan.cells[index]
            if cell not in self._known:
                found.setdefault(cell.configuration, []).append(index)
        by_size = lambda index: plan.cells[index].instance.msize_bytes  # noqa: E731
        return [sorted(indices, key=by_size) for indices in found.values()]

    def answers(self, shape: Shape, within_s: float) -> bool:
        return True

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        cells, launch = raw.load_cells(folder / "cells.json")
        found = raw.RawOutput()
        for file in sorted(folder.glob("raw-*.txt")):
            found.add(raw.read_raw(file))
        return raw.measurements(found, cells, launch)


@dataclass
class _SimulatedLaunch:
    """The simulations of one launch, one after the other, within its budget."""

    installed: SimGrid
    simulation: Simulation
    plan: LaunchPlan
    folder: Path
    progress: Callable[[float], None]
    started: float = field(default_factory=time.monotonic)
    found: raw.RawOutput = field(default_factory=raw.RawOutput)
    simulating_s: float = 0.0
    message: str = ""
    cut_short: bool = False

    def spent_s(self) -> float:
        return time.monotonic() - self.started

    def left_s(self) -> float:
        return self.plan.budget_s - self.spent_s()

    def simulate(self, number: int, indices: Sequence[int]) -> None:
        """Simulate cells of one configuration, by index; take note of times and problems."""
        limit_s = min(self.simulation.limit_s, self.left_s())
        file = self.folder / f"raw-{number}.txt"
        outcome = self._start(file, indices, limit_s)
        self.simulating_s += outcome.seconds
        output = raw.read_raw(file)
        self.found.add(output)
        if outcome.ok and output.ended:
            return
        if outcome.timed_out and limit_s < self.simulation.limit_s:
            self.cut_short = True
            return
        self._blame(outcome, output, indices)

    def _blame(
        self, outcome: process.ProcessResult, output: raw.RawOutput, indices: Sequence[int]
    ) -> None:
        """Say which cell crashed or hung; larger messages would take longer still."""
        configuration = self.plan.cells[indices[0]].configuration
        if not output.began and configuration.is_default:
            raise say("did-not-start", what="the simulation", why="", told=outcome.explain())
        done = self.found.times_s.keys() | self.found.problems.keys()
        left = [index for index in indices if index not in done]
        self.message = outcome.explain()
        status = RunStatus.TIMEOUT if outcome.timed_out else RunStatus.CRASH
        self.found.problems |= dict.fromkeys(left[:1], (status, ""))
        if outcome.timed_out:
            self.found.problems |= dict.fromkeys(left[1:], (RunStatus.SKIPPED, ""))

    def _start(self, file: Path, indices: Sequence[int], within_s: float) -> process.ProcessResult:
        first = self.plan.cells[indices[0]]
        configuration = first.configuration
        cells = [f"{index}:{self.plan.cells[index].instance.msize_bytes}" for index in indices]
        checked = str(self.simulation.checked_bytes)
        program = self.installed.program(own=is_libcolltune(configuration))
        settings = options(self.simulation, configuration)
        return self.installed.run(
            self.simulation,
            first.instance.shape,
            [*settings, program, file.absolute(), configuration.collective.value, checked, *cells],
            timeout_s=within_s,
            env=_environment(configuration),
            watch=self._watch,
        )

    def _watch(self) -> bool:
        self.progress(self.spent_s())
        return True


def _ours(collective: Collective) -> tuple[Configuration, ...]:
    """Return what libcolltune has, without what waits for shared memory to change."""
    return tuple(
        c for c in LIBCOLLTUNE.offered(collective) if (collective, c.algorithm) in _OF_MESSAGES
    )


def _as_itself(cell: Cell) -> bool:
    configuration, shape = cell.configuration, cell.instance.shape
    plainest = LIBCOLLTUNE.effective(configuration, shape.nprocs)
    return plainest == configuration and not LIBCOLLTUNE.limit_on(configuration, shape)


def _environment(configuration: Configuration) -> dict[str, str]:
    """Return the user's environment, without what would make libcolltune run something else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COLLTUNE_")}
    return kept | ({_FORCE: configuration.id} if is_libcolltune(configuration) else {})
