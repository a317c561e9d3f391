"""Broadcasts along trees, whole or in segments, and their mirror image, the reductions.

Hasanov et al., Simulation Modelling Practice and Theory 2015, sec. 2.1, for p processes and m bytes
in X segments, with Hockney's alpha and beta:

* flat (2.1.1): ``(p - 1) (alpha + m beta)``
* linear, or chain (2.1.2): the same; pipelined (2.1.3): ``(X + p - 2) (alpha + m / X beta)``
* binary (2.1.4): ``2 (log2(p + 1) - 1) (alpha + m beta)``
* split-binary (2.1.5): ``2 (log2(p + 1) - 2) (alpha + m beta) + alpha + m / 2 beta``
* binomial (2.1.6): ``log2(p) (alpha + m beta)``; k-nomial: ``(k - 1) ceil(log_k p)`` messages

For other p than those of full trees the height is rounded as the trees are built. Segments follow
one another through a tree of height h and fan-out F in ``F (h + X - 1)`` messages (Pjesivac-Grbovic
et al., "Performance analysis of MPI collective operations", Cluster Computing 10, 2007, sec. 4).
A tree of a reduction costs the same and works on every received byte (Tran et al., sec. 2.2.5).
The split into parts within and between nodes is this module's own; with equal links both add up to
the formulas above.
"""

from __future__ import annotations

import numpy as np

from colltune.models.costs.network import (
    CostFunction,
    Instances,
    Numbers,
    Parameters,
    Traffic,
    messages,
    with_arithmetic,
)
from colltune.models.costs.rounds import (
    aligned_on_node,
    ceil_log,
    from_root,
    in_turn,
    powers,
    segments,
)


def flat(instances: Instances, parameters: Parameters) -> Numbers:
    """Send from the root to all others in turn (2.1.1)."""
    return messages(instances, from_root(instances))


def flat_overlapping(instances: Instances, parameters: Parameters) -> Numbers:
    """Do the same with non-blocking messages: a gap for each, and one latency."""
    return messages(instances, from_root(instances), overlapping=True)


def chain(instances: Instances, parameters: Parameters) -> Numbers:
    """Send segments along ``fanout`` chains through all processes (2.1.2, 2.1.3).

    The root feeds every chain, so that it sends each segment ``fanout`` times; the first segment
    then travels to the end of the longest chain.
    """
    asked = float(max(parameters.get("fanout", 1), 1))
    fanout = np.clip(asked, 1.0, np.maximum(instances.nprocs - 1, 1.0))
    x = segments(instances.msize_bytes, parameters.get("segsize"))
    segment = instances.msize_bytes / x
    sent_by_root = np.where(instances.nprocs > 1, fanout * x, 0.0)
    hops = np.maximum(np.ceil((instances.nprocs - 1) / fanout) - 1, 0.0)
    remote = np.clip(np.ceil((instances.nodes - 1) / fanout) - 1, 0.0, hops)
    local = hops - remote
    travelled = Traffic(local, local * segment, remote, remote * segment)
    return _on_slowest_link(instances, sent_by_root, segment) + messages(instances, travelled)


def pipeline(instances: Instances, parameters: Parameters) -> Numbers:
    """Send along one chain: ``(X + p - 2) (alpha + m / X beta)`` (2.1.3)."""
    return chain(instances, {**parameters, "fanout": 1})


def _on_slowest_link(
    instances: Instances, count: Numbers, size: Numbers, senders: Numbers | float = 1.0
) -> Numbers:
    return in_turn(instances, ~instances.several_nodes, count, count * size, senders)


def k_ary(instances: Instances, parameters: Parameters) -> Numbers:
    """Send down a full tree of ``fanout`` children: ``F (h + X - 1)`` (2.1.4 for F = 2).

    Ranks are laid out level by level, so that the upper levels are on the root's node.
    """
    fanout = max(parameters.get("fanout", 2), 1)
    if fanout == 1:
        return pipeline(instances, parameters)
    x = segments(instances.msize_bytes, parameters.get("segsize"))
    return _tree(instances, _height(instances.nprocs, fanout), fanout, x, instances.msize_bytes / x)


