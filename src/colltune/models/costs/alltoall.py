"""Alltoalls of blocks of m bytes over p processes.

* pairwise: ``(p - 1) (alpha + m beta)``, split ``(P - 1)`` within and ``(N - 1) P`` between nodes
  (Tran et al., sec. 2.2.6; Thakur et al., IJHPCA 19(1), 2005, sec. 4.2);
* linear: the same messages, all under way at once: a gap for each and one latency;
* Bruck: ``ceil(log2 p) (alpha + p / 2 m beta)`` and two rotations in memory (Tran et al., sec.
  2.2.6; Thakur et al., sec. 4.2); in the round of distance d the blocks are those whose number has
  that digit, which for other p than powers of two is not quite half of them.
"""

from __future__ import annotations

import numpy as np

from colltune.models.cost_model import (
    Coefficient,
    CostTerm,
    Instances,
    Numbers,
    Parameters,
    term,
    traffic_terms,
)
from colltune.models.costs.partners import shift_rounds, spread_traffic


def pairwise(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of exchanges with everyone in turn."""
    traffic = spread_traffic(instances, instances.msize_bytes)
    return traffic_terms(instances, "with everyone in turn", traffic)


def linear(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of all messages at once; ``requests`` of them at a time if that is given."""
    traffic = spread_traffic(instances, instances.msize_bytes)
    terms = traffic_terms(instances, "with everyone at once", traffic, overlapping=True)
    window = parameters.get("requests", 0)
    if window < 1:
        return terms
    batches = np.ceil((instances.nprocs - 1) / window)
    between = np.where(instances.several_nodes, np.maximum(batches - 1, 0), 0.0)
    within = np.where(instances.several_nodes, 0.0, np.maximum(batches - 1, 0))
    return [
        *terms,
        term(instances, "waits, between nodes", Coefficient.INTER_LATENCY, between),
        term(instances, "waits, within nodes", Coefficient.INTRA_LATENCY, within),
    ]


def bruck(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of Bruck's algorithm with radix ``fanout`` (2 if not given)."""
    radix = float(max(parameters.get("fanout", 2), 2))
    p, m = instances.nprocs, instances.msize_bytes

    def nbytes(distance: float) -> Numbers:
        period = radix * distance
        kept = np.floor(p / period) * distance + np.minimum(np.remainder(p, period), distance)
        return np.asarray((p - kept) * m)

    rotated = np.where(p > 1, 2 * p * m, 0.0)
    return [
        *shift_rounds(instances, "Bruck's rounds", p, nbytes, radix),
        term(instances, "rotations in memory", Coefficient.COPY, rotated),
    ]
