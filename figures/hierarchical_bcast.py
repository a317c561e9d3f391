"""The broadcast in groups against the same algorithm without groups, on a virtual cluster.

Hasanov et al. 2015: groups pay for a chain always (eq. 1), and for scatter and ring allgather where
latency dominates: alpha / beta > 2 m / p (eq. 6). The cluster's hosts are joined by messages that
take 5 ms each, so that the machine's processors, which all hosts share, hardly matter.

The tuner does not see the message size that is judged: cost models fitted to two others say how
many groups to take.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cluster import Network, virtual_cluster
from cluster.launching import OnCluster
from colltune.bench.backends import LaunchPlan, raw
from colltune.bench.backends.native import NativeBackend
from colltune.bench.launchers import launcher_of
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.dataset import PerformanceDataset
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    Shape,
)
from colltune.models.fitting import fit
from colltune.mpi import LIBRARIES, installation
from colltune.mpi.libcolltune import PRELOAD
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.libcolltune.space import LIBCOLLTUNE
from colltune.selector.argmin import ModelSelector
from figures.figure import Figure

_NODES = 16
_LATENCY_US = 5000.0
_RATE_MBIT = 1000.0
_GROUPS = (1, 2, 4, 8)
_WORDS = ("scatter_ring_allgather", "chain")
_LEARNED_BYTES = (4096, 262144)
_JUDGED_BYTES = 65536
_ROUNDS = 4
_REPS = 4
_BUDGET_S = 150.0
_SHAPE = Shape(_NODES, 1)

Times = Mapping[Cell, tuple[float, ...]]


def run() -> Figure:
    """Return the larger one of both algorithms' ratios of the best grouped to the flat runtime."""
    if _LATENCY_US * 1e-6 <= 2 * _JUDGED_BYTES / _NODES * 8e-6 / _RATE_MBIT:
        raise SystemExit("eq. 6 does not hold on this bed; it says nothing")
    times = _measured()
    median_s = {cell: statistics.median(found) for cell, found in times.items()}
    worst: tuple[float, float, float] = (0.0, 0.0, 1.0)
    facts: dict[str, object] = {}
    for word in _WORDS:
        judged = {g: median_s[_cell(word, g, _JUDGED_BYTES)] for g in _GROUPS}
        best = min((g for g in _GROUPS if g > 1), key=judged.__getitem__)
        worst = max(worst, (judged[best] / judged[1], judged[best], judged[1]))
        found = _tuned(word, times)
        facts[word] = {
            "best_groups": best,
            "tuned_groups": found,
            "within_a_factor_2": best / 2 <= found <= 2 * best,
            "grouped_s": round(judged[best], 6),
            "flat_s": round(judged[1], 6),
        }
    return Figure("hierarchical_bcast", worst[0], "ratio", worst[1], worst[2], facts)


def _configuration(word: str, groups: int) -> Configuration:
    text = f"colltune.bcast.hierarchical:groups={groups},inner={word}"
    return LIBCOLLTUNE.canonical(Configuration.parse(text))


def _cell(word: str, groups: int, msize_bytes: int) -> Cell:
    return Cell(_configuration(word, groups), Instance(Collective.BCAST, _SHAPE, msize_bytes))


def _measured() -> Times:
    """Return the times of all cells, visited in turn in one launch."""
    sizes = (*_LEARNED_BYTES, _JUDGED_BYTES)
    cells = tuple(_cell(w, g, m) for m in sizes for w in _WORDS for g in _GROUPS)
    steps = tuple(ScheduleStep(i, _REPS, 60.0) for _ in range(_ROUNDS) for i in range(len(cells)))
    plan = LaunchPlan(_SHAPE, cells, steps, _BUDGET_S)
    found = installation.find(library="openmpi")
    library = with_libcolltune(LIBRARIES["openmpi"])
    settings = [library.at(found.release).force(cell.configuration) for cell in cells]
    network = Network(_NODES, 1, _LATENCY_US, (_RATE_MBIT,))
    with tempfile.TemporaryDirectory() as folder, virtual_cluster(network) as cluster:
        launcher = OnCluster(launcher_of(found), cluster, realtime=True)
        backend = NativeBackend(found, launcher=launcher)
        wanted = {PRELOAD: str(backend.interposed())}
        outcome = backend.launch(plan, settings, "bench", Path(folder), wanted)
        output = raw.read_raw(Path(folder) / "raw.txt")
    if len(output.times_s) < len(cells):
        raise SystemExit(f"only {len(output.times_s)} of {len(cells)} cells\n{outcome.explain()}")
    return {cell: output.times_s[i] for i, cell in enumerate(cells)}


def _tuned(word: str, times: Times) -> int:
    """Return how many groups are selected for the size that is judged, learned from the others."""
    learned = [
        Measurement(cell.instance, cell.configuration, "bench", times_s=times[cell])
        for cell in times
        if cell.instance.msize_bytes in _LEARNED_BYTES and cell.configuration.matches(f"*={word},*")
    ]
    release = installation.find(library="openmpi").release
    context = Context("virtual cluster", "openmpi", release)
    bundle = fit(PerformanceDataset.of(context, learned), "cost_model")
    selector = ModelSelector(bundle, guard=False)
    chosen = selector.select(Instance(Collective.BCAST, _SHAPE, _JUDGED_BYTES)).configuration
    return chosen.numbers["groups"]
