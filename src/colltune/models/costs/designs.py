"""Published designs that most MPI libraries lack, and what they would take on a fitted network.

For a broadcast, Hasanov's groups (`colltune.models.costs.hierarchical`); for an allgather, Tran et
al.'s use of all adapters (`colltune.models.costs.multi_hca`). Nothing of the kind was measured, so
that these are formulas with the network's parameters, and no candidates of any selection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from colltune.domain import Collective, Instance
from colltune.models.costs.hierarchical import Broadcast, BroadcastCost
from colltune.models.costs.multi_hca import Exchange, MultiAdapterAllgather
from colltune.models.costs.network import Link, NetworkParameters, RailUse

SEGSIZE_BYTES = 65536
"""Segment size of the pipelined broadcast."""
_BROADCASTS = (Broadcast.LINEAR, Broadcast.PIPELINED, Broadcast.SCATTER_RING_ALLGATHER)


class Design(NamedTuple):
    """One design: predicted seconds, and its own optimum in words."""

    name: str
    time_s: float
    optimum: str


def designs(instance: Instance, network: NetworkParameters) -> list[Design]:
    """Return the designs for the collective of `instance`; none for most collectives."""
    if instance.collective is Collective.BCAST:
        return list(_broadcasts(instance, network))
    if instance.collective is Collective.ALLGATHER:
        return list(_allgathers(instance, network))
    return []


def _broadcasts(instance: Instance, network: NetworkParameters) -> Iterator[Design]:
    shape, m = instance.shape, instance.msize_bytes
    link = _between(network) if shape.nodes > 1 else network.intra
    for algorithm in _BROADCASTS:
        segments = max(1, -(-m // SEGSIZE_BYTES))
        best = BroadcastCost(algorithm, shape.nprocs, m, link, segments).optimum()
        groups = "1 group" if best.groups == 1 else f"{best.groups} groups"
        name = algorithm.replace("_", "-")
        yield Design(
            f"hierarchical {name}", best.time_s, f"{groups}, {best.gain:.2f}x the flat one"
        )


def _between(network: NetworkParameters) -> Link:
    """Return the link of one message between nodes, striped over adapters that are shared."""
    if network.rails.use is RailUse.BINDING:
        return network.inter
    striped = network.inter.s_per_byte / network.rails.adapters
    return replace(network.inter, s_per_byte=striped)


def _allgathers(instance: Instance, network: NetworkParameters) -> Iterator[Design]:
    shape = instance.shape
    gather = MultiAdapterAllgather(
        shape.nodes,
        shape.ppn,
        instance.msize_bytes,
        network.inter,
        network.rails.adapters,
        memory=network.intra,
        # the fit knows no startup of a local copy
        copy=Link(0.0, network.copy_s_per_byte or network.intra.s_per_byte),
    )
    offload = gather.optimal_offload()
    optimum = f"{offload.transfers} of {shape.ppn - 1} transfers offloaded"
    if shape.nodes == 1:
        yield Design("MHA-intra", offload.time_s, optimum)
        return
    for exchange in Exchange:
        if exchange is Exchange.RING or not shape.nodes & (shape.nodes - 1):
            name = f"MHA-inter {exchange.replace('_', '-')}"
            yield Design(name, gather.inter_s(exchange), optimum)
