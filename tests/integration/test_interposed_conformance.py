"""Collectives under libcolltune, compared with results that the test program computes itself.

COLLTUNE_TEST_CONFORMANCE=1 tries every configuration with 1 to 7 processes and all collectives.
"""

from __future__ import annotations

import os
import re

import pytest

from tests.integration.real import Real

pytestmark = pytest.mark.mpi
SOURCES = tuple(f"{n}.c" for n in ("conformance", "areas", "moves", "reductions"))
_BCAST, _ALLGATHER = "colltune.bcast.hierarchical", "colltune.allgather.hierarchical"
_ALLREDUCE, _EAGER = "colltune.allreduce.ring", "colltune.alltoallv.eager_pairwise"
_DOUBLING = "colltune.allreduce.doubling"
_ADAPTIVE = "colltune.alltoallv.adaptive:every=2,start=0,tests=1"
FEW = (
    f"{_BCAST}:groups=2,inner=binomial,outer=scatter_ring_allgather,segsize=50",
    f"{_ALLGATHER}:leaders=2,chunk=500",
    f"{_ALLREDUCE}:leaders=2,chunk=500",
    f"{_EAGER}:threshold=40",
    _ADAPTIVE,
)
_FLAT = ("library", "flat", "chain", "pipeline", "binary", "binomial", "scatter_ring_allgather")
_EXCHANGES = ("ring", "recursive_doubling")
ALL = (
    *(f"{_BCAST}:groups={n},inner={word}" for n, word in enumerate(_FLAT)),
    *(f"{_BCAST}:groups=3,outer={word},segsize=64" for word in ("same", *_FLAT)),
    *(
        f"{algorithm}:exchange={exchange},leaders={leaders},chunk={chunk},overlap={overlap}"
        for algorithm in (_ALLGATHER, _ALLREDUCE)
        for exchange in _EXCHANGES
        for leaders, chunk, overlap in ((1, 0, "yes"), (2, 1000, "no"), (3, 333, "yes"))
    ),
    _DOUBLING,
    *(f"{_EAGER}:threshold={number}" for number in (0, 40, 1000000)),
    _ADAPTIVE,
)


def _checks(preloaded: Real, nprocs: int, *arguments: str, nodes: str = "") -> int:
    """Run the program and return how many checks held."""
    variables = {"COLLTUNE_NODES": nodes} if nodes else {}
    outcome = preloaded.run(nprocs, [preloaded.compiled(*SOURCES), *arguments], variables)
    assert outcome.ok, outcome.explain()
    found = re.search(r"^(\d+) checks held$", outcome.stdout, re.MULTILINE)
    assert found, outcome.explain()
    return int(found[1])


def test_our_algorithms_deliver_right_data(preloaded: Real) -> None:
    """All datatypes, reductions, roots and communicators, in place too, on uneven nodes."""
    assert _checks(preloaded, 3, "ours", *FEW, nodes="by-rank:2") > 5000


def test_doubling_delivers_right_data_on_a_node(preloaded: Real) -> None:
    """All reductions on communicators of 3 processes and fewer."""
    assert _checks(preloaded, 3, "ours", _DOUBLING) > 1000


@pytest.mark.skipif(
    not os.environ.get("COLLTUNE_TEST_CONFORMANCE"),
    reason="takes minutes; COLLTUNE_TEST_CONFORMANCE is not set",
)
@pytest.mark.parametrize("nprocs", range(1, 8))
def test_every_algorithm_with_all_numbers_of_processes(preloaded: Real, nprocs: int) -> None:
    """With all words and several numbers, on 1 to 7 processes, on uneven and on even nodes."""
    for at in range(0, len(ALL), 8):
        nodes = f"by-rank:{1 + (nprocs + at) % 3}"
        assert _checks(preloaded, nprocs, "ours", *ALL[at : at + 8], nodes=nodes) > 1000
