"""Allgathers, alltoalls, gathers, reduce-scatters and allreduces against published formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from colltune.domain import Collective, Configuration
from colltune.models.costs import blocks, reductions, trees
from colltune.models.costs.families import configuration_amounts
from colltune.models.costs.network import (
    CostFunction,
    Instances,
    Link,
    NetworkParameters,
    Rails,
    RailUse,
    total_seconds,
)

A, B, G = 2e-6, 1e-9, 3e-9
EQUAL = NetworkParameters(Link(A, B), Link(A, B), reduction_s_per_byte=G)
M = 65536.0


def _log(p: int) -> int:
    return (p - 1).bit_length()


FORMULAS: dict[str, tuple[CostFunction, Callable[[int], float]]] = {
    "allgather ring": (blocks.allgather_ring, lambda p: (p - 1) * (A + M * B)),
    "allgather doubling": (
        blocks.allgather_doubling,
        lambda p: _log(p) * A + (p - 1) * M * B,
    ),
    "allgather Bruck": (blocks.allgather_bruck, lambda p: _log(p) * A + (p - 1) * M * B),
    "allgather sparbit": (blocks.allgather_sparbit, lambda p: _log(p) * A + (p - 1) * M * B),
    "allgather spread": (blocks.spread, lambda p: (p - 1) * (A + M * B)),
    "allgather neighbours": (
        blocks.allgather_neighbours,
        lambda p: (p / 2 if p % 2 == 0 else p - 1) * A + (p - 1) * M * B,
    ),
    "gather binomial": (blocks.gather_binomial, lambda p: _log(p) * A + (p - 1) * M * B),
    "gather linear": (trees.flat, lambda p: (p - 1) * (A + M * B)),
    "alltoall pairwise": (blocks.spread, lambda p: (p - 1) * (A + M * B)),
    "scatter-ring-allgather": (
        blocks.scatter_ring_allgather,
        lambda p: (_log(p) + p - 1) * A + 2 * (p - 1) / p * M * B,
    ),
    "scatter-doubling-allgather": (
        blocks.scatter_doubling_allgather,
        lambda p: 2 * _log(p) * A + 2 * (p - 1) / p * M * B,
    ),
    "reduce-scatter ring": (
        reductions.reduce_scatter_ring,
        lambda p: (p - 1) * (A + M / p * (B + G)),
    ),
    "reduce-scatter pairwise": (
        reductions.reduce_scatter_pairwise,
        lambda p: (p - 1) * (A + M / p * (B + G)),
    ),
    "reduce-scatter butterfly": (
        reductions.reduce_scatter_butterfly,
        lambda p: _log(p) * A + (p - 1) / p * M * (B + G),
    ),
    "allreduce ring": (
        reductions.allreduce_ring,
        lambda p: 2 * (p - 1) * A + (p - 1) / p * M * (2 * B + G),
    ),
    "allgather and reduce": (
        reductions.allgather_reduce,
        lambda p: _log(p) * A + (p - 1) * M * (B + G),
    ),
    "scan linear": (reductions.scan_linear, lambda p: (p - 1) * (A + M * (B + G))),
    "scan doubling": (reductions.scan_doubling, lambda p: _log(p) * (A + M * B + 2 * M * G)),
    "dissemination": (reductions.barrier_dissemination, lambda p: _log(p) * A),
    "double ring": (reductions.barrier_double_ring, lambda p: 2 * p * A if p > 1 else 0.0),
    "barrier tree": (reductions.barrier_tree, lambda p: 2 * _log(p) * A),
}
POWERS_OF_TWO: dict[str, tuple[CostFunction, Callable[[int], float]]] = {
    "reduce-scatter halving": (
        reductions.reduce_scatter_halving,
        lambda p: _log(p) * A + (p - 1) / p * M * (B + G),
    ),
    "reduce-scatter doubling": (
        reductions.reduce_scatter_doubling,
        lambda p: _log(p) * A + (_log(p) - (p - 1) / p) * M * (B + G),
    ),
    "allreduce doubling": (
        reductions.allreduce_doubling,
        lambda p: _log(p) * (A + M * B + M * G),
    ),
    "Rabenseifner": (
        reductions.allreduce_rabenseifner,
        lambda p: 2 * _log(p) * A + (p - 1) / p * M * (2 * B + G),
    ),
    "Rabenseifner's reduction": (
        reductions.reduce_rabenseifner,
        lambda p: 2 * _log(p) * A + (p - 1) / p * M * (2 * B + G),
    ),
    "alltoall Bruck": (blocks.alltoall_bruck, lambda p: _log(p) * (A + p / 2 * M * B)),
}
SHAPES = [(1, 1), (1, 2), (2, 1), (1, 8), (8, 1), (4, 4), (2, 16), (16, 2)]
ODD_SHAPES = [(3, 1), (1, 3), (5, 3), (7, 4), (3, 6), (13, 2)]


def _cost(cost: CostFunction, nodes: int, ppn: int, **parameters: int) -> float:
    instances = Instances.of(nodes, ppn, M)
    return float(total_seconds(cost(instances, parameters), EQUAL)[0])


def test_with_equal_links_the_split_adds_up_to_the_formula() -> None:
    """Parts within and between nodes together are the published formula for any layout of p.

    Algorithms made for powers of two cost what is printed for those.
    """
    for name, (cost, formula) in (FORMULAS | POWERS_OF_TWO).items():
        for nodes, ppn in SHAPES if name in POWERS_OF_TWO else SHAPES + ODD_SHAPES:
            found, expected = _cost(cost, nodes, ppn), formula(nodes * ppn)
            assert found == pytest.approx(expected, abs=1e-18, rel=1e-7), (name, nodes, ppn)


def test_recursive_doubling_beyond_a_power_of_two_folds_first_and_last() -> None:
    """5 processes: the rounds of 4, one message with arithmetic before and one without after."""
    expected = 4 * (A + M * B) + 3 * M * G
    np.testing.assert_allclose(_cost(reductions.allreduce_doubling, 5, 1), expected)


def test_recursive_halving_of_six_processes() -> None:
    """6 processes fold m bytes, halve among 4, and send m / 6 bytes back."""
    expected = (A + M * (B + G)) + (2 * A + 3 / 4 * M * (B + G)) + (A + M / 6 * B)
    np.testing.assert_allclose(_cost(reductions.reduce_scatter_halving, 6, 1), expected)


def test_bruck_alltoall_of_six_processes_sends_the_blocks_with_each_digit() -> None:
    """Of the numbers 0 to 5, 3 have the lowest bit, 2 the second and 2 the third."""
    expected = 3 * A + (3 + 2 + 2) * M * B
    np.testing.assert_allclose(_cost(blocks.alltoall_bruck, 6, 1), expected)


def test_bruck_allgather_with_radix_four() -> None:
    """16 processes at radix 4: two rounds of three messages, and all 15 blocks."""
    np.testing.assert_allclose(_cost(blocks.allgather_bruck, 16, 1, fanout=4), 6 * A + 15 * M * B)


def test_segments_add_latencies_to_the_first_half_of_a_ring() -> None:
    """4 processes, blocks of 16 KiB in segments of 4 KiB: 12 messages, then 3."""
    expected = 15 * A + 3 / 4 * M * (2 * B + G)
    np.testing.assert_allclose(
        _cost(reductions.allreduce_segmented_ring, 4, 1, segsize=4096), expected
    )


def test_a_block_per_process_is_a_vector_of_all_of_them() -> None:
    """A reduce-scatter of blocks costs as much as one of vectors p times as long."""
    whole = Instances.of(4, 2, 8 * M)
    expected = total_seconds(reductions.reduce_scatter_ring(whole, {}), EQUAL)[0]
    np.testing.assert_allclose(_cost(reductions.reduce_scatter_ring, 4, 2, per_block=1), expected)


def test_doubling_stays_on_the_node_while_the_distance_does() -> None:
    """4 nodes of 4: blocks 1 and 2 within nodes, 4 and 8 between them, by all 4 processes."""
    network = NetworkParameters(Link(1.0, 0.01), Link(100.0, 1.0), contention=0.5)
    instances = Instances.of(4, 4, 1.0)
    cost = total_seconds(blocks.allgather_doubling(instances, {}), network)
    np.testing.assert_allclose(cost, 2 * 1.0 + 3 * 0.01 + 2 * 100.0 + 12 * (1 + 0.5 * 3))


def test_only_one_process_of_a_node_sends_along_a_ring() -> None:
    """More adapters that are bound to processes do not help a ring (Tran et al., table 2)."""
    network = NetworkParameters(Link(1.0, 0.01), Link(1.0, 1.0), contention=1.0)
    costs = []
    for rails in (Rails(1), Rails(4, RailUse.BINDING)):
        instances = Instances.of(4, 4, 100.0, rails)
        costs.append(total_seconds(blocks.allgather_ring(instances, {}), network)[0])
    assert costs[0] == costs[1]


def test_two_levels_are_leaders_and_a_node() -> None:
    """Binomial in two levels: log2 of the nodes between them and log2 of a node within."""
    network = NetworkParameters(Link(1.0, 0.0), Link(100.0, 0.0))
    instances = Instances.of(8, 4, 10)
    two_level = Configuration("smpi", Collective.BCAST, "smp_binomial")
    cost = total_seconds(configuration_amounts(two_level, instances), network)
    np.testing.assert_array_equal(cost, 302.0)


def test_windows_of_an_alltoall_wait_for_each_other() -> None:
    """9 processes with 2 messages at a time wait 3 times more than with all 8 at once."""
    network = NetworkParameters(Link(1.0, 0.0, 0.01), Link(1.0, 0.0, 0.01))
    instances = Instances.of(9, 1, 10)
    costs = [
        total_seconds(blocks.alltoall_linear(instances, parameters), network)[0]
        for parameters in ({}, {"requests": 2}, {"requests": 8})
    ]
    np.testing.assert_allclose(costs, [1.08, 4.08, 1.08])
