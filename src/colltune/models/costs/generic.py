"""What stands for an algorithm whose rounds are not known: a basis that most costs are made of.

It is no published formula. Its terms are latencies per call, per round of a tree and per process,
and bytes per call, per round of a tree and per process, so that any non-negative combination grows
with nodes, processes and bytes as some algorithm would: the library's own decision, which is one
algorithm here and another there, is fitted with it.
"""

from __future__ import annotations

import numpy as np

from colltune.models.cost_model import (
    Coefficient,
    CostTerm,
    Instances,
    Parameters,
    term,
)
from colltune.models.costs.partners import ceil_log


def per_vector(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the basis for collectives whose message is the whole buffer."""
    return _basis(instances, shared=1.0)


def per_block(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the basis for collectives whose message is a block of each process."""
    return _basis(instances, shared=0.0)


def _basis(instances: Instances, shared: float) -> list[CostTerm]:
    m, remote = instances.msize_bytes, instances.nodes - 1
    local = instances.ppn - 1
    rounds, inside = ceil_log(instances.nodes), ceil_log(instances.ppn)
    peers = np.maximum(instances.nprocs - 1, 0.0)
    moved = m if shared else peers * m
    amounts = [
        ("rounds of a tree, within nodes", Coefficient.INTRA_LATENCY, inside),
        ("rounds of a tree, between nodes", Coefficient.INTER_LATENCY, rounds),
        ("messages in turn, within nodes", Coefficient.INTRA_GAP, local),
        ("messages in turn, between nodes", Coefficient.INTER_GAP, remote),
        ("bytes in each round, within nodes", Coefficient.INTRA_BYTES, inside * m),
        ("bytes in each round, between nodes", Coefficient.INTER_BYTES, rounds * m),
        ("bytes of each process", Coefficient.COPY, moved),
        ("bytes that share adapters", Coefficient.INTER_CONTENDED, moved * local * (remote > 0)),
    ]
    return [term(instances, *amount) for amount in amounts]
