"""Tran et al.'s allgather for several adapters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colltune.models.costs.breakdown import Exchange, MultiAdapterAllgather
from colltune.models.costs.network import Link

M = 10**6
T_C, T_H, T_L = 1.01e-4, 4.2e-5, 5.05e-5


def allgather(nodes: int = 8, ppn: int = 4, msize_bytes: int = M) -> MultiAdapterAllgather:
    """Return the allgather on a machine of two 12.5 GB/s adapters per node."""
    network, memory, copy = Link(2e-6, 8e-11), Link(1e-6, 1e-10), Link(5e-7, 5e-11)
    return MultiAdapterAllgather(nodes, ppn, msize_bytes, network, 2, memory, copy)


def test_transfers() -> None:
    """T_H and the broadcast in a node of a megabyte, by hand; adapters do not touch latency."""
    assert allgather().network_s(M) == pytest.approx(T_H, rel=1e-12)
    assert allgather().network_s(0) == 2e-6
    assert allgather(ppn=6).broadcast_s(M) == pytest.approx(6 * T_L, rel=1e-12)
    assert allgather(ppn=1).broadcast_s(M) == 0.0


def test_measured_congestion_replaces_one_copy_after_another() -> None:
    """Eq. 5 with cg = 1.5 of 5 readers; b = 2 makes a transfer's bytes, not its start, dearer."""
    measured = replace(allgather(ppn=6), slowdown=2.0, congestion=1.5)
    assert measured.broadcast_s(M) == pytest.approx(2.5 * T_L, rel=1e-12)
    assert measured.transfer_s() == pytest.approx(1e-6 + 2e-4, rel=1e-12)
    assert measured.optimal_offload().transfers > allgather(ppn=6).optimal_offload().transfers
    assert measured.inter_s(Exchange.RING) < allgather(ppn=6).inter_s(Exchange.RING)


def test_best_offload() -> None:
    """Eq. 1 and 2 by hand: d = 3 T_C / (4 T_H + T_C) = 1.126, and of 1 and 2 the better is 1."""
    offload = allgather().optimal_offload()
    assert offload.continuous == pytest.approx(3 * T_C / (4 * T_H + T_C), rel=1e-12)
    assert offload.transfers == 1
    assert offload.time_s == pytest.approx(T_L + max(2 * T_C, 4 * T_H), rel=1e-12)
    assert offload.without_s == pytest.approx(T_L + 3 * T_C, rel=1e-12)


def test_cpu_and_adapters_end_together() -> None:
    """At the continuous d of eq. 1 both sides of the maximum in eq. 2 are equal."""
    d = allgather().optimal_offload().continuous
    assert (3 - d) * T_C == pytest.approx(4 * d * T_H, rel=1e-12)
    best_s = allgather().intra_s(d)
    assert best_s < min(allgather().intra_s(d - 0.1), allgather().intra_s(d + 0.1))


def test_best_whole_offload() -> None:
    """No other whole number of transfers is faster than the one chosen."""
    for ppn in (1, 2, 3, 17, 128):
        for msize_bytes in (0, 1, 4096, 10**6, 2**40):
            gather = allgather(1, ppn, msize_bytes)
            best_s = min(gather.intra_s(d) for d in range(ppn))
            assert gather.optimal_offload().time_s == best_s, (ppn, msize_bytes)


def test_a_network_for_nothing_takes_all_transfers() -> None:
    """Rounding never offloads more transfers than a process has, whatever a copy costs."""
    for size in range(1, 4000, 7):
        gather = replace(allgather(1, 8, size), link=Link(0.0, 0.0))
        assert gather.optimal_offload().transfers == 7


def test_more_processes_gain_less() -> None:
    """Sec. 5.2: with the same adapters the share that can be offloaded falls with processes."""
    shares = [allgather(1, p).optimal_offload().continuous / (p - 1) for p in (2, 4, 8, 16)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 3 * shares[-1]


def test_exchange_between_nodes() -> None:
    """Eq. 3 and 4: both move 7 blocks of the node; the ring starts 7 transfers, doubling 3."""
    bytes_s = 7 * 4 * M * 4e-11
    ring_s = allgather().exchange_s(Exchange.RING)
    doubling_s = allgather().exchange_s(Exchange.RECURSIVE_DOUBLING)
    assert ring_s == pytest.approx(7 * 2e-6 + bytes_s, rel=1e-12)
    assert doubling_s == pytest.approx(3 * 2e-6 + bytes_s, rel=1e-12)


def test_network_bound_allgather() -> None:
    """Eq. 6 and 7, first case: the network hides all broadcasts within the node but the last."""
    gather = replace(allgather(), copy=Link(1e-9, 1e-12))
    first_s = gather.optimal_offload().time_s
    for exchange, last in ((Exchange.RING, 4 * M), (Exchange.RECURSIVE_DOUBLING, 16 * M)):
        last_s = (1e-9 + last * 1e-12) * (1 + 3)
        expected_s = first_s + gather.exchange_s(exchange) + last_s
        assert gather.inter_s(exchange) == pytest.approx(expected_s, rel=1e-12)
    assert gather.inter_s(Exchange.RING) < gather.inter_s(Exchange.RECURSIVE_DOUBLING)


def test_memory_bound_allgather() -> None:
    """Eq. 6 and 7, second case: one transfer, then N - 1 broadcasts one after another."""
    gather = replace(allgather(), copy=Link(5e-7, 1e-9))
    block_s = 2e-6 + 4 * M * 4e-11
    copy_s = 5e-7 + 4 * M * 1e-9
    expected_s = gather.optimal_offload().time_s + block_s + 7 * copy_s * (1 + 3)
    assert gather.inter_s(Exchange.RING) == pytest.approx(expected_s, rel=1e-12)
    assert gather.inter_s(Exchange.RECURSIVE_DOUBLING) == pytest.approx(expected_s, rel=1e-12)


def test_cases_of_the_ring_meet() -> None:
    """Where broadcast and transfer take equally long, both cases of eq. 7 tell the same time."""
    block_s = allgather().network_s(4 * M)
    below, above = (
        replace(allgather(), copy=Link(block_s / 4 * f, 0.0)).inter_s(Exchange.RING)
        for f in (1 - 1e-9, 1 + 1e-9)
    )
    assert below == pytest.approx(above, rel=1e-7)


def test_one_node_has_the_first_phase_only() -> None:
    """On one node the allgather between nodes is the one within the node."""
    gather = allgather(nodes=1)
    expected_s = gather.optimal_offload().time_s
    assert [gather.inter_s(e) for e in Exchange] == [expected_s, expected_s]


def test_more_adapters_are_never_slower() -> None:
    """Times fall with adapters, and for large blocks towards the limit of the memory."""
    times = [replace(allgather(), adapters=h).inter_s(Exchange.RING) for h in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
