"""Allreduces of vectors of m bytes over p processes.

* recursive doubling: ``log2(p) (alpha + m beta + m gamma)`` (Thakur et al., IJHPCA 19(1), 2005,
  sec. 4.5; Tran et al., sec. 2.2.2, "binomial tree"); where p is no power of two, neighbours fold
  first and get the result last;
* Rabenseifner: a reduce-scatter by recursive halving and an allgather by recursive doubling,
  ``2 log2(p) alpha + 2 (p - 1) / p m beta + (p - 1) / p m gamma`` (Thakur et al., sec. 4.5);
* ring: a reduce-scatter and an allgather along a ring, ``2 (p - 1) alpha + 2 (p - 1) / p m beta +
  (p - 1) / p m gamma`` (Tran et al., sec. 2.2.2; Patarasuk and Yuan, JPDC 69(2), 2009);
* segmented ring: the same, with each block reduced in phases of at most a segment (Open MPI,
  ``coll_base_allreduce.c``, ``allreduce_intra_ring_segmented``);
* nonoverlapping: a reduction and a broadcast; linear: the same with flat trees;
* allgather and reduce: all vectors everywhere, ``p - 1`` of which each process adds up.
"""

from __future__ import annotations

import numpy as np

from colltune.models.cost_model import (
    Coefficient,
    CostFunction,
    CostTerm,
    Instances,
    Parameters,
    merged,
    term,
)
from colltune.models.costs import allgather, trees
from colltune.models.costs.partners import exchange_rounds, power_of_two_below, segments
from colltune.models.costs.reduce_scatter import (
    folding,
    halving_rounds,
    ring_of,
    with_arithmetic,
)

_DEFAULT_SEGSIZE = 1 << 20


def recursive_doubling(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of recursive doubling."""
    m = instances.msize_bytes
    counts = power_of_two_below(instances.nprocs)
    name = "rounds of recursive doubling"
    rounds = [*exchange_rounds(instances, name, counts, lambda d: m), *folding(instances, m)]
    return merged([*with_arithmetic(instances, rounds), *folding(instances, m)])


def rabenseifner(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of Rabenseifner's algorithm."""
    m = instances.msize_bytes
    counts = power_of_two_below(instances.nprocs)
    name = "rounds of recursive doubling"
    folded = with_arithmetic(instances, folding(instances, m))
    gathered = exchange_rounds(instances, name, counts, lambda d: m * d / counts)
    return merged([*folded, *halving_rounds(instances, m), *gathered, *folding(instances, m)])


def ring(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a ring."""
    block = instances.msize_bytes / instances.nprocs
    reduced = ring_of(instances, instances.msize_bytes)
    return merged([*reduced, *allgather.ring_of_blocks(instances, block)])


def segmented_ring(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a ring whose blocks are reduced in segments (of 1 MiB if not given)."""
    block = instances.msize_bytes / instances.nprocs
    phases = segments(block, parameters.get("segsize") or _DEFAULT_SEGSIZE)
    reduced = ring_of(instances, instances.msize_bytes, phases)
    return merged([*reduced, *allgather.ring_of_blocks(instances, block)])


def reduce_broadcast(reduction: CostFunction, broadcast: CostFunction) -> CostFunction:
    """Return the cost of a reduction and a broadcast that follow each other."""

    def cost(instances: Instances, parameters: Parameters) -> list[CostTerm]:
        reduced = trees.reduction(reduction)(instances, parameters)
        return merged([*reduced, *broadcast(instances, parameters)])

    return cost


def allgather_reduce(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of an allgather of all vectors, added up by everyone."""
    reduced = np.maximum(instances.nprocs - 1, 0) * instances.msize_bytes
    return [
        *allgather.doubling_of_blocks(instances, instances.msize_bytes),
        term(instances, "arithmetic", Coefficient.REDUCTION, reduced),
    ]
