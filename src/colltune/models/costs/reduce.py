"""Rabenseifner's reduction of vectors of m bytes; trees are in `colltune.models.costs.trees`.

A reduce-scatter by recursive halving and a binomial gather: ``2 log2(p) alpha + 2 (p - 1) / p m
beta + (p - 1) / p m gamma`` (Thakur et al., IJHPCA 19(1), 2005, sec. 4.5; Tran et al., sec. 2.2.5).
"""

from __future__ import annotations

from colltune.models.cost_model import CostTerm, Instances, Parameters, merged
from colltune.models.costs.gather import binomial_of_blocks
from colltune.models.costs.reduce_scatter import folding, halving_rounds, with_arithmetic


def rabenseifner(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of Rabenseifner's reduction; neighbours fold first beyond a power of two."""
    m = instances.msize_bytes
    folded = with_arithmetic(instances, folding(instances, m))
    gathered = binomial_of_blocks(instances, m / instances.nprocs)
    return merged([*folded, *halving_rounds(instances, m), *gathered])
