"""Costs of libcolltune's algorithms, against the formulas of the papers."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.domain import Configuration
from colltune.models.costs.breakdown import (
    Broadcast,
    BroadcastCost,
    Exchange,
    MultiAdapterAllgather,
)
from colltune.models.costs.families import configuration_amounts, family_of
from colltune.models.costs.network import Instances, Link, NetworkParameters, total_seconds

LINK = Link(10e-6, 1e-9)
EQUAL = NetworkParameters(LINK, LINK)


def _time_s(text: str, network: NetworkParameters, nodes: int, ppn: int, msize_bytes: int) -> float:
    instances = Instances.of(nodes, ppn, msize_bytes)
    amounts = configuration_amounts(Configuration.parse(text), instances)
    return float(total_seconds(amounts, network)[0])


def test_with_equal_links_it_is_the_papers_formula() -> None:
    """Eq. 1, 3 and 5, and sec. 3.3, come out for every number of groups."""
    for word, algorithm, segments in (
        ("flat", Broadcast.FLAT, 1),
        ("chain", Broadcast.LINEAR, 1),
        ("pipeline", Broadcast.PIPELINED, 16),
        ("binomial", Broadcast.BINOMIAL, 1),
        ("scatter_ring_allgather", Broadcast.SCATTER_RING_ALLGATHER, 1),
    ):
        printed = BroadcastCost(algorithm, 128, 65536, LINK, segments)
        for groups in (2, 8, 16, 64):
            text = f"colltune.bcast.hierarchical:groups={groups},inner={word},segsize=4096"
            found_s = _time_s(text, EQUAL, 128, 1, 65536)
            assert found_s == pytest.approx(printed.time_s(groups)), (word, groups)


def test_the_square_root_is_the_best_number_of_groups() -> None:
    """Without a number there are sqrt(p) groups, and no other number is faster (eq. 2, 4, 7)."""
    text = "colltune.bcast.hierarchical:groups={},inner=pipeline,segsize=4096"
    times_s = {g: _time_s(text.format(g), EQUAL, 64, 1, 65536) for g in (0, 1, 2, 4, 8, 16, 32)}
    assert times_s[0] == times_s[8] == min(times_s.values())


def test_groups_that_are_nodes_send_between_nodes_once() -> None:
    """With as many groups as nodes only the leaders pay for the network."""
    free_inside = NetworkParameters(Link(0.0, 0.0), LINK)
    text = "colltune.bcast.hierarchical:groups=8,inner=chain"
    alone = BroadcastCost(Broadcast.LINEAR, 8, 1000, LINK).flat_time_s
    assert _time_s(text, free_inside, 8, 4, 1000) == pytest.approx(alone)


@pytest.mark.parametrize("exchange", Exchange)
def test_the_allgathers_exchange_is_tran_et_als(exchange: Exchange) -> None:
    """Eq. 3 and 4: what leaders pay between nodes, when nothing else costs."""
    only_network = NetworkParameters(Link(0.0, 0.0), LINK)
    text = f"colltune.allgather.hierarchical:exchange={exchange},leaders=1"
    free = Link(0.0, 0.0)
    printed = MultiAdapterAllgather(8, 4, 1000, LINK, 1, free, free)
    assert _time_s(text, only_network, 8, 4, 1000) == pytest.approx(printed.exchange_s(exchange))


def test_several_leaders_share_the_exchange() -> None:
    """Four leaders send a quarter each, and are in each other's way on one adapter."""
    text = "colltune.{}:leaders={}"
    for algorithm in ("allgather.hierarchical", "allreduce.ring"):
        alone, four = (text.format(algorithm, n) for n in (1, 4))
        fast = NetworkParameters(Link(0.0, 0.0), LINK)
        jammed = NetworkParameters(Link(0.0, 0.0), LINK, contention=1.0)
        assert _time_s(four, fast, 8, 4, 1 << 20) < _time_s(alone, fast, 8, 4, 1 << 20) / 3
        assert _time_s(four, jammed, 8, 4, 1 << 20) == pytest.approx(
            _time_s(alone, jammed, 8, 4, 1 << 20)
        )


def test_on_a_node_both_allreduces_cost_the_same() -> None:
    """Ring and doubling reduce as much and copy as much there, in other orders."""
    network = NetworkParameters(LINK, LINK, reduction_s_per_byte=2e-9, copy_s_per_byte=1e-9)
    ring_s, doubling_s = (
        _time_s(f"colltune.allreduce.{name}", network, 1, 8, 1 << 20)
        for name in ("ring", "doubling")
    )
    assert ring_s == doubling_s > 2e-9 * (1 << 20) * 7 / 8


def test_the_threshold_chooses_between_at_once_and_in_turn() -> None:
    """Up to the threshold there is one latency, above it one per peer."""
    text = "colltune.alltoallv.eager_pairwise:threshold=1000"
    startup_only = NetworkParameters(Link(1.0, 0.0), Link(1.0, 0.0))
    assert _time_s(text, startup_only, 8, 1, 1000) == pytest.approx(1.0)
    assert _time_s(text, startup_only, 8, 1, 1001) == pytest.approx(7.0)
    never = "colltune.alltoallv.eager_pairwise:threshold=0"
    assert _time_s(never, startup_only, 8, 1, 1) == pytest.approx(7.0)


@pytest.mark.parametrize(
    "text", ["colltune.bcast.hierarchical:inner=library", "colltune.alltoallv.adaptive"]
)
def test_what_nobody_knows_is_generic(text: str) -> None:
    """The library's own algorithm in groups, and an adaptive one, have no formula."""
    assert family_of(Configuration.parse(text)).is_generic
    assert np.isfinite(_time_s(text, EQUAL, 4, 2, 1000))