def binary(instances: Instances, parameters: Parameters) -> Numbers:
    return k_ary(instances, {**parameters, "fanout": 2})


def _tree(
    instances: Instances, height: Numbers, fanout: int, x: Numbers, segment: Numbers
) -> Numbers:
    local = np.minimum(height, _height(instances.ppn, fanout))
    remote = height - local
    more = np.where(height > 0, x - 1, 0.0)
    local = fanout * (local + more * (remote == 0))
    remote = fanout * (remote + more * (remote > 0))
    traffic = Traffic(local, local * segment, remote, remote * segment, instances.ppn)
    return messages(instances, traffic)


def _height(counts: Numbers, fanout: int) -> Numbers:
    """Return the height of the smallest full tree with so many members: 0 for 1 member."""
    height, members, level = np.zeros(counts.shape), np.ones(counts.shape), 1.0
    while (short := members < counts).any():
        level *= fanout
        members += level
        height += short
    return height


def split_binary(instances: Instances, parameters: Parameters) -> Numbers:
    """Send halves down the two subtrees, then exchange them (2.1.5).

    As printed there every forwarded message has all m bytes. Only one half goes down either
    subtree, so that ``2 (h + X - 1)`` messages of ``m / (2 X)`` bytes down a tree of height h are
    counted here, and the exchange of a half with a process of the other subtree: with one segment
    ``2 h (alpha + m / 2 beta) + alpha + m / 2 beta``.
    """
    p, half = instances.nprocs, instances.msize_bytes / 2
    x = segments(half, parameters.get("segsize"))
    height = np.where(p > 2, _height(p, 2), 0.0)
    down = _tree(instances, height, 2, x, half / x)
    exchange = _on_slowest_link(instances, (p > 2).astype(np.float64), half, instances.ppn)
    whole = (p == 2).astype(np.float64)
    return down + exchange + _on_slowest_link(instances, whole, instances.msize_bytes)


def binomial(instances: Instances, parameters: Parameters) -> Numbers:
    """Send along a binomial tree whose distances halve, as in MPICH (2.1.6).

    The first rounds go between nodes with one sender on each. Every segment is sent by the root in
    all rounds, so that X segments take X times as many messages.
    """
    return knomial(instances, {**parameters, "fanout": 2})


def binomial_doubling(instances: Instances, parameters: Parameters) -> Numbers:
    """Send along a binomial tree whose distances double, as in Open MPI (2.1.6).

    The first rounds stay on the root's node; in the last ones all processes of a node send.
    """
    x = segments(instances.msize_bytes, parameters.get("segsize"))
    rounds = ceil_log(instances.nprocs)
    local = np.zeros(len(instances))
    for distance in powers(instances.nprocs):
        inside = ~instances.several_nodes | (2 * distance <= instances.ppn)
        local += inside & (distance < instances.nprocs)
    local, remote = local * x, (rounds - local) * x
    segment = instances.msize_bytes / x
    traffic = Traffic(local, local * segment, remote, remote * segment, instances.ppn)
    return messages(instances, traffic)


def knomial(instances: Instances, parameters: Parameters) -> Numbers:
    """Send (k - 1) ceil(log_k p) messages, k = ``fanout`` (4 if not given)."""
    radix = max(parameters.get("fanout", 4), 2)
    x = segments(instances.msize_bytes, parameters.get("segsize"))
    rounds = ceil_log(instances.nprocs, radix)
    remote = np.zeros(len(instances))
    for distance in powers(instances.nprocs, radix):
        remote += ~aligned_on_node(instances, distance, radix) & (distance < instances.nprocs)
    local, remote = ((radix - 1) * x * count for count in (rounds - remote, remote))
    segment = instances.msize_bytes / x
    return messages(instances, Traffic(local, local * segment, remote, remote * segment))


def reduction(broadcast: CostFunction) -> CostFunction:
    """Return the cost of a reduction along a broadcast's tree: the same, and the arithmetic."""
    return lambda instances, parameters: with_arithmetic(
        instances, broadcast(instances, parameters)
    )
