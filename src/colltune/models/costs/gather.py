"""Gathers and scatters of blocks of m bytes, p of them at the root.

* binomial: ``ceil(log2 p) alpha + (p - 1) m beta``, half of what is left in each round (Tran et
  al., sec. 2.2.3; Thakur et al., IJHPCA 19(1), 2005, sec. 4.3);
* direct: ``(p - 1) (alpha + m beta)``; Tran et al. (sec. 2.2.3) take the longer one of the messages
  within and between nodes, which overlap; here both are counted, since a sum stays linear and is
  at most twice as long;
* linear with synchronisation: each process waits for a word from the root and then sends a first
  segment and the rest (Open MPI, ``coll_base_gather.c``, ``gather_intra_linear_sync``).
"""

from __future__ import annotations

import numpy as np

from colltune.models.cost_model import (
    CostTerm,
    Instances,
    Numbers,
    Parameters,
    Traffic,
    merged,
    traffic_terms,
)
from colltune.models.costs.partners import aligned_on_node, powers, round_terms


def binomial_of_blocks(instances: Instances, block: Numbers) -> list[CostTerm]:
    """Return the cost of a binomial tree that carries blocks of `block` bytes (n)."""
    p = instances.nprocs
    terms: list[CostTerm] = []
    for distance in powers(p):
        active = distance < p
        on_node = aligned_on_node(instances, distance)
        nbytes = np.where(active, np.minimum(distance, p - distance), 0.0) * block
        rounds = active.astype(np.float64)
        terms += round_terms(instances, "rounds of the tree", on_node, rounds, nbytes, 1.0)
    return merged(terms)


def binomial(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a binomial tree."""
    return binomial_of_blocks(instances, instances.msize_bytes)


def linear(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a root that sends or receives p - 1 messages in turn."""
    return traffic_terms(instances, "to and from the root", _direct(instances, 1.0))


def linear_overlapping(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the same with non-blocking messages: a gap for each, and one latency."""
    traffic = _direct(instances, 1.0)
    return traffic_terms(instances, "to and from the root", traffic, overlapping=True)


def linear_synchronised(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a word to each process, and its block in two parts."""
    return traffic_terms(instances, "to and from the root", _direct(instances, 3.0))


def _direct(instances: Instances, messages: float) -> Traffic:
    local, remote = instances.ppn - 1, instances.nprocs - instances.ppn
    m = instances.msize_bytes
    return Traffic(messages * local, local * m, messages * remote, remote * m)
