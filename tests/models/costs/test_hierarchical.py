"""Hasanov's hierarchical broadcasts."""

from __future__ import annotations

import math

import pytest

from colltune.domain import Collective, Configuration
from colltune.errors import DataError
from colltune.models.costs.breakdown import Broadcast, BroadcastCost
from colltune.models.costs.families import configuration_amounts
from colltune.models.costs.network import Instances, Link, NetworkParameters, total_seconds
from tests.refusals import refused

ALPHA_S, BETA_S = 3e-6, 1e-9


def cost(algorithm: Broadcast, p: int, m: int = 4096, segments: int = 1) -> BroadcastCost:
    """Return the cost on a machine of 3 us and 1 GB/s."""
    return BroadcastCost(algorithm, p, m, Link(ALPHA_S, BETA_S), segments)


_L17, _L24 = math.log2(17), math.log2(24)
_BY_HAND = {
    Broadcast.FLAT: ((15, 15), (8, 8)),
    Broadcast.LINEAR: ((15, 15), (8, 8)),
    Broadcast.PIPELINED: ((18, 18 / 4), (14, 14 / 4)),
    Broadcast.BINARY: ((2 * (_L17 - 1), 2 * (_L17 - 1)), (2 * _L24, 2 * _L24)),
    Broadcast.SPLIT_BINARY: ((2 * _L17 + 1, _L17 / 2 + 1 / 2), (2 * _L24 + 2, _L24 / 2 + 1)),
    Broadcast.BINOMIAL: ((4, 4), (_L24, _L24)),
    Broadcast.SCATTER_RING_ALLGATHER: ((19, 2 * 15 / 16), (_L24 + 8, 2 * (2 - 1 / 4 - 4 / 24))),
    Broadcast.SCATTER_RECURSIVE_DOUBLING_ALLGATHER: (
        (8, 2 * 15 / 16),
        (2 * _L24, 2 * (2 - 1 / 4 - 4 / 24)),
    ),
}


def test_costs_by_hand() -> None:
    """Startups and messages on the way, with 4 segments.

    Sec. 2.1 for 16 processes; eq. 1, 3, 5 and sec. 3.3, 3.5, 3.6 for 24 in 4 groups.
    """
    for algorithm, (flat, grouped) in _BY_HAND.items():
        found = [cost(algorithm, 16, segments=4).flat_time_s]
        found.append(cost(algorithm, 24, segments=4).time_s(4))
        expected = [starts * ALPHA_S + msgs * 4096 * BETA_S for starts, msgs in (flat, grouped)]
        assert found == pytest.approx(expected, rel=1e-12), algorithm


def test_one_level_is_the_flat_algorithm() -> None:
    """One group, and groups of one process, cost what the flat algorithm does."""
    for algorithm in Broadcast:
        for p in (1, 2, 12, 64):
            broadcast = cost(algorithm, p, segments=8)
            assert broadcast.time_s(1) == broadcast.time_s(p) == broadcast.flat_time_s


def test_root_of_p_is_best() -> None:
    """Eq. 2 and 4: the optimum of 64 processes is 8 groups, and it is a minimum."""
    for algorithm in (Broadcast.FLAT, Broadcast.LINEAR, Broadcast.PIPELINED):
        broadcast = cost(algorithm, 64, segments=4)
        best = broadcast.optimum()
        steps = {Broadcast.PIPELINED: 2 * 4 + 2 * 8 - 4}.get(algorithm, 2 * 8 - 2)
        size = 4096 / 4 if algorithm is Broadcast.PIPELINED else 4096
        assert best.groups == 8, algorithm
        expected_s = steps * (ALPHA_S + size * BETA_S)
        assert best.time_s == pytest.approx(expected_s, rel=1e-12), algorithm
        assert best.time_s < min(broadcast.time_s(4), broadcast.time_s(16)) < best.flat_time_s


