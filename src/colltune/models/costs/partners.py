"""Who talks to whom under block placement: which rounds stay on a node, and who shares adapters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from colltune.models.cost_model import Instances, Numbers, Traffic

Flags = NDArray[np.bool_]


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


def in_rounds(
    on_node: Flags, rounds: Numbers, bytes_per_round: Numbers, senders: Numbers | float = 1.0
) -> Traffic:
    """Return `rounds` messages of `bytes_per_round` each, all within nodes where `on_node`."""
    between = ~on_node
    return Traffic(
        rounds * on_node,
        rounds * bytes_per_round * on_node,
        rounds * between,
        rounds * bytes_per_round * between,
        senders,
    )


def segments(msize_bytes: Numbers, segsize_bytes: int | None) -> Numbers:
    """Return X, into how many segments a message is cut: 1 without a segment size or a message."""
    if not segsize_bytes or segsize_bytes <= 0:
        return np.ones(msize_bytes.shape)
    return np.maximum(np.ceil(msize_bytes / segsize_bytes), 1.0)
