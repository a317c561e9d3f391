"""Broadcast trees against the formulas of Hasanov et al. 2015, sec. 2.1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from colltune.models.costs import trees
from colltune.models.costs.network import (
    CostFunction,
    Instances,
    Link,
    NetworkParameters,
    total_seconds,
)

ALPHA, BETA = 2e-6, 1e-10
EQUAL = NetworkParameters(Link(ALPHA, BETA), Link(ALPHA, BETA))
Formula = Callable[[float, float, float], float]


def _cost(cost: CostFunction, nodes: int, ppn: int, msize: float, **parameters: int) -> float:
    instances = Instances.of(nodes, ppn, msize)
    return float(total_seconds(cost(instances, parameters), EQUAL)[0])


FORMULAS: dict[str, tuple[CostFunction, dict[str, int], Formula]] = {
    "flat": (trees.flat, {}, lambda p, m, x: (p - 1) * (ALPHA + m * BETA)),
    "chain": (trees.pipeline, {}, lambda p, m, x: (p - 1) * (ALPHA + m * BETA)),
    "pipeline": (
        trees.pipeline,
        {"segsize": 1024},
        lambda p, m, x: (x + p - 2) * (ALPHA + m / x * BETA),
    ),
    "binary": (
        trees.binary,
        {},
        lambda p, m, x: 2 * np.floor(np.log2(p)) * (ALPHA + m * BETA),
    ),
    "binomial": (
        trees.binomial,
        {},
        lambda p, m, x: np.ceil(np.log2(p)) * (ALPHA + m * BETA),
    ),
    "binomial, doubling": (
        trees.binomial_doubling,
        {},
        lambda p, m, x: np.ceil(np.log2(p)) * (ALPHA + m * BETA),
    ),
    "4-nomial": (
        trees.knomial,
        {"fanout": 4},
        lambda p, m, x: 3 * np.ceil(np.log(p) / np.log(4) - 1e-9) * (ALPHA + m * BETA),
    ),
}


def test_with_equal_links_the_split_adds_up_to_the_formula() -> None:
    """Parts within and between nodes together are the published formula, however p is laid out.

    A single process sends nothing.
    """
    for name, (cost, parameters, formula) in FORMULAS.items():
        for nodes, ppn in [(1, 2), (2, 1), (1, 7), (7, 1), (5, 3), (8, 4), (4, 16)]:
            expected = formula(nodes * ppn, 65536, 64)
            found = _cost(cost, nodes, ppn, 65536, **parameters)
            assert found == pytest.approx(expected, rel=1e-7), (name, nodes, ppn)
        assert _cost(cost, 1, 1, 4096, **parameters) == 0.0, name


def test_binary_tree_of_a_full_tree_is_as_printed() -> None:
    """For p = 15 the binary tree costs 2 (log2(16) - 1) messages (2.1.4)."""
    np.testing.assert_allclose(_cost(trees.binary, 15, 1, 100), 6 * (ALPHA + 100 * BETA))


def test_split_binary_of_seven_processes() -> None:
    """Height 2: four halves down and one exchanged."""
    expected = 5 * (ALPHA + 500 * BETA)
    np.testing.assert_allclose(_cost(trees.split_binary, 7, 1, 1000), expected)


def test_four_chains_need_a_quarter_of_the_hops() -> None:
    """13 processes on 4 chains of 3: every segment is sent 4 times, the last hops twice."""
    expected = (4 * 2 + 2) * (ALPHA + 500 * BETA)
    got = _cost(trees.chain, 13, 1, 1000, fanout=4, segsize=500)
    np.testing.assert_allclose(got, expected)


def test_a_chain_crosses_to_every_node_once() -> None:
    """Whole messages along 3 nodes of 4 processes: 2 hops between nodes and 9 within."""
    instances = Instances.of(3, 4, 0)
    network = NetworkParameters(Link(1.0, 0), Link(100.0, 0))
    cost = total_seconds(trees.pipeline(instances, {}), network)
    np.testing.assert_array_equal(cost, 209.0)


def test_distances_that_halve_leave_the_node_first() -> None:
    """4 nodes of 4: two rounds between nodes and two within, for either order of distances."""
    network = NetworkParameters(Link(1.0, 0), Link(100.0, 0))
    instances = Instances.of(4, 4, 0)
    for cost in (trees.binomial, trees.binomial_doubling):
        np.testing.assert_array_equal(total_seconds(cost(instances, {}), network), 202.0)


def test_a_node_size_that_is_no_power_of_two_makes_rounds_cross() -> None:
    """2 nodes of 6: only distance 1 stays on a node in every pair."""
    network = NetworkParameters(Link(1.0, 0), Link(100.0, 0))
    instances = Instances.of(2, 6, 0)
    cost = total_seconds(trees.binomial(instances, {}), network)
    np.testing.assert_array_equal(cost, 301.0)


def test_a_reduction_works_on_every_byte_received() -> None:
    """A binomial reduction of 8 processes adds 3 m gamma, with however many adapters."""
    network = NetworkParameters(Link(0, 0), Link(0, 0), reduction_s_per_byte=1.0)
    instances = Instances.of(4, 2, 10)
    terms = trees.reduction(trees.binomial)(instances, {})
    np.testing.assert_array_equal(total_seconds(terms, network), 30.0)