def test_ring_pays_where_latency_counts() -> None:
    """Eq. 6 and 7: groups pay for scatter-ring-allgather if alpha / beta > 2 m / p only."""
    edge = int(ALPHA_S / BETA_S * 1024 / 2)
    small = cost(Broadcast.SCATTER_RING_ALLGATHER, 1024, edge // 2)
    best = small.optimum()
    eq7_s = (10 + 64 - 2) * ALPHA_S + 2 * (edge // 2) * (2 - 2 / 32) * BETA_S
    assert best.groups == 32
    assert best.time_s == pytest.approx(eq7_s, rel=1e-12)
    assert best.gain > 1
    assert "holds" in small.condition
    large = cost(Broadcast.SCATTER_RING_ALLGATHER, 1024, edge * 2)
    assert large.optimum().groups == 1
    assert large.time_s(32) > large.flat_time_s
    assert "does not hold" in large.condition


def test_more_processes_make_the_ring_pay() -> None:
    """Sec. 4.1: 2 MB that lose by groups on 2048 processes gain on 6142; 512 kB gain on both."""
    ratio = 2 * 2**21 / 4000
    costs = {
        (p, m): BroadcastCost(Broadcast.SCATTER_RING_ALLGATHER, p, m, Link(ratio * 1e-9, 1e-9))
        for p in (2048, 6142)
        for m in (2**19, 2**21)
    }
    gains = {key: broadcast.optimum().gain > 1 for key, broadcast in costs.items()}
    assert gains == {
        (2048, 2**19): True,
        (2048, 2**21): False,
        (6142, 2**19): True,
        (6142, 2**21): True,
    }
    assert costs[6142, 2**19].optimum().gain > costs[2048, 2**19].optimum().gain


def test_groups_never_pay() -> None:
    """Sec. 3.7: binary, binomial, split-binary and recursive-doubling ones are best as they are."""
    for algorithm in (
        Broadcast.BINARY,
        Broadcast.BINOMIAL,
        Broadcast.SPLIT_BINARY,
        Broadcast.SCATTER_RECURSIVE_DOUBLING_ALLGATHER,
    ):
        for m in (1, 2**20):
            broadcast = cost(algorithm, 256, m, segments=4)
            best, flat_s = broadcast.optimum(), broadcast.flat_time_s
            assert (best.groups, best.gain) == (1, 1.0), (algorithm, m)
            assert all(broadcast.time_s(g) >= flat_s * (1 - 1e-12) for g in (2, 16, 128))
            assert "never pay" in broadcast.condition, algorithm


def test_a_long_pipeline_gains_nothing() -> None:
    """With X beyond p - 2 sqrt(p) + 2 segments a second pipeline costs more than it saves."""
    assert cost(Broadcast.PIPELINED, 64, segments=49).optimum().groups == 8
    assert cost(Broadcast.PIPELINED, 64, segments=50).optimum().groups == 1


def test_optimum_among_divisors() -> None:
    """Only divisors can be used: 12 processes have their best at 3, a prime number at 1."""
    assert cost(Broadcast.FLAT, 12).possible_groups() == [1, 2, 3, 4, 6, 12]
    assert cost(Broadcast.FLAT, 12).optimum().groups == 3
    assert cost(Broadcast.FLAT, 13).optimum().groups == 1


def test_huge_and_tiny() -> None:
    """Any number of processes that MPI has and any message give a finite answer."""
    for p, m in ((2**31 - 1, 2**40), (2**30, 2**80), (1, 0)):
        for algorithm in Broadcast:
            best = cost(algorithm, p, m).optimum()
            assert math.isfinite(best.time_s), (algorithm, p, m)
            assert best.time_s <= best.flat_time_s, (algorithm, p, m)


def test_same_costs_as_those_that_are_fitted() -> None:
    """With one kind of link, the fitted cost functions say the same, flat and in two levels.

    Groups are the 4 nodes of 8 processes there.
    """
    link = Link(ALPHA_S, BETA_S)
    instances = Instances.of(4, 8, 4096)

    def fitted_s(name: str, segments: int) -> float:
        segsize = (("segsize", 4096 // segments),)
        configuration = Configuration("smpi", Collective.BCAST, name, segsize)
        amounts = configuration_amounts(configuration, instances)
        return float(total_seconds(amounts, NetworkParameters(link, link))[0])

    for algorithm, flat, grouped, segments in (
        (Broadcast.FLAT, "flattree", None, 1),
        (Broadcast.PIPELINED, "pipelined_chain", "SMP_linear", 4),
        (Broadcast.BINOMIAL, "binomial_tree", "SMP_binomial", 1),
        (Broadcast.SCATTER_RING_ALLGATHER, "scatter_LR_allgather", None, 1),
        (Broadcast.SCATTER_RECURSIVE_DOUBLING_ALLGATHER, "scatter_rdb_allgather", None, 1),
    ):
        printed = cost(algorithm, 32, segments=segments)
        assert fitted_s(flat, segments) == pytest.approx(printed.flat_time_s), flat
        if grouped:
            assert fitted_s(grouped, segments) == pytest.approx(printed.time_s(4)), grouped


def test_groups_that_do_not_divide() -> None:
    """A number of groups that does not divide the processes is refused, with those that do."""
    for groups in (0, -4, 5, 48):
        with refused(
            "groups-do-not-divide",
            DataError,
            nprocs=24,
            possible="1, 2, 3, 4, 6, 8, 12, 24",
        ):
            cost(Broadcast.FLAT, 24).time_s(groups)
