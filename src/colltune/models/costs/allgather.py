"""Allgathers of blocks of m bytes over p processes: everyone ends with all p blocks.

* ring: ``(p - 1) (alpha + m beta)`` and direct spread: the same, split ``(P - 1)`` within and
  ``(N - 1) P`` between nodes (Tran et al., sec. 2.2.1);
* recursive doubling: ``log2(p) alpha + (p - 1) m beta``, the message doubling with the distance
  (Tran et al., sec. 2.2.1; Thakur et al., "Optimization of collective communication operations in
  MPICH", IJHPCA 19(1), 2005, sec. 4.1);
* Bruck: ``ceil(log2 p) alpha + (p - 1) m beta``, any p, and a rotation in memory (Thakur et al.,
  sec. 4.1; Bruck et al., IEEE TPDS 8(11), 1997); with radix k, ``(k - 1) ceil(log_k p)`` messages;
* neighbour exchange: ``p / 2 alpha + (p - 1) m beta`` for even p (Chen et al., "Performance
  evaluation of allgather algorithms on terascale Linux cluster with fast Ethernet", HPC-Asia 2005);
* sparbit: as Bruck, from far to near, so that most bytes go to close ranks (Loch and Koslovski,
  "Sparbit: a new logarithmic-cost and data locality-aware MPI Allgather algorithm", CLEI 2021).
"""

from __future__ import annotations

import numpy as np

from colltune.models.cost_model import (
    Coefficient,
    CostTerm,
    Instances,
    Numbers,
    Parameters,
    merged,
    term,
    traffic_terms,
)
from colltune.models.costs.partners import (
    exchange_rounds,
    neighbour_rounds,
    power_of_two_below,
    round_terms,
    shift_rounds,
    spread_traffic,
)


def ring_of_blocks(instances: Instances, block: Numbers) -> list[CostTerm]:
    """Return the cost of a ring over blocks of `block` bytes (n)."""
    rounds = instances.nprocs - 1
    return neighbour_rounds(instances, "rounds of the ring", rounds, rounds * block)


def doubling_of_blocks(instances: Instances, block: Numbers) -> list[CostTerm]:
    """Return the cost of recursive doubling over blocks of `block` bytes (n).

    Where p is no power of two, it is that of Bruck's algorithm, as Open MPI runs it.
    """
    p = instances.nprocs
    whole = power_of_two_below(p) == p
    powers_only = np.where(whole, p, 1.0)
    doubling = exchange_rounds(
        instances, "rounds of recursive doubling", powers_only, lambda d: d * block
    )
    rest = _bruck_rounds(instances, np.where(whole, 1.0, p), block, 2.0)
    return merged([*doubling, *rest])


def _bruck_rounds(
    instances: Instances, counts: Numbers, block: Numbers, radix: float
) -> list[CostTerm]:
    def nbytes(distance: float) -> Numbers:
        held = np.minimum(distance * radix, counts) - distance
        return np.asarray(np.maximum(held, 0.0) * block)

    return shift_rounds(instances, "Bruck's rounds", counts, nbytes, radix)


def ring(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a ring: every block passes through all processes."""
    return ring_of_blocks(instances, instances.msize_bytes)


def recursive_doubling(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of recursive doubling."""
    return doubling_of_blocks(instances, instances.msize_bytes)


def bruck(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of Bruck's algorithm with radix ``fanout`` (2 if not given)."""
    radix = float(max(parameters.get("fanout", 2), 2))
    p, m = instances.nprocs, instances.msize_bytes
    rotated = np.where(p > 1, p * m, 0.0)
    return [
        *_bruck_rounds(instances, p, m, radix),
        term(instances, "rotation in memory", Coefficient.COPY, rotated),
    ]


def sparbit(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of sparbit: the further the partner, the fewer blocks."""
    p = instances.nprocs

    def nbytes(distance: float) -> Numbers:
        held = np.ceil(p / distance) - np.ceil(p / (2 * distance))
        return np.asarray(held * instances.msize_bytes)

    return shift_rounds(instances, "rounds from far to near", p, nbytes)


def neighbour_exchange(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of p / 2 exchanges with the two neighbours in turn, a ring's for odd p.

    The first is of one block, the others of two. Every other one is between ranks 2 i and 2 i + 1,
    which are on one node if a node has an even number of processes.
    """
    p, m = instances.nprocs, instances.msize_bytes
    rounds = np.where(p % 2 == 0, p / 2, 0.0)
    paired = np.ceil(rounds / 2)
    name = "exchanges with neighbours"
    on_node = ~instances.several_nodes | (instances.ppn % 2 == 0)
    first = (rounds > 0).astype(np.float64)
    odd = rounds - paired
    ring_rounds = np.where(p % 2 == 1, p - 1, 0.0)
    return merged(
        [
            *round_terms(instances, name, on_node, paired, (2 * paired - first) * m, 1.0),
            *round_terms(instances, name, ~instances.several_nodes, odd, 2 * odd * m, 1.0),
            *neighbour_rounds(instances, "rounds of the ring", ring_rounds, ring_rounds * m),
        ]
    )


def direct_spread(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of messages from everyone to everyone, in turn."""
    traffic = spread_traffic(instances, instances.msize_bytes)
    return traffic_terms(instances, "to all", traffic)


def direct_overlapping(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the same with non-blocking messages: a gap for each, and one latency."""
    traffic = spread_traffic(instances, instances.msize_bytes)
    return traffic_terms(instances, "to all", traffic, overlapping=True)
