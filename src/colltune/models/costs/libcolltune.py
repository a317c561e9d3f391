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

from dataclasses import replace

import numpy as np

from colltune.domain import Collective, Configuration
from colltune.models.costs import formulas
from colltune.models.costs.network import Coefficient, CostFunction, Instances, Numbers, ceil_log


def _whole(cost: CostFunction) -> CostFunction:
    """Return the cost without segments."""
    return lambda at: cost(replace(at, parameters={}))


_BROADCASTS: dict[str, CostFunction] = {
    "flat": formulas.flat,
    "chain": _whole(formulas.pipeline),
    "pipeline": formulas.pipeline,
    "binary": _whole(formulas.binary),
    "binomial": _whole(formulas.binomial),
    "scatter_ring_allgather": formulas.scatter_ring_allgather,
}


def cost_of(configuration: Configuration) -> tuple[str, CostFunction] | None:
    """Return the name and cost of a configuration of libcolltune; None if its rounds are unknown.

    Those of the MPI library's own broadcast in groups are, and those of an adaptive algorithm.
    """
    words = dict(configuration.parameters)
    doubling = words.get("exchange") == "recursive_doubling"
    match configuration.collective, configuration.algorithm:
        case Collective.BCAST, "hierarchical":
            inner, outer = str(words.get("inner", "binomial")), str(words.get("outer", "same"))
            outer = inner if outer == "same" else outer
            if inner not in _BROADCASTS or outer not in _BROADCASTS:
                return None
            name = inner if inner == outer else f"{outer}, then {inner},"
            return f"{name} in groups", _in_groups(_BROADCASTS[outer], _BROADCASTS[inner])
        case Collective.ALLGATHER, "hierarchical":
            return "allgather in two levels", lambda at: _allgather(at, doubling=doubling)
        case Collective.ALLREDUCE, "ring":
            return "ring allreduce in two levels", lambda at: _allreduce(at, doubling=doubling)
        case Collective.ALLTOALLV, "eager_pairwise":
            return "at once up to a threshold", _eager_pairwise
    return None


def _in_groups(outer: CostFunction, inner: CostFunction) -> CostFunction:
    """Return the cost of `outer` among the leaders of groups and of `inner` in the largest."""

    def cost(at: Instances) -> Numbers:
        p, asked = at.nprocs, float(at.parameters.get("groups", 0))
        groups = np.clip(asked if asked else np.floor(np.sqrt(p) + 0.5), 1.0, p)
        led = np.minimum(groups, at.nodes)
        size = np.ceil(p / groups)
        nodes = np.maximum(np.ceil(size / at.ppn), 1.0)
        within = replace(at, nodes=nodes, ppn=np.where(nodes > 1, size / nodes, size))
        return outer(replace(at, nodes=led, ppn=groups / led)) + inner(within)

    return cost


def _allgather(at: Instances, *, doubling: bool) -> Numbers:
    m = at.msize_bytes
    exchanged = _exchange(at, at.ppn * m, doubling=doubling)
    return exchanged + _through_shared_memory(at, m, at.nprocs * m)


def _allreduce(at: Instances, *, doubling: bool) -> Numbers:
    m, nodes, ppn = at.msize_bytes, at.nodes, at.ppn
    share = m / nodes
    reduced = m * (ppn - 1) / ppn + share * (nodes - 1) / _leaders(at)
    return (
        at.amounts({Coefficient.REDUCTION: reduced})
        + _exchange(at, share, doubling=False)
        + _exchange(at, share, doubling=doubling)
        + _through_shared_memory(at, m, m)
    )


def _leaders(at: Instances) -> Numbers:
    asked = float(max(at.parameters.get("leaders", 1), 1))
    return np.asarray(np.clip(asked, 1.0, at.ppn))


def _exchange(at: Instances, block: Numbers, *, doubling: bool) -> Numbers:
    """Return what leaders pay that exchange blocks of nodes, each leader its share of them."""
    leaders = _leaders(at)
    steps = ceil_log(at.nodes) if doubling else at.nodes - 1
    nbytes = (at.nodes - 1) * block / leaders
    return at.messages(between=steps, bytes_between=nbytes, senders=leaders)


def _through_shared_memory(at: Instances, copied_in: Numbers, copied_out: Numbers) -> Numbers:
    """Return what each process pays to copy its data in, to see that all are there, and out."""
    waits = np.where(at.ppn > 1, at.nodes, 0.0)
    return at.amounts({Coefficient.INTRA_LATENCY: waits, Coefficient.COPY: copied_in + copied_out})


def _eager_pairwise(at: Instances) -> Numbers:
    eager = (at.msize_bytes <= at.parameters.get("threshold", 32768))[:, None]
    return np.where(eager, formulas.spread_overlapping(at), formulas.spread(at))
