"""Collectives that move blocks of m bytes unchanged among p processes.

Allgathers, after which everyone has all p blocks:

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

Alltoalls:

* pairwise: ``(p - 1) (alpha + m beta)``, split ``(P - 1)`` within and ``(N - 1) P`` between nodes
  (Tran et al., sec. 2.2.6; Thakur et al., sec. 4.2);
* linear: the same messages, all under way at once: a gap for each and one latency;
* Bruck: ``ceil(log2 p) (alpha + p / 2 m beta)`` and two rotations in memory (Tran et al., sec.
  2.2.6; Thakur et al., sec. 4.2); in the round of distance d the blocks are those whose number has
  that digit, which for other p than powers of two is not quite half of them.

Gathers and scatters, with p blocks at the root:

* binomial: ``ceil(log2 p) alpha + (p - 1) m beta``, half of what is left in each round (Tran et
  al., sec. 2.2.3; Thakur et al., sec. 4.3);
* linear: ``(p - 1) (alpha + m beta)``; Tran et al. (sec. 2.2.3) take the longer one of the messages
  within and between nodes, which overlap; here both are counted, since a sum stays linear and is
  at most twice as long;
* linear with synchronisation: each process waits for a word from the root and then sends a first
  segment and the rest (Open MPI, ``coll_base_gather.c``, ``gather_intra_linear_sync``).

Broadcasts of m bytes as a scatter along a binomial tree and an allgather of m / p bytes (van de
Geijn; Hasanov et al., Simulation Modelling Practice and Theory 2015):

* scatter-ring-allgather (2.1.7): ``(log2(p) + p - 1) alpha + 2 (p - 1) / p m beta``
* scatter-recursive-doubling-allgather (2.1.8): ``2 log2(p) alpha + 2 (p - 1) / p m beta``
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from colltune.models.costs import trees
from colltune.models.costs.network import (
    COEFFICIENTS,
    Coefficient,
    Instances,
    Numbers,
    Parameters,
    amounts,
    messages,
)
from colltune.models.costs.rounds import (
    aligned_on_node,
    exchange_rounds,
    from_root,
    in_turn,
    neighbour_rounds,
    power_of_two_below,
    powers,
    shift_rounds,
    to_everyone,
)


def allgather_ring(instances: Instances, parameters: Parameters) -> Numbers:
    """Pass every block through all processes."""
    rounds = instances.nprocs - 1
    return neighbour_rounds(instances, rounds, rounds * instances.msize_bytes)


def allgather_doubling(instances: Instances, parameters: Parameters) -> Numbers:
    """Double recursively; where p is no power of two run Bruck's rounds, as Open MPI."""
    p, block = instances.nprocs, instances.msize_bytes
    whole = power_of_two_below(p) == p
    doubling = exchange_rounds(instances, np.where(whole, p, 1.0), lambda d: d * block)
    return doubling + _bruck_rounds(instances, np.where(whole, 1.0, p), 2.0)


def allgather_bruck(instances: Instances, parameters: Parameters) -> Numbers:
    """Run Bruck's algorithm with radix ``fanout`` (2 if not given)."""
    p = instances.nprocs
    rotated = np.where(p > 1, p * instances.msize_bytes, 0.0)
    rounds = _bruck_rounds(instances, p, _radix(parameters))
    return rounds + amounts(instances, {Coefficient.COPY: rotated})


def _radix(parameters: Parameters) -> float:
    return float(max(parameters.get("fanout", 2), 2))


def _bruck_rounds(instances: Instances, counts: Numbers, radix: float) -> Numbers:
    def nbytes(distance: float) -> Numbers:
        held = np.minimum(distance * radix, counts) - distance
        return np.asarray(np.maximum(held, 0.0) * instances.msize_bytes)

    return shift_rounds(instances, counts, nbytes, radix)


def allgather_sparbit(instances: Instances, parameters: Parameters) -> Numbers:
    """Send the fewer blocks, the further the partner."""
    p = instances.nprocs

    def nbytes(distance: float) -> Numbers:
        held = np.ceil(p / distance) - np.ceil(p / (2 * distance))
        return np.asarray(held * instances.msize_bytes)

    return shift_rounds(instances, p, nbytes)


