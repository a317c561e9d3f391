"""How far a virtual cluster's latency and rate are from what was asked for, at most."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from cluster import Network, obstacle, virtual_cluster
from colltune import process
from colltune.mpi import installation
from figures.figure import Figure

_SOURCE = Path(__file__).parents[1] / "cluster" / "pingpong.c"
_MESSAGES, _LARGE_BYTES = 100, 8_000_000
_NETWORKS = (
    Network(2, 1, latency_us=2000.0, rates_mbit=(1000.0,)),
    Network(2, 1, latency_us=2000.0, rates_mbit=(500.0, 500.0)),
    Network(2, 1, latency_us=5000.0, rates_mbit=(200.0,)),
)


def run() -> Figure:
    """Return the largest relative error of half a round trip, and of a large message's rate.

    Between two hosts under Open MPI, the least of many messages; `ours` is the error of latencies,
    `baseline` that of rates. With two rails the rate is that of both.
    """
    reason = obstacle()
    if reason:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pingpong"
        mpi = installation.find()
        process.check(
            process.run([mpi.mpicc, "-O2", "-o", program, _SOURCE], timeout_s=60.0), "compiling"
        )
        seen = [list(_errors(network, mpi.mpirun, program)) for network in _NETWORKS]
    latency, rate = (max(errors[i] for errors in seen) for i in (0, 1))
    return Figure("virtual_cluster_error", max(latency, rate), "relative", latency, rate)


def _errors(network: Network, mpirun: Path, program: Path) -> Iterator[float]:
    """Yield the relative errors of latency and rate."""
    words = (str(_MESSAGES), str(_LARGE_BYTES))
    start: list[str | Path] = [mpirun, "-n", "2", "--map-by", "ppr:1:node", program, *words]
    with virtual_cluster(network) as cluster:
        outcome = cluster.run(start, realtime=True, timeout_s=120.0)
    process.check(outcome, "the ping-pong")
    latency_us, rate_mbit = map(float, outcome.stdout.split())
    print(f"{network}: {latency_us:.0f} us, {rate_mbit:.0f} Mbit/s")
    yield abs(latency_us / network.latency_us - 1)
    yield abs(rate_mbit / sum(network.rates_mbit) - 1)
