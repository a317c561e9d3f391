"""What the algorithms of libcolltune cost.

* Broadcast in G groups of consecutive ranks: a flat broadcast among the leaders of groups, then one
  in all groups at once (Hasanov et al., Simulation Modelling Practice and Theory 2015, alg. 1).
  With equal links it is eq. 1 for flat trees and chains, eq. 3 for pipelines, eq. 5 for scatter and
  ring allgather; `colltune.models.costs.hierarchical` has these as they are printed.
* Allgather in two levels: all processes of a node lay their blocks into shared memory, leaders
  exchange those of nodes by a ring (eq. 4) or by recursive doubling (eq. 3), and all copy what came
  (Tran et al., Concurrency Computat. Pract. Exper. 2023, sec. 3.2 and 4.2).
* Allreduce: the reduction in shared memory, a reduce-scatter between leaders along a ring, and the
  same allgather (Tran et al., sec. 2.2.2 and 5.4).
* Alltoallv: all messages at once up to a threshold, above it exchanges with everyone in turn (Fagg
  et al., EuroPVM/MPI 2006, sec. 6.2).

The exchange overlaps with the copies; here both are counted, since a sum stays linear and is at
most twice as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from colltune.domain import Collective, Configuration
from colltune.models.costs import blocks, trees
from colltune.models.costs.network import (
    Coefficient,
    CostFunction,
    Instances,
    Numbers,
    Parameters,
    Traffic,
    amounts,
    messages,
)
from colltune.models.costs.rounds import ceil_log


def _unsegmented(cost: CostFunction) -> CostFunction:
    return lambda instances, _parameters: cost(instances, {})


_BROADCASTS: Mapping[str, CostFunction] = {
    "flat": trees.flat,
    "chain": _unsegmented(trees.pipeline),
    "pipeline": trees.pipeline,
    "binary": _unsegmented(trees.binary),
    "binomial": _unsegmented(trees.binomial),
    "scatter_ring_allgather": blocks.scatter_ring_allgather,
}


def cost_of(configuration: Configuration) -> tuple[str, CostFunction] | None:
    """Return the name and cost of a configuration of libcolltune; None if its rounds are unknown.

    Those of the MPI library's own broadcast in groups are, and those of an adaptive algorithm.
    """
    words = dict(configuration.parameters)
    key = configuration.collective, configuration.algorithm
    if key == (Collective.BCAST, "hierarchical"):
        inner = str(words.get("inner", "binomial"))
        outer = str(words.get("outer", "same"))
        outer = inner if outer == "same" else outer
        if inner not in _BROADCASTS or outer not in _BROADCASTS:
            return None
        name = inner if inner == outer else f"{outer}, then {inner},"
        return f"{name} in groups", _in_groups(_BROADCASTS[outer], _BROADCASTS[inner])
    doubling = words.get("exchange") == "recursive_doubling"
    if key == (Collective.ALLGATHER, "hierarchical"):
        return "allgather in two levels", _allgather(doubling=doubling)
    if key == (Collective.ALLREDUCE, "ring"):
        return "ring allreduce in two levels", _allreduce(doubling=doubling)
    if key == (Collective.ALLTOALLV, "eager_pairwise"):
        return "at once up to a threshold", _eager_pairwise
    return None


def _in_groups(outer: CostFunction, inner: CostFunction) -> CostFunction:
    """Return the cost of `outer` among the leaders and `inner` in the groups."""

    def cost(instances: Instances, parameters: Parameters) -> Numbers:
        p = instances.nprocs
        asked = float(parameters.get("groups", 0))
        groups = np.clip(asked if asked else np.floor(np.sqrt(p) + 0.5), 1.0, p)
        between = outer(_leaders(instances, groups), parameters)
        return between + inner(_group(instances, groups), parameters)

    return cost


def _leaders(instances: Instances, groups: Numbers) -> Instances:
    """Return how the leaders of groups of consecutive ranks lie."""
    nodes = np.minimum(groups, instances.nodes)
    return replace(instances, nodes=nodes, ppn=groups / nodes)


def _group(instances: Instances, groups: Numbers) -> Instances:
    """Return how the processes of the largest group lie."""
    size = np.ceil(instances.nprocs / groups)
    nodes = np.maximum(np.ceil(size / instances.ppn), 1.0)
    return replace(instances, nodes=nodes, ppn=np.where(nodes > 1, size / nodes, size))


def _allgather(*, doubling: bool) -> CostFunction:
    def cost(instances: Instances, parameters: Parameters) -> Numbers:
        m = instances.msize_bytes
        exchanged = _exchange(instances, parameters, instances.ppn * m, doubling=doubling)
        return exchanged + _through_shared_memory(instances, m, instances.nprocs * m)

    return cost


def _allreduce(*, doubling: bool) -> CostFunction:
    def cost(instances: Instances, parameters: Parameters) -> Numbers:
        m, nodes, ppn = instances.msize_bytes, instances.nodes, instances.ppn
        share = m / nodes
        reduced = m * (ppn - 1) / ppn + share * (nodes - 1) / _leading(instances, parameters)
        return (
            amounts(instances, {Coefficient.REDUCTION: reduced})
            + _exchange(instances, parameters, share, doubling=False)
            + _exchange(instances, parameters, share, doubling=doubling)
            + _through_shared_memory(instances, m, m)
        )

    return cost


def _leading(instances: Instances, parameters: Parameters) -> Numbers:
    asked = float(max(parameters.get("leaders", 1), 1))
    return np.asarray(np.clip(asked, 1.0, instances.ppn))


def _exchange(
    instances: Instances, parameters: Parameters, block: Numbers, *, doubling: bool
) -> Numbers:
    """Return what leaders pay that exchange blocks of nodes, each leader its share of them."""
    leaders, nodes = _leading(instances, parameters), instances.nodes
    steps = ceil_log(nodes) if doubling else nodes - 1
    nbytes = (nodes - 1) * block / leaders
    return messages(instances, Traffic(inter_messages=steps, inter_bytes=nbytes, senders=leaders))


def _through_shared_memory(
    instances: Instances, copied_in: Numbers, copied_out: Numbers
) -> Numbers:
    """Return what each process pays to copy its data in, to see that all are there, and out."""
    waits = np.where(instances.ppn > 1, instances.nodes, 0.0)
    copies = copied_in + copied_out
    return amounts(instances, {Coefficient.INTRA_LATENCY: waits, Coefficient.COPY: copies})


def _eager_pairwise(instances: Instances, parameters: Parameters) -> Numbers:
    eager = (instances.msize_bytes <= parameters.get("threshold", 32768))[:, None]
    at_once, in_turn = blocks.spread_overlapping(instances, {}), blocks.spread(instances, {})
    return np.where(eager, at_once, in_turn)
