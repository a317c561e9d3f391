"""Algorithms in two levels: between the leaders of nodes, and within each node.

The cost is the sum of both levels', the leaders being alone on their nodes (Tran et al., sec. 1.1,
"two-level algorithms": data to the leaders, an exchange between them, and a broadcast within
nodes). Nothing overlaps here; pipelines between the levels are cheaper than this by up to half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from colltune.models.cost_model import CostFunction, CostTerm, Instances, Parameters


def leaders(instances: Instances) -> Instances:
    """Return the same with one process on each node."""
    return replace(instances, ppn=np.ones(len(instances)))


def node(instances: Instances) -> Instances:
    """Return the same within a single node."""
    return replace(instances, nodes=np.ones(len(instances)))


def two_level(
    between: Sequence[CostFunction],
    within: Sequence[CostFunction],
    defaults: Mapping[str, int] | None = None,
) -> CostFunction:
    """Return the cost of `between` for the leaders of nodes and of `within` for each node.

    `defaults` are the parameters that hold where a configuration gives none.
    """

    def cost(instances: Instances, parameters: Parameters) -> list[CostTerm]:
        given = {**(defaults or {}), **parameters}
        terms: list[CostTerm] = []
        for part in between:
            terms += part(leaders(instances), given)
        for part in within:
            terms += part(node(instances), given)
        return terms

    return cost
