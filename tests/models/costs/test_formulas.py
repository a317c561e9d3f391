"""Costs of algorithms against the formulas that were published."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from colltune.domain import Collective, Configuration
from colltune.models.costs import formulas
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
    "allgather ring": (formulas.allgather_ring, lambda p: (p - 1) * (A + M * B)),
    "allgather doubling": (
        formulas.allgather_doubling,
        lambda p: _log(p) * A + (p - 1) * M * B,
    ),
    "allgather Bruck": (formulas.allgather_bruck, lambda p: _log(p) * A + (p - 1) * M * B),
    "allgather sparbit": (formulas.allgather_sparbit, lambda p: _log(p) * A + (p - 1) * M * B),
    "allgather spread": (formulas.spread, lambda p: (p - 1) * (A + M * B)),
    "allgather neighbours": (
        formulas.allgather_neighbours,
        lambda p: (p / 2 if p % 2 == 0 else p - 1) * A + (p - 1) * M * B,
    ),
    "gather binomial": (formulas.gather_binomial, lambda p: _log(p) * A + (p - 1) * M * B),
    "gather linear": (formulas.flat, lambda p: (p - 1) * (A + M * B)),
    "alltoall pairwise": (formulas.spread, lambda p: (p - 1) * (A + M * B)),
    "scatter-ring-allgather": (
        formulas.scatter_ring_allgather,
        lambda p: (_log(p) + p - 1) * A + 2 * (p - 1) / p * M * B,
    ),
    "scatter-doubling-allgather": (
        formulas.scatter_doubling_allgather,
        lambda p: 2 * _log(p) * A + 2 * (p - 1) / p * M * B,
    ),
    "reduce-scatter ring": (
        formulas.reduce_scatter_ring,
        lambda p: (p - 1) * (A + M / p * (B + G)),
    ),
    "reduce-scatter pairwise": (
        formulas.reduce_scatter_pairwise,
        lambda p: (p - 1) * (A + M / p * (B + G)),
    ),
    "reduce-scatter butterfly": (
        formulas.reduce_scatter_butterfly,
        lambda p: _log(p) * A + (p - 1) / p * M * (B + G),
    ),
    "allreduce ring": (
        formulas.allreduce_ring,
        lambda p: 2 * (p - 1) * A + (p - 1) / p * M * (2 * B + G),
    ),
    "allgather and reduce": (
        formulas.allgather_reduce,
        lambda p: _log(p) * A + (p - 1) * M * (B + G),
    ),
    "scan linear": (formulas.scan_linear, lambda p: (p - 1) * (A + M * (B + G))),
    "scan doubling": (formulas.scan_doubling, lambda p: _log(p) * (A + M * B + 2 * M * G)),
    "dissemination": (formulas.barrier_dissemination, lambda p: _log(p) * A),
    "double ring": (formulas.barrier_double_ring, lambda p: 2 * p * A if p > 1 else 0.0),
    "barrier tree": (formulas.barrier_tree, lambda p: 2 * _log(p) * A),
}
POWERS_OF_TWO: dict[str, tuple[CostFunction, Callable[[int], float]]] = {
    "reduce-scatter halving": (
        formulas.reduce_scatter_halving,
        lambda p: _log(p) * A + (p - 1) / p * M * (B + G),
    ),
    "reduce-scatter doubling": (
        formulas.reduce_scatter_doubling,
        lambda p: _log(p) * A + (_log(p) - (p - 1) / p) * M * (B + G),
    ),
    "allreduce doubling": (
        formulas.allreduce_doubling,
        lambda p: _log(p) * (A + M * B + M * G),
    ),
    "Rabenseifner": (
        formulas.allreduce_rabenseifner,
        lambda p: 2 * _log(p) * A + (p - 1) / p * M * (2 * B + G),
    ),
    "Rabenseifner's reduction": (
        formulas.reduce_rabenseifner,
        lambda p: 2 * _log(p) * A + (p - 1) / p * M * (2 * B + G),
    ),
    "alltoall Bruck": (formulas.alltoall_bruck, lambda p: _log(p) * (A + p / 2 * M * B)),
}
TREES: dict[str, tuple[CostFunction, dict[str, int], Callable[[float, float], float]]] = {
    "flat": (formulas.flat, {}, lambda p, x: (p - 1) * (A + M * B)),
    "chain": (formulas.pipeline, {}, lambda p, x: (p - 1) * (A + M * B)),
    "pipeline": (
        formulas.pipeline,
        {"segsize": 1024},
        lambda p, x: (x + p - 2) * (A + M / x * B),
    ),
    "binary": (
        formulas.binary,
        {},
        lambda p, x: 2 * np.floor(np.log2(p)) * (A + M * B),
    ),
    "binomial": (
        formulas.binomial,
        {},
        lambda p, x: np.ceil(np.log2(p)) * (A + M * B),
    ),
    "binomial, doubling": (
        formulas.binomial_doubling,
        {},
        lambda p, x: np.ceil(np.log2(p)) * (A + M * B),
    ),
    "4-nomial": (
        formulas.knomial,
        {"fanout": 4},
        lambda p, x: 3 * np.ceil(np.log(p) / np.log(4) - 1e-9) * (A + M * B),
    ),
}
SHAPES = [(1, 1), (1, 2), (2, 1), (1, 8), (8, 1), (4, 4), (2, 16), (16, 2)]
ODD_SHAPES = [(3, 1), (1, 3), (5, 3), (7, 4), (3, 6), (13, 2)]


def _cost(cost: CostFunction, nodes: int, ppn: int, msize: float = M, **parameters: int) -> float:
    at = Instances.of(nodes, ppn, msize).given(**parameters)
    return float(total_seconds(cost(at), EQUAL)[0])


def test_with_equal_links_the_split_adds_up_to_the_formula() -> None:
    """Parts within and between nodes together are the published formula for any layout of p.

    Algorithms made for powers of two cost what is printed for those.
    """
    for name, (cost, formula) in (FORMULAS | POWERS_OF_TWO).items():
        for nodes, ppn in SHAPES if name in POWERS_OF_TWO else SHAPES + ODD_SHAPES:
            found, expected = _cost(cost, nodes, ppn), formula(nodes * ppn)
            assert found == pytest.approx(expected, abs=1e-18, rel=1e-7), (name, nodes, ppn)


def test_trees_add_up_to_the_formulas_of_hasanov_et_al() -> None:
    """So do trees, of whole messages and of 64 segments (sec. 2.1); one process sends nothing."""
    for name, (cost, parameters, formula) in TREES.items():
        for nodes, ppn in [(1, 2), (2, 1), (1, 7), (7, 1), (5, 3), (8, 4), (4, 16)]:
            found = _cost(cost, nodes, ppn, **parameters)
            assert found == pytest.approx(formula(nodes * ppn, 64), rel=1e-7), (name, nodes, ppn)
        assert _cost(cost, 1, 1, **parameters) == 0.0, name


def test_recursive_doubling_beyond_a_power_of_two_folds_first_and_last() -> None:
    """5 processes: the rounds of 4, one message with arithmetic before and one without after."""
    expected = 4 * (A + M * B) + 3 * M * G
    np.testing.assert_allclose(_cost(formulas.allreduce_doubling, 5, 1), expected)


def test_recursive_halving_of_six_processes() -> None:
    """6 processes fold m bytes, halve among 4, and send m / 6 bytes back."""
    expected = (A + M * (B + G)) + (2 * A + 3 / 4 * M * (B + G)) + (A + M / 6 * B)
    np.testing.assert_allclose(_cost(formulas.reduce_scatter_halving, 6, 1), expected)


def test_bruck_alltoall_of_six_processes_sends_the_blocks_with_each_digit() -> None:
    """Of the numbers 0 to 5, 3 have the lowest bit, 2 the second and 2 the third."""
    expected = 3 * A + (3 + 2 + 2) * M * B
    np.testing.assert_allclose(_cost(formulas.alltoall_bruck, 6, 1), expected)


def test_bruck_allgather_with_radix_four() -> None:
    """16 processes at radix 4: two rounds of three messages, and all 15 formulas."""
    np.testing.assert_allclose(_cost(formulas.allgather_bruck, 16, 1, fanout=4), 6 * A + 15 * M * B)


def test_segments_add_latencies_to_the_first_half_of_a_ring() -> None:
    """4 processes, blocks of 16 KiB in segments of 4 KiB: 12 messages, then 3."""
    expected = 15 * A + 3 / 4 * M * (2 * B + G)
    np.testing.assert_allclose(
        _cost(formulas.allreduce_segmented_ring, 4, 1, segsize=4096), expected
    )


def test_a_block_per_process_is_a_vector_of_all_of_them() -> None:
    """A reduce-scatter of blocks costs as much as one of vectors p times as long."""
    whole = Instances.of(4, 2, 8 * M)
    expected = total_seconds(formulas.reduce_scatter_ring(whole), EQUAL)[0]
    np.testing.assert_allclose(_cost(formulas.reduce_scatter_ring, 4, 2, per_block=1), expected)


def test_doubling_stays_on_the_node_while_the_distance_does() -> None:
    """4 nodes of 4: blocks 1 and 2 within nodes, 4 and 8 between them, by all 4 processes."""
    network = NetworkParameters(Link(1.0, 0.01), Link(100.0, 1.0), contention=0.5)
    instances = Instances.of(4, 4, 1.0)
    cost = total_seconds(formulas.allgather_doubling(instances), network)
    np.testing.assert_allclose(cost, 2 * 1.0 + 3 * 0.01 + 2 * 100.0 + 12 * (1 + 0.5 * 3))


def test_only_one_process_of_a_node_sends_along_a_ring() -> None:
    """More adapters that are bound to processes do not help a ring (Tran et al., table 2)."""
    network = NetworkParameters(Link(1.0, 0.01), Link(1.0, 1.0), contention=1.0)
    costs = []
    for rails in (Rails(1), Rails(4, RailUse.BINDING)):
        instances = Instances.of(4, 4, 100.0, rails)
        costs.append(total_seconds(formulas.allgather_ring(instances), network)[0])
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
        total_seconds(formulas.alltoall_linear(instances.given(**parameters)), network)[0]
        for parameters in (dict[str, int](), {"requests": 2}, {"requests": 8})
    ]
    np.testing.assert_allclose(costs, [1.08, 4.08, 1.08])


def test_binary_tree_of_a_full_tree_is_as_printed() -> None:
    """For p = 15 the binary tree costs 2 (log2(16) - 1) messages (2.1.4)."""
    np.testing.assert_allclose(_cost(formulas.binary, 15, 1, 100), 6 * (A + 100 * B))


def test_split_binary_of_seven_processes() -> None:
    """Height 2: four halves down and one exchanged."""
    expected = 5 * (A + 500 * B)
    np.testing.assert_allclose(_cost(formulas.split_binary, 7, 1, 1000), expected)


def test_four_chains_need_a_quarter_of_the_hops() -> None:
    """13 processes on 4 chains of 3: every segment is sent 4 times, the last hops twice."""
    expected = (4 * 2 + 2) * (A + 500 * B)
    got = _cost(formulas.chain, 13, 1, 1000, fanout=4, segsize=500)
    np.testing.assert_allclose(got, expected)


def test_a_chain_crosses_to_every_node_once() -> None:
    """Whole messages along 3 nodes of 4 processes: 2 hops between nodes and 9 within."""
    instances = Instances.of(3, 4, 0)
    network = NetworkParameters(Link(1.0, 0), Link(100.0, 0))
    cost = total_seconds(formulas.pipeline(instances), network)
    np.testing.assert_array_equal(cost, 209.0)


def test_distances_that_halve_leave_the_node_first() -> None:
    """4 nodes of 4: two rounds between nodes and two within, for either order of distances."""
    network = NetworkParameters(Link(1.0, 0), Link(100.0, 0))
    instances = Instances.of(4, 4, 0)
    for cost in (formulas.binomial, formulas.binomial_doubling):
        np.testing.assert_array_equal(total_seconds(cost(instances), network), 202.0)


def test_a_node_size_that_is_no_power_of_two_makes_rounds_cross() -> None:
    """2 nodes of 6: only distance 1 stays on a node in every pair."""
    network = NetworkParameters(Link(1.0, 0), Link(100.0, 0))
    instances = Instances.of(2, 6, 0)
    cost = total_seconds(formulas.binomial(instances), network)
    np.testing.assert_array_equal(cost, 301.0)


def test_a_reduction_works_on_every_byte_received() -> None:
    """A binomial reduction of 8 processes adds 3 m gamma, with however many adapters."""
    network = NetworkParameters(Link(0, 0), Link(0, 0), reduction_s_per_byte=1.0)
    instances = Instances.of(4, 2, 10)
    terms = formulas.reduction(formulas.binomial)(instances)
    np.testing.assert_array_equal(total_seconds(terms, network), 30.0)
