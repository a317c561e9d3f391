"""Prefix reductions (scan, exscan) and barriers.

* scan, linear: a chain of all processes, ``(p - 1) (alpha + m beta + m gamma)``;
* scan, recursive doubling: ``ceil(log2 p) (alpha + m beta + 2 m gamma)``;
* barriers are exchanges of no bytes: dissemination (``ceil(log2 p)`` rounds; Hensgen, Finkel and
  Manber, Int. J. of Parallel Programming 17(1), 1988), recursive doubling, trees up and down, two
  turns of a ring.
"""

from __future__ import annotations

import numpy as np

from colltune.models.cost_model import (
    Coefficient,
    CostTerm,
    Instances,
    Parameters,
    bytes_received,
    term,
    traffic_terms,
)
from colltune.models.costs import trees
from colltune.models.costs.partners import (
    exchange_rounds,
    neighbour_rounds,
    power_of_two_below,
    shift_rounds,
    spread_traffic,
)
from colltune.models.costs.reduce_scatter import folding


def scan_linear(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a chain that adds up as it goes."""
    return list(trees.reduction(trees.pipeline)(instances, {}))


def scan_doubling(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of recursive doubling with two additions a round."""
    m = instances.msize_bytes
    name = "rounds of recursive doubling"
    terms = exchange_rounds(instances, name, instances.nprocs, lambda d: m)
    added = 2 * bytes_received(instances, terms)
    return [*terms, term(instances, "arithmetic", Coefficient.REDUCTION, added)]


def barrier_linear(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a word from and to everyone at the root."""
    empty = np.zeros(len(instances))
    traffic = spread_traffic(instances, empty)
    doubled = traffic._replace(
        intra_messages=2 * np.asarray(traffic.intra_messages),
        inter_messages=2 * np.asarray(traffic.inter_messages),
    )
    return traffic_terms(instances, "to and from the root", doubled)


def barrier_double_ring(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of two turns of a word around all processes."""
    rounds = np.where(instances.nprocs > 1, 2 * instances.nprocs, 0.0)
    remote = np.where(instances.several_nodes, 2 * instances.nodes, 0.0)
    empty = np.zeros(len(instances))
    name = "turns of the ring"
    within = neighbour_rounds(
        Instances(np.ones(len(instances)), instances.nprocs, empty), name, rounds - remote, empty
    )
    return [*within, *neighbour_rounds(instances, name, remote, empty)]


def barrier_doubling(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of recursive doubling without bytes."""
    empty = np.zeros(len(instances))
    counts = power_of_two_below(instances.nprocs)
    rounds = exchange_rounds(instances, "rounds of recursive doubling", counts, lambda d: empty)
    fold = folding(instances, empty)
    return [*rounds, *fold, *fold]


def barrier_dissemination(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of dissemination with radix ``fanout`` (2 if not given)."""
    radix = float(max(parameters.get("fanout", 2), 2))
    empty = np.zeros(len(instances))
    name = "rounds of dissemination"
    return shift_rounds(instances, name, instances.nprocs, lambda d: empty, radix)


def barrier_tree(instances: Instances, parameters: Parameters) -> list[CostTerm]:
    """Return the cost of a binomial tree up and down."""
    silent = Instances(instances.nodes, instances.ppn, np.zeros(len(instances)), instances.rails)
    tree = trees.binomial_doubling(silent, {})
    return [*tree, *tree]
