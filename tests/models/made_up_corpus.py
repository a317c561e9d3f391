"""Made-up machines of one library: the same algorithms and decisions, other networks.

Broadcasts cost what Hockney's model says (latency, bandwidth, a price of each message sent from one
process at once), with a scatter of 3 %. The library's own decision is a table of sizes and
processes, good on average and wrong on every machine somewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from colltune.dataset import PerformanceDataset
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.models.learners import Numbers, regret_trees
from colltune.models.learners.regret_trees import Forest

NODES = (2, 4, 8, 32)
PPN = (1, 4)
MSIZES = tuple(8**k for k in range(1, 9))


class Network(NamedTuple):
    """Seconds per message, per byte and per message that one process has under way."""

    name: str
    latency_s: float
    byte_s: float
    message_s: float


NETWORKS = (
    Network("oak", 1.2e-6, 0.9e-10, 4e-7),
    Network("elm", 2.0e-6, 2.2e-10, 5e-7),
    Network("ash", 1.6e-6, 1.3e-10, 8e-7),
)
ALGORITHMS: dict[str, Callable[[Network, int, int], float]] = {
    "linear": lambda n, p, m: n.latency_s + (p - 1) * (n.message_s + m * n.byte_s),
    "binomial": lambda n, p, m: np.ceil(np.log2(p)) * (n.latency_s + n.message_s + m * n.byte_s),
    "pipeline": lambda n, p, m: (
        (p - 2 + np.ceil(m / 8192)) * (n.latency_s + n.message_s + min(m, 8192) * n.byte_s)
    ),
    "scatter_allgather": lambda n, p, m: (
        (np.ceil(np.log2(p)) + p - 1) * (n.latency_s + n.message_s) + 2 * (p - 1) / p * m * n.byte_s
    ),
}
"""Hockney costs on so many processes (two or more) and bytes."""


def few_trees(features: Numbers, times_s: Numbers) -> Forest:
    """Learn regrets with as few trees as a test needs."""
    return regret_trees.fit(features, times_s, n_trees=25)


def decided(nprocs: int, msize_bytes: int) -> str:
    """Return what the made-up library decides by itself."""
    if msize_bytes < 256:
        return "linear" if nprocs <= 16 else "binomial"
    if msize_bytes < 65536:
        return "binomial"
    return "pipeline" if nprocs > 64 else "binomial"


def context(network: Network, release: str = "4.1.6") -> Context:
    """Return the context of measurements on `network`."""
    return Context(network.name, "openmpi", release)


def corpus_of(
    network: Network,
    *,
    nodes: Iterable[int] = NODES,
    ppn: Iterable[int] = PPN,
    algorithms: Iterable[str] = ("default", *ALGORITHMS),
    collective: Collective = Collective.BCAST,
    library: str = "openmpi",
    reversed_order: bool = False,
    keep: Callable[[Instance], bool] = lambda instance: True,
) -> PerformanceDataset:
    """Return measurements of the instances that `keep` holds for.

    With `reversed_order` the slowest algorithm of each instance takes the time of the fastest, and
    so on.
    """
    rng = np.random.default_rng(len(network.name) + ord(network.name[0]))
    names = tuple(algorithms)
    rows = []
    for n, p, m in ((n, p, m) for n in nodes for p in ppn for m in MSIZES):
        noise = rng.lognormal(0.0, 0.03, len(names))
        instance = Instance(collective, Shape(n, p), m)
        if keep(instance):
            times = all_times(network, n * p, m, reversed_order=reversed_order)
            rows += [
                Measurement(
                    instance,
                    Configuration(library, collective, name),
                    "one",
                    RunStatus.OK,
                    (float(times[name] * factor),),
                )
                for name, factor in zip(names, noise, strict=True)
            ]
    return PerformanceDataset.of(Context(network.name, library, "4.1.6"), rows)


def all_times(
    network: Network, nprocs: int, msize_bytes: int, *, reversed_order: bool = False
) -> dict[str, float]:
    """Return the seconds of all algorithms and of the default, without scatter."""
    times = {name: cost(network, nprocs, msize_bytes) for name, cost in ALGORITHMS.items()}
    if reversed_order:
        ends = min(times.values()) * max(times.values())
        times = {name: ends / time_s for name, time_s in times.items()}
    return times | {"default": times[decided(nprocs, msize_bytes)]}
