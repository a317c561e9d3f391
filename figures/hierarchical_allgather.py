"""The hierarchical allgather and ring allreduce of libcolltune on a virtual cluster of 4 hosts x 4.

All are timed in turn in one job. Hosts share the machine's processors: what is seen is the part of
the network (messages one after the other, bytes per link) and how far copying hides behind it.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster import Network, virtual_cluster
from colltune import process
from colltune.bench.build import interposed_library
from colltune.mpi import installation
from figures.figure import Figure

_SOURCE = Path(__file__).with_suffix(".c")
_GATHER = "colltune.allgather.hierarchical:chunk=0,exchange={},leaders={},overlap={}"
_REDUCE = "colltune.allreduce.ring:chunk=0,exchange=ring,leaders=1,overlap=yes"
_LIBRARY = "-"
_ROUNDS = 15
_NODES, _PPN = 4, 4
_RING = 4  # of coll/tuned, of both collectives
_TIMEOUT_S = 120.0
# each half of a host's processes sends over a rail of its own, though the other can be reached
_BOUND = """\
mine=$((2 * OMPI_COMM_WORLD_LOCAL_RANK / OMPI_COMM_WORLD_LOCAL_SIZE)); other=$((1 - mine))
export OMPI_MCA_btl_tcp_bandwidth_rail$mine=100000 OMPI_MCA_btl_tcp_latency_rail$mine=10
export OMPI_MCA_btl_tcp_bandwidth_rail$other=1 OMPI_MCA_btl_tcp_latency_rail$other=100000
exec "$@"
"""


@dataclass(frozen=True)
class _Job:
    """What is timed where; ``bound`` gives each half of a host's processes a rail."""

    network: Network
    collective: str
    msize_bytes: int
    ids: Sequence[str]
    bound: bool = False

    def times_s(self) -> list[list[float]]:
        """Return the times of each round, one for each id."""
        mpi = installation.find(library="openmpi")
        forced = "OMPI_MCA_coll_tuned"
        environment = {
            "COLLTUNE_FORCE": _REDUCE,
            "OMPI_MCA_coll": "^han",
            f"{forced}_use_dynamic_rules": "1",
            f"{forced}_{self.collective}_algorithm": str(_RING),
        }
        with tempfile.TemporaryDirectory() as folder, virtual_cluster(self.network) as cluster:
            program = Path(folder) / "allgather"
            compiled = process.run(
                [mpi.mpicc, "-O2", "-std=c11", "-o", program, _SOURCE, "-ldl"],
                timeout_s=_TIMEOUT_S,
                env=dict(os.environ) | mpi.launch_environment(),
            )
            process.check(compiled, "compiling the benchmark")
            library = interposed_library(mpi)
            calls: list[str | Path] = [
                program,
                self.collective,
                str(self.msize_bytes),
                str(_ROUNDS),
                *self.ids,
            ]
            bind = ["sh", "-c", _BOUND, "sh"] if self.bound else []
            nprocs = str(self.network.nodes * self.network.ppn)
            spread = ["--map-by", f"ppr:{self.network.ppn}:node"]
            preloaded = ["env", f"LD_PRELOAD={library}"]
            outcome = cluster.run(
                [mpi.mpirun, "-n", nprocs, *spread, *bind, *preloaded, *calls],
                mpi.launch_environment() | environment,
                timeout_s=_TIMEOUT_S,
                realtime=True,
            )
        process.check(outcome, "the job on the virtual cluster")
        return [[float(time) for time in line.split()] for line in outcome.stdout.splitlines()]

    def figure(self, name: str) -> Figure:
        """Return the median ratio of the first configuration to the second, round by round."""
        rounds = self.times_s()
        ours, baseline = (statistics.median(times) for times in zip(*rounds, strict=True))
        ratio = statistics.median(a / b for a, b in rounds)
        return Figure(name, ratio, "ratio", ours, baseline)


def run() -> Figure:
    """Return the time of the hierarchical allgather against the library's flat ring (64 KiB)."""
    network = Network(_NODES, _PPN, 2000.0, (1000.0,))
    ids = [_GATHER.format("ring", 1, "yes"), _LIBRARY]
    return _Job(network, "allgather", 65536, ids).figure("hierarchical_allgather")


def run_overlap() -> Figure:
    """Return the time of the hierarchical allgather against itself without overlap (512 KiB)."""
    network = Network(_NODES, _PPN, 10000.0, (0.0,))
    ids = [_GATHER.format("ring", 1, word) for word in ("yes", "no")]
    return _Job(network, "allgather", 524288, ids).figure("allgather_overlap")


def run_leaders() -> Figure:
    """Return the time of two leaders, each bound to a rail, against that of one (64 KiB)."""
    network = Network(_NODES, _PPN, 1000.0, (200.0, 200.0))
    ids = [_GATHER.format("ring", leaders, "yes") for leaders in (2, 1)]
    return _Job(network, "allgather", 65536, ids, bound=True).figure("allgather_leaders")


def run_allreduce() -> Figure:
    """Return the time of the ring allreduce over nodes against the library's flat ring (1 MiB)."""
    network = Network(_NODES, _PPN, 2000.0, (1000.0,))
    job = _Job(network, "allreduce", 1 << 20, [_REDUCE, _LIBRARY])
    return job.figure("hierarchical_allreduce")
