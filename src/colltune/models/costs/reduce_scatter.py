"""Reduce-scatters of vectors of m bytes over p processes: everyone ends with m / p reduced bytes.

* recursive halving: ``log2(p) alpha + (p - 1) / p m (beta + gamma)``; where p is no power of two,
  neighbours first fold their vectors (m bytes) and blocks are sent back in the end (m / p bytes)
  (Thakur et al., IJHPCA 19(1), 2005, sec. 4.4);
* ring: ``(p - 1) (alpha + m / p (beta + gamma))`` (Tran et al., sec. 2.2.2, with its slowest link);
* pairwise: the same, with everyone in turn, of which P - 1 are on the same node (Thakur et al.,
  sec. 4.4; the split as in Tran et al., sec. 2.2.6);
* recursive doubling: ``log2(p) alpha + (log2(p) - (p - 1) / p) m (beta + gamma)``: everything but
  what the partner needs no more (Thakur et al., sec. 4.4);
* butterfly: recursive halving for any p (Träff, "An improved algorithm for (non-commutative)
  reduce-scatter with an application", EuroPVM/MPI 2005);
* non-overlapping: a reduction to the root, then a scatter.
"""

from __future__ import annotations

import numpy as np

from colltune.models.cost_model import (
    Coefficient,
    CostTerm,
    Instances,
    Numbers,
    Parameters,
    bytes_received,
    merged,
    term,
    traffic_terms,
)
from colltune.models.costs import gather, trees
from colltune.models.costs.partners import (
    exchange_rounds,
    neighbour_rounds,
    power_of_two_below,
    shift_rounds,
    spread_traffic,
)


def with_arithmetic(instances: Instances, terms: list[CostTerm]) -> list[CostTerm]:
    """Return `terms` and the arithmetic on every byte that they bring."""
    received = bytes_received(instances, terms)
    return [*terms, term(instances, "arithmetic", Coefficient.REDUCTION, received)]


def folding(instances: Instances, nbytes: Numbers) -> list[CostTerm]:
    """Return a message of `nbytes` between neighbours where p is no power of two."""
    folds = power_of_two_below(instances.nprocs) != instances.nprocs
    name = "neighbours beyond a power of two"
    return neighbour_rounds(instances, name, folds * 1.0, folds * nbytes)


def halving_rounds(instances: Instances, nbytes: Numbers) -> list[CostTerm]:
    """Return recursive halving of `nbytes` over the largest power of two of processes."""
    counts = power_of_two_below(instances.nprocs)
    name = "rounds of recursive halving"
    terms = exchange_rounds(instances, name, counts, lambda d: nbytes * d / counts)
    return with_arithmetic(instances, terms)


def recursive_halving_of(instances: Instances, nbytes: Numbers) -> list[CostTerm]:
    """Return the cost of recursive halving of vectors of `nbytes` (n)."""
    folded = with_arithmetic(instances, folding(instances, nbytes))
    back = folding(instances, nbytes / instances.nprocs)
    return merged([*folded, *halving_rounds(instances, nbytes), *back])


def ring_of(instances: Instances, nbytes: Numbers, phases: Numbers | float = 1.0) -> list[CostTerm]:
    """Return the cost of a ring over vectors of `nbytes` (n), each block cut into `phases`."""
    rounds = instances.nprocs - 1
    moved = rounds * nbytes / instances.nprocs
    terms = neighbour_rounds(instances, "rounds of the ring", rounds * phases, moved)
    return with_arithmetic(instances, terms)


def _pairwise_of(instances: Instances, nbytes: Numbers) -> list[CostTerm]:
    traffic = spread_traffic(instances, nbytes / instances.nprocs)
    return with_arithmetic(instances, traffic_terms(instances, "with everyone in turn", traffic))


def _doubling_of(instances: Instances, nbytes: Numbers) -> list[CostTerm]:
    p = instances.nprocs
    name = "rounds of recursive doubling"
    terms = exchange_rounds(instances, name, p, lambda d: nbytes * np.maximum(p - d, 0) / p)
    return with_arithmetic(instances, terms)


def _butterfly_of(instances: Instances, nbytes: Numbers) -> list[CostTerm]:
    p = instances.nprocs

    def share(distance: float) -> Numbers:
        return np.asarray(nbytes * np.minimum(distance, p - distance) / p)

    return with_arithmetic(instances, shift_rounds(instances, "rounds of the butterfly", p, share))


def _nonoverlapping_of(instances: Instances, nbytes: Numbers) -> list[CostTerm]:
    inside = Instances(instances.nodes, instances.ppn, nbytes, instances.rails)
    blocks = Instances(instances.nodes, instances.ppn, nbytes / instances.nprocs, instances.rails)
    return [
        *trees.reduction(trees.binomial_doubling)(inside, {}),
        *gather.linear(blocks, {}),
    ]


def _whole(instances: Instances, parameters: Parameters) -> Numbers:
    """Return the bytes of a whole vector: ``per_block`` says that the message is a block of it."""
    scale = instances.nprocs if parameters.get("per_block") else 1.0
    return np.asarray(instances.msize_bytes * scale)


def recursive_halving(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of recursive halving."""
    return recursive_halving_of(instances, _whole(instances, parameters))


def ring(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a ring."""
    return ring_of(instances, _whole(instances, parameters))


def pairwise(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of exchanges with everyone in turn."""
    return _pairwise_of(instances, _whole(instances, parameters))


def recursive_doubling(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of recursive doubling."""
    return _doubling_of(instances, _whole(instances, parameters))


def butterfly(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a butterfly."""
    return _butterfly_of(instances, _whole(instances, parameters))


def nonoverlapping(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a binomial reduction and a scatter by the root."""
    return _nonoverlapping_of(instances, _whole(instances, parameters))
