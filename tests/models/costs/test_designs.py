"""What published designs would take on a fitted network."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colltune.domain import Collective, Instance, Shape
from colltune.models.costs.breakdown import (
    Broadcast,
    BroadcastCost,
    Exchange,
    MultiAdapterAllgather,
    designs,
)
from colltune.models.costs.network import Link, NetworkParameters, Rails, RailUse

NETWORK = NetworkParameters(
    Link(1e-6, 1e-10), Link(2e-6, 8e-11), copy_s_per_byte=5e-11, rails=Rails(2, RailUse.SHARING)
)


def at(collective: Collective, nodes: int, ppn: int, msize_bytes: int = 131072) -> Instance:
    """Return an instance."""
    return Instance(collective, Shape(nodes, ppn), msize_bytes)


def test_broadcasts_in_groups() -> None:
    """The linear one has its optimum at the root of the processes, and says what it gains.

    Messages are striped over adapters that are shared, and not over those that are bound.
    """
    found = {d.name: d for d in designs(at(Collective.BCAST, 16, 4), NETWORK)}
    assert list(found) == [
        "hierarchical linear",
        "hierarchical pipelined",
        "hierarchical scatter-ring-allgather",
    ]
    linear = found["hierarchical linear"]
    assert linear.optimum == "8 groups, 4.50x the flat one"
    striped = Link(2e-6, 4e-11)
    assert linear.time_s == BroadcastCost(Broadcast.LINEAR, 64, 131072, striped).time_s(8)
    pipelined = BroadcastCost(Broadcast.PIPELINED, 64, 131072, striped, 2)
    assert found["hierarchical pipelined"].time_s == pipelined.time_s(8)
    bound = designs(at(Collective.BCAST, 16, 4), replace(NETWORK, rails=Rails(2)))
    unstriped = BroadcastCost(Broadcast.LINEAR, 64, 131072, NETWORK.inter)
    assert bound[0].time_s == unstriped.time_s(8)


def test_broadcast_within_a_node() -> None:
    """On one node the links are those within nodes; two processes need no groups."""
    alone = designs(at(Collective.BCAST, 1, 2), NETWORK)
    assert alone[0].time_s == pytest.approx(1e-6 + 131072 * 1e-10)
    assert alone[0].optimum == "1 group, 1.00x the flat one"


def test_allgathers_through_all_adapters() -> None:
    """Ring and doubling between nodes, doubling for powers of two only; one node has MHA-intra."""
    copy = Link(0.0, NETWORK.copy_s_per_byte)
    gather = MultiAdapterAllgather(4, 4, 131072, NETWORK.inter, 2, NETWORK.intra, copy)
    found = designs(at(Collective.ALLGATHER, 4, 4), NETWORK)
    assert [d.name for d in found] == ["MHA-inter ring", "MHA-inter recursive-doubling"]
    assert [d.time_s for d in found] == [gather.inter_s(e) for e in Exchange]
    assert (
        found[0].optimum
        == f"by formula, {gather.optimal_offload().transfers} of 3 transfers by adapters"
    )
    six = designs(at(Collective.ALLGATHER, 6, 4), NETWORK)
    assert [d.name for d in six] == ["MHA-inter ring"]
    one = designs(at(Collective.ALLGATHER, 1, 4), NETWORK)
    assert [d.name for d in one] == ["MHA-intra"]


def test_copies_are_never_free() -> None:
    """Where the fit found no cost of copies, they take what bytes within a node take."""
    free = NetworkParameters(NETWORK.intra, NETWORK.inter)
    slow = NetworkParameters(NETWORK.intra, NETWORK.inter, copy_s_per_byte=1e-10)
    allgather = at(Collective.ALLGATHER, 4, 4)
    assert designs(allgather, free) == designs(allgather, slow)


def test_other_collectives() -> None:
    """There are no designs for the others."""
    others = set(Collective) - {Collective.BCAST, Collective.ALLGATHER}
    assert not any(designs(at(c, 4, 4), NETWORK) for c in others)
