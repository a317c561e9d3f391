"""Who talks to whom under block placement: which rounds stay on a node, and who shares adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from colltune.models.cost_model import (
    CostTerm,
    Instances,
    Numbers,
    Traffic,
    merged,
    traffic_terms,
)

Flags = NDArray[np.bool_]
Count = Numbers | float
BlocksAt = Callable[[float], Numbers]


def powers(counts: Numbers, radix: float = 2.0) -> Iterator[float]:
    """Yield 1, r, r ** 2, … below the largest of `counts`."""
    distance = 1.0
    while distance < counts.max(initial=0.0):
        yield distance
        distance *= radix


def ceil_log(counts: Numbers, radix: float = 2.0) -> Numbers:
    """Return the least whole r with radix ** r >= counts, exactly; 0 for 1."""
    rounds = np.zeros(counts.shape)
    reached = np.ones(counts.shape)
    while (short := reached < counts).any():
        rounds += short
        reached = np.where(short, reached * radix, reached)
    return rounds


def power_of_two_below(counts: Numbers) -> Numbers:
    """Return the largest power of two that is not above `counts` (at least 1)."""
    rounds = ceil_log(counts)
    power = np.exp2(rounds)
    return np.where(power > counts, power / 2.0, power)


def aligned_on_node(instances: Instances, distance: float, radix: float = 2.0) -> Flags:
    """Tell where all ranks whose numbers to base `radix` differ in one digit are on one node.

    The digit is the one worth `distance`, a power of `radix`; base 2 is ``r xor distance``. So it
    is where `radix` times the distance divides the processes per node.
    """
    fits = np.remainder(instances.ppn, radix * distance) == 0
    return np.asarray(fits | ~instances.several_nodes)


def round_terms(
    instances: Instances,
    name: str,
    on_node: Flags,
    messages: Numbers,
    nbytes: Numbers,
    senders: Count,
) -> list[CostTerm]:
    """Return what a round costs: so many messages after one another, of `nbytes` in all.

    They are within nodes where `on_node`, and else between nodes, sent by `senders` processes of
    each node at a time.
    """
    between = ~on_node
    traffic = Traffic(
        messages * on_node, nbytes * on_node, messages * between, nbytes * between, senders
    )
    return traffic_terms(instances, name, traffic)


def neighbour_rounds(
    instances: Instances, name: str, rounds: Numbers, nbytes: Numbers
) -> list[CostTerm]:
    """Return what rounds along a ring of all ranks cost; one process of each node sends to another.

    As a round is over when its slowest pair is, all are between nodes if there are several (Tran et
    al., sec. 2.2.1, "the slowest links are the bottlenecks").
    """
    return round_terms(instances, name, ~instances.several_nodes, rounds, nbytes, 1.0)


def exchange_rounds(
    instances: Instances, name: str, counts: Numbers, blocks: BlocksAt
) -> list[CostTerm]:
    """Return what rounds between ranks r and ``r xor 1``, ``r xor 2``, … below `counts` cost.

    ``blocks(d)`` gives the bytes (n) exchanged at distance d.
    """
    terms: list[CostTerm] = []
    for distance in powers(counts):
        active = distance < counts
        on_node = aligned_on_node(instances, distance)
        senders = np.minimum(2.0 * distance, instances.ppn)
        nbytes = np.where(active, blocks(distance), 0.0)
        terms += round_terms(instances, name, on_node, np.where(active, 1.0, 0.0), nbytes, senders)
    return merged(terms)


def shift_rounds(
    instances: Instances, name: str, counts: Numbers, blocks: BlocksAt, radix: float = 2.0
) -> list[CostTerm]:
    """Return what rounds from rank r to ``r + d``, d = 1, radix, radix ** 2, …, cost.

    Each has ``radix - 1`` messages, of ``blocks(d)`` bytes in all. Some rank always shifts to the
    next node, min(d, ppn) on each.
    """
    terms: list[CostTerm] = []
    for distance in powers(counts, radix):
        active = distance < counts
        reached = np.minimum(radix - 1.0, np.ceil(counts / distance) - 1.0)
        messages = np.where(active, reached, 0.0)
        senders = np.minimum(distance, instances.ppn)
        nbytes = np.where(active, blocks(distance), 0.0)
        terms += round_terms(instances, name, ~instances.several_nodes, messages, nbytes, senders)
    return merged(terms)


def spread_traffic(instances: Instances, nbytes: Numbers) -> Traffic:
    """Return a message of `nbytes` from every process to every other: P - 1 within its node.

    Tran et al., sec. 2.2.1: ``(P - 1) (alpha_C + …) + (N - 1) P (alpha_H + …)``.
    """
    local, remote = instances.ppn - 1, instances.nprocs - instances.ppn
    return Traffic(local, local * nbytes, remote, remote * nbytes, instances.ppn)


def segments(msize_bytes: Numbers, segsize_bytes: int | None) -> Numbers:
    """Return X, into how many segments a message is cut: 1 without a segment size or a message."""
    if not segsize_bytes or segsize_bytes <= 0:
        return np.ones(msize_bytes.shape)
    return np.maximum(np.ceil(msize_bytes / segsize_bytes), 1.0)
