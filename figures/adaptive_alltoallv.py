"""The alltoallv whose threshold is adapted while it runs, against the best of fixed thresholds."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster import Network, obstacle, virtual_cluster
from colltune import process
from colltune.bench import build
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from figures.figure import Figure

SOURCE = Path(__file__).with_suffix(".c")
THRESHOLDS = (0, 256, 4096, 32768, 131072, 1048576)
ADAPTIVE = "colltune.alltoallv.adaptive:every=5,start=0"
NETWORK = Network(nodes=8, ppn=1, latency_us=2000, rates_mbit=(1000,))
BLOCKS, ITERATIONS, LAST = 60, 10, 20
_TIMEOUT_S = 600.0
_HICCUP = 4.0
"""Times beyond this many medians of their configuration are the machine's, and count as this."""


@dataclass(frozen=True)
class Run:
    """Seconds of all exchanges, by configuration and block."""

    configurations: tuple[str, ...]
    time_s: dict[str, list[list[float]]]

    def last_mean_s(self, configuration: str) -> float:
        """Return the mean of the last blocks, tests of other thresholds included."""
        times = [time for block in self.time_s[configuration][-LAST:] for time in block]
        most = _HICCUP * statistics.median(times)
        return statistics.fmean(min(time, most) for time in times)


def run() -> Figure:
    """Return the adaptive one's mean time at the end over that of the best fixed threshold.

    On a virtual cluster where there can be one (8 nodes, 2 ms, 1 Gbit/s), else on this host, with 8
    processes. COLLTUNE_FEEDBACK names a folder for the trace of the adaptation.
    """
    mpi = installation.find(None)
    with tempfile.TemporaryDirectory() as folder:
        outcome = _launched(mpi, Path(folder))
    process.check(outcome, "the exchange of particles")
    found = _read(outcome.stdout)
    means = {name: found.last_mean_s(name) for name in found.configurations}
    for name, mean in means.items():
        print(f"{1e3 * mean:10.3f} ms  {name}", file=sys.stderr)
    ours = means.pop(ADAPTIVE)
    baseline = min(means.values())
    return Figure("adaptive_alltoallv", ours / baseline, "ratio", ours, baseline)


def configurations() -> tuple[str, ...]:
    """Return all that are compared."""
    fixed = (f"colltune.alltoallv.eager_pairwise:threshold={number}" for number in THRESHOLDS)
    return (*fixed, ADAPTIVE)


def _launched(mpi: Installation, folder: Path) -> process.ProcessResult:
    variables = dict(os.environ) | mpi.launch_environment()
    library = build.interposed_library(mpi)
    program = folder / "exchange"
    compiler: Sequence[str | Path] = [mpi.mpicc, "-O2", "-std=c11", "-o", program, SOURCE, "-ldl"]
    process.check(process.run(compiler, timeout_s=60, env=variables), "compiling the exchange")
    feedback = os.environ.get("COLLTUNE_FEEDBACK", "")
    preload = ["env", f"LD_PRELOAD={library}", f"COLLTUNE_FEEDBACK={feedback}"]
    numbers = [str(BLOCKS), str(ITERATIONS), str(len(THRESHOLDS))]
    command: list[str | Path] = [*preload, program, *numbers, *configurations()]
    many = ["-np", str(NETWORK.nodes * NETWORK.ppn)]
    quiet = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_pml": "ob1"}
    if reason := obstacle():
        print(f"on this host: {reason}", file=sys.stderr)
        words: list[str | Path] = [mpi.mpirun, *many, "--oversubscribe", *command]
        return process.run(words, timeout_s=_TIMEOUT_S, env=variables | quiet)
    with virtual_cluster(NETWORK) as cluster:
        words = [mpi.mpirun, *many, "--map-by", f"ppr:{NETWORK.ppn}:node", *command]
        wanted = mpi.launch_environment() | quiet
        return cluster.run(words, wanted, timeout_s=_TIMEOUT_S, realtime=True)


def _read(text: str) -> Run:
    names = configurations()
    times: dict[str, list[list[float]]] = {name: [[] for _ in range(BLOCKS)] for name in names}
    for line in text.splitlines():
        block, number, seconds = line.split()
        times[names[int(number)]][int(block)].append(float(seconds))
    return Run(names, times)
