"""Datatypes and operations of users under libcolltune: what MPI takes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune import process
from tests.integration import preloaded
from tests.integration.preloaded import Preloaded

pytestmark = pytest.mark.mpi
PROGRAMS = Path(__file__).with_name("interposed")
FORCED = {
    "COLLTUNE_NODES": "by-rank:2",
    "COLLTUNE_FORCE": "colltune.bcast.hierarchical:groups=2,inner=pipeline;"
    "colltune.allgather.hierarchical:leaders=2;colltune.allreduce.ring;"
    "colltune.alltoallv.eager_pairwise",
}


@pytest.fixture(scope="module", params=preloaded.LIBRARIES)
def mpi(request: pytest.FixtureRequest) -> Preloaded:
    """Return each MPI of this machine with libcolltune."""
    return preloaded.prepared(request.param)


@pytest.mark.parametrize("how", ["recorded", "forced"])
def test_objects_of_all_kinds_fare_as_without_the_library(
    mpi: Preloaded, tmp_path: Path, how: str
) -> None:
    """Types made with large counts work; wrong ones are told once, to the right handler."""
    program = mpi.compiled(PROGRAMS / "objects.c", tmp_path)
    without = mpi.run(3, [program], preload=False)
    ours = mpi.run(3, [program], FORCED if how == "forced" else {"COLLTUNE_PROFILE": str(tmp_path)})
    process.check(ours, "the calls")
    assert "0 errors went elsewhere" in ours.stdout
    assert "WRONG" not in ours.stdout
    assert ours.stdout == without.stdout
