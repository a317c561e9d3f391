"""Broadcasts of m bytes as a scatter and an allgather of blocks of m / p bytes (van de Geijn).

Hasanov et al., Simulation Modelling Practice and Theory 2015:

* scatter-ring-allgather (2.1.7): ``(log2(p) + p - 1) alpha + 2 (p - 1) / p m beta``
* scatter-recursive-doubling-allgather (2.1.8): ``2 log2(p) alpha + 2 (p - 1) / p m beta``

Tran et al., sec. 2.2.4, has the same as a sum of its scatter and allgather. The scatter is along a
binomial tree.
"""

from __future__ import annotations

from colltune.models.cost_model import CostTerm, Instances, Parameters
from colltune.models.costs.allgather import doubling_of_blocks, ring_of_blocks
from colltune.models.costs.gather import binomial_of_blocks


def scatter_ring_allgather(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost with a ring (2.1.7)."""
    block = instances.msize_bytes / instances.nprocs
    return [*binomial_of_blocks(instances, block), *ring_of_blocks(instances, block)]


def scatter_doubling_allgather(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost with recursive doubling (2.1.8)."""
    block = instances.msize_bytes / instances.nprocs
    return [*binomial_of_blocks(instances, block), *doubling_of_blocks(instances, block)]