def allgather_neighbours(instances: Instances, parameters: Parameters) -> Numbers:
    """Exchange with the two neighbours in turn p / 2 times, run a ring for odd p.

    The first exchange is of one block, the others of two. Every other one is between ranks 2 i and
    2 i + 1, which are on one node if a node has an even number of processes.
    """
    p, m = instances.nprocs, instances.msize_bytes
    rounds = np.where(p % 2 == 0, p / 2, 0.0)
    paired = np.ceil(rounds / 2)
    alone = ~instances.several_nodes
    first = (rounds > 0).astype(np.float64)
    odd = rounds - paired
    ring = np.where(p % 2 == 1, p - 1, 0.0)
    paired_bytes = (2 * paired - first) * m
    return (
        in_turn(instances, alone | (instances.ppn % 2 == 0), paired, paired_bytes, 1.0)
        + in_turn(instances, alone, odd, 2 * odd * m, 1.0)
        + neighbour_rounds(instances, ring, ring * m)
    )


def spread(instances: Instances, parameters: Parameters) -> Numbers:
    """Send from everyone to everyone in turn: direct allgather, pairwise alltoall."""
    return messages(instances, to_everyone(instances, instances.msize_bytes))


def spread_overlapping(instances: Instances, parameters: Parameters) -> Numbers:
    """Do the same with non-blocking messages: a gap for each, and one latency."""
    traffic = to_everyone(instances, instances.msize_bytes)
    return messages(instances, traffic, overlapping=True)


def gather_broadcast(instances: Instances, parameters: Parameters) -> Numbers:
    """Gather all blocks at the root and broadcast them."""
    whole = replace(instances, msize_bytes=instances.nprocs * instances.msize_bytes)
    return trees.flat(instances, {}) + trees.flat_overlapping(whole, {})


def alltoall_linear(instances: Instances, parameters: Parameters) -> Numbers:
    """Send all messages at once; ``requests`` of them at a time if that is given."""
    sent = spread_overlapping(instances, parameters)
    window = parameters.get("requests", 0)
    if window < 1:
        return sent
    waits = np.maximum(np.ceil((instances.nprocs - 1) / window) - 1, 0)
    between = instances.several_nodes
    latencies = {
        Coefficient.INTER_LATENCY: np.where(between, waits, 0.0),
        Coefficient.INTRA_LATENCY: np.where(between, 0.0, waits),
    }
    return sent + amounts(instances, latencies)


def alltoall_bruck(instances: Instances, parameters: Parameters) -> Numbers:
    """Run Bruck's algorithm with radix ``fanout`` (2 if not given)."""
    radix = _radix(parameters)
    p, m = instances.nprocs, instances.msize_bytes

    def nbytes(distance: float) -> Numbers:
        period = radix * distance
        kept = np.floor(p / period) * distance + np.minimum(np.remainder(p, period), distance)
        return np.asarray((p - kept) * m)

    rotated = np.where(p > 1, 2 * p * m, 0.0)
    rounds = shift_rounds(instances, p, nbytes, radix)
    return rounds + amounts(instances, {Coefficient.COPY: rotated})


def gather_binomial(instances: Instances, parameters: Parameters) -> Numbers:
    p = instances.nprocs
    result = np.zeros((len(instances), len(COEFFICIENTS)))
    for distance in powers(p):
        active = distance < p
        held = np.where(active, np.minimum(distance, p - distance), 0.0)
        on_node = aligned_on_node(instances, distance)
        nbytes = held * instances.msize_bytes
        result += in_turn(instances, on_node, active.astype(np.float64), nbytes, 1.0)
    return result


def gather_linear_synchronised(instances: Instances, parameters: Parameters) -> Numbers:
    """Send a word to each process, and its block in two parts."""
    return messages(instances, from_root(instances, 3.0))


def scatter_ring_allgather(instances: Instances, parameters: Parameters) -> Numbers:
    """Scatter, then allgather along a ring (2.1.7)."""
    block = block_of_vector(instances)
    return gather_binomial(block, {}) + allgather_ring(block, {})


def scatter_doubling_allgather(instances: Instances, parameters: Parameters) -> Numbers:
    """Scatter, then allgather by recursive doubling (2.1.8)."""
    block = block_of_vector(instances)
    return gather_binomial(block, {}) + allgather_doubling(block, {})


def block_of_vector(instances: Instances) -> Instances:
    """Return the same for each process's block of a vector, m / p bytes."""
    return replace(instances, msize_bytes=instances.msize_bytes / instances.nprocs)
