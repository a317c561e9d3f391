"""Who talks to whom under block placement: which rounds stay on a node, and who shares adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from colltune.models.costs.network import COEFFICIENTS, Instances, Numbers, Traffic, messages

Flags = NDArray[np.bool_]
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
    power = np.exp2(ceil_log(counts))
    return np.where(power > counts, power / 2.0, power)


def aligned_on_node(instances: Instances, distance: float, radix: float = 2.0) -> Flags:
    """Tell where all ranks whose numbers to base `radix` differ in one digit are on one node.

    The digit is the one worth `distance`, a power of `radix`; base 2 is ``r xor distance``. So it
    is where `radix` times the distance divides the processes per node.
    """
    fits = np.remainder(instances.ppn, radix * distance) == 0
    return np.asarray(fits | ~instances.several_nodes)


def in_turn(
    instances: Instances, on_node: Flags, count: Numbers, nbytes: Numbers, senders: Numbers | float
) -> Numbers:
    """Return the amounts of so many messages after one another, of `nbytes` in all.

    They are within nodes where `on_node`, and else between nodes, sent by `senders` processes of
    each node at a time.
    """
    between = ~on_node
    traffic = Traffic(count * on_node, nbytes * on_node, count * between, nbytes * between, senders)
    return messages(instances, traffic)


def neighbour_rounds(instances: Instances, rounds: Numbers, nbytes: Numbers) -> Numbers:
    """Return the amounts of rounds along a ring of all ranks: one process of each node sends.

    As a round is over when its slowest pair is, all are between nodes if there are several (Tran et
    al., sec. 2.2.1, "the slowest links are the bottlenecks").
    """
    return in_turn(instances, ~instances.several_nodes, rounds, nbytes, 1.0)


def exchange_rounds(instances: Instances, counts: Numbers, blocks: BlocksAt) -> Numbers:
    """Return the amounts of rounds between ranks r and ``r xor 1``, ``r xor 2``, … below `counts`.

    ``blocks(d)`` gives the bytes (n) exchanged at distance d.
    """
    result = np.zeros((len(instances), len(COEFFICIENTS)))
    for distance in powers(counts):
        active = distance < counts
        on_node = aligned_on_node(instances, distance)
        senders = np.minimum(2.0 * distance, instances.ppn)
        nbytes = np.where(active, blocks(distance), 0.0)
        result += in_turn(instances, on_node, active.astype(np.float64), nbytes, senders)
    return result


def shift_rounds(
    instances: Instances, counts: Numbers, blocks: BlocksAt, radix: float = 2.0
) -> Numbers:
    """Return the amounts of rounds from rank r to ``r + d``, d = 1, radix, radix ** 2, ….

    Each has ``radix - 1`` messages, of ``blocks(d)`` bytes in all. Some rank always shifts to the
    next node, min(d, ppn) on each.
    """
    result = np.zeros((len(instances), len(COEFFICIENTS)))
    for distance in powers(counts, radix):
        active = distance < counts
        reached = np.minimum(radix - 1.0, np.ceil(counts / distance) - 1.0)
        count = np.where(active, reached, 0.0)
        senders = np.minimum(distance, instances.ppn)
        nbytes = np.where(active, blocks(distance), 0.0)
        result += in_turn(instances, ~instances.several_nodes, count, nbytes, senders)
    return result


def to_everyone(instances: Instances, nbytes: Numbers) -> Traffic:
    """Return a message of `nbytes` from every process to every other: P - 1 within its node.

    Tran et al., sec. 2.2.1: ``(P - 1) (alpha_C + …) + (N - 1) P (alpha_H + …)``.
    """
    local, remote = instances.ppn - 1, instances.nprocs - instances.ppn
    return Traffic(local, local * nbytes, remote, remote * nbytes, instances.ppn)


def from_root(instances: Instances, count: float = 1.0) -> Traffic:
    """Return the root's messages to all others, each block in `count` messages."""
    local, remote = instances.ppn - 1, instances.nprocs - instances.ppn
    m = instances.msize_bytes
    return Traffic(count * local, local * m, count * remote, remote * m)


def segments(msize_bytes: Numbers, segsize_bytes: int | None) -> Numbers:
    """Return X, into how many segments a message is cut: 1 without a segment size or a message."""
    if not segsize_bytes or segsize_bytes <= 0:
        return np.ones(msize_bytes.shape)
    return np.maximum(np.ceil(msize_bytes / segsize_bytes), 1.0)
