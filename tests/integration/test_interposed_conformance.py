"""Collectives under libcolltune, compared with results that the test program computes itself.

COLLTUNE_TEST_CONFORMANCE=1 tries every configuration with 1 to 7 processes and all collectives.
"""

from __future__ import annotations

import os
import re

import pytest

from tests.integration import real_interposed
from tests.integration.real_interposed import Interposed

pytestmark = pytest.mark.mpi
SOURCES = ("conformance.c", "areas.c", "moves.c", "reductions.c")
_EAGER, _ADAPTIVE = "colltune.alltoallv.eager_pairwise", "colltune.alltoallv.adaptive"
ALLTOALLV = (
    *(f"{_EAGER}:threshold={number}" for number in (0, 40, 1000000)),
    f"{_ADAPTIVE}:every=2,start=0,tests=1",
)


@pytest.fixture(scope="module")
def mpi(tmp_path_factory: pytest.TempPathFactory) -> Interposed:
    """Return the MPI under test with the library."""
    return real_interposed.prepare(tmp_path_factory.mktemp("interposed"))


def _checks(mpi: Interposed, nprocs: int, *arguments: str, nodes: str = "") -> int:
    """Run the program and return how many checks held."""
    variables = {"COLLTUNE_NODES": nodes} if nodes else {}
    outcome = mpi.run(nprocs, [mpi.program(*SOURCES), *arguments], variables)
    assert outcome.ok, outcome.explain()
    found = re.search(r"^(\d+) checks held$", outcome.stdout, re.MULTILINE)
    assert found, outcome.explain()
    return int(found[1])


def test_alltoallv_delivers_right_data(mpi: Interposed) -> None:
    """At any threshold, and while it is adapted: all datatypes, in place, on all communicators."""
    assert _checks(mpi, 3, "ours", *ALLTOALLV) > 1000


@pytest.mark.skipif(
    not os.environ.get("COLLTUNE_TEST_CONFORMANCE"),
    reason="takes minutes; COLLTUNE_TEST_CONFORMANCE is not set",
)
@pytest.mark.parametrize("nprocs", range(1, 8))
def test_alltoallv_for_all_numbers_of_processes(mpi: Interposed, nprocs: int) -> None:
    """Also with 1, 2, 5 or 7 processes, and other collectives on the same communicators."""
    assert _checks(mpi, nprocs, "all", *ALLTOALLV) > 1000
