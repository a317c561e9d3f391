"""How long the classic algorithms would take on a plain network, as features; numpy only.

Latency is the unit of time, and a message of `HALF_BANDWIDTH_BYTES` takes two: half of it is spent
on latency. Nothing is fitted. The formulas are those of Hasanov et al. (Simulation Modelling
Practice and Theory 2015, sec. 2.1) and Thakur et al. (IJHPCA 19(1), 2005, sec. 4) for p processes
and m bytes; a learner sees the logarithms of their ratios, and thereby where they cross.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
HALF_BANDWIDTH_BYTES = 16384.0
_SEGMENT_BYTES = 65536.0

COLUMNS = (
    "log2_tree_time",
    "log2_flat_to_tree",
    "log2_pipeline_to_tree",
    "log2_ring_to_tree",
    "log2_halving_to_tree",
    "log2_pairwise_to_bruck",
    "log2_two_levels_to_tree",
    "beyond_power_of_two",
    "rounds_between_nodes",
)


def step_counts(nodes: Numbers, ppn: Numbers, msize_bytes: Numbers) -> Numbers:
    """Return the features of n instances, shape (n, 9), in the order of `COLUMNS`.

    ``beyond_power_of_two`` is how far the processes are above the next lower power of two, from 0
    to 1; ``rounds_between_nodes`` how many rounds of recursive doubling leave the node when ranks
    are placed by blocks.
    """
    p = nodes * ppn
    rounds = np.ceil(np.log2(p))
    m = msize_bytes / HALF_BANDWIDTH_BYTES
    segments = np.maximum(np.ceil(msize_bytes / _SEGMENT_BYTES), 1.0)
    tree = 1.0 + rounds * (1.0 + m)
    flat = 1.0 + (p - 1) * (1.0 + m)
    pipeline = 1.0 + (p - 1 + segments - 1) * (1.0 + m / segments)
    ring = 1.0 + 2 * (p - 1) * (1.0 + m / p)
    halving = 1.0 + 2 * rounds + 2 * (p - 1) / p * m
    bruck = 1.0 + rounds * (1.0 + m * p / 2)
    pairwise = 1.0 + (p - 1) * (1.0 + m)
    levels = 1.0 + (np.ceil(np.log2(nodes)) + np.ceil(np.log2(ppn))) * (1.0 + m)
    power = np.exp2(np.floor(np.log2(p)))
    ratios = [flat, pipeline, ring, halving]
    columns: Numbers = np.column_stack(
        [
            np.log2(tree),
            *(np.log2(cost / tree) for cost in ratios),
            np.log2(pairwise / bruck),
            np.log2(levels / tree),
            p / power - 1.0,
            rounds - _aligned_rounds(nodes, ppn),
        ]
    )
    return columns


def _aligned_rounds(nodes: Numbers, ppn: Numbers) -> Numbers:
    """Return how many rounds of recursive doubling stay on a node for all its processes.

    They are as many as `ppn` has factors of two; all of them on a single node.
    """
    whole = ppn.astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    alone = np.ceil(np.log2(nodes * ppn))
    return np.where(nodes > 1, np.log2(lowest), alone)
