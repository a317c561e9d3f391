"""Datatypes, operations and large counts under libcolltune: what MPI takes, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from colltune import process
from colltune.dataset.profile import read_profiles
from tests.integration.real import Real

pytestmark = pytest.mark.mpi
FORCED = {
    "COLLTUNE_NODES": "by-rank:2",
    "COLLTUNE_FORCE": "colltune.bcast.hierarchical:groups=2,inner=pipeline;"
    "colltune.allgather.hierarchical:leaders=2;colltune.allreduce.ring;"
    "colltune.alltoallv.eager_pairwise",
}


GATHER = """colltune-rules 1
configuration c mpich.gather.binomial MPIR_CVAR_GATHER_INTRA_ALGORITHM=binomial
start gather c
"""


@pytest.mark.parametrize("how", ["recorded", "forced", "steered"])
def test_objects_of_all_kinds_fare_as_without_the_library(
    each: Real, tmp_path: Path, how: str
) -> None:
    """Types made with large counts work; wrong ones are told once, to the right handler."""
    program = each.compiled("objects.c")
    (tmp_path / "rules").write_text(GATHER)
    settings = {
        "recorded": {"COLLTUNE_PROFILE": str(tmp_path)},
        "forced": FORCED,
        "steered": {"COLLTUNE_RULES": str(tmp_path / "rules")},
    }
    without = each.run(3, [program], preload="")
    ours = each.run(3, [program], settings[how])
    process.check(ours, "the calls")
    assert "0 errors went elsewhere" in ours.stdout
    assert "WRONG" not in ours.stdout
    assert ours.stdout == without.stdout


WITH_COUNTS = (
    *("allgather", "allgatherv", "alltoall", "alltoallv", "gather", "scatter", "bcast"),
    *("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"),
)


@pytest.fixture
def counting(each: Real) -> Path:
    """Return the program that calls functions of large counts, of an MPI that has them."""
    program = each.compiled("large_counts.c")
    if each.run(1, [program], preload="").stdout == "before MPI 4\n":
        pytest.skip(f"{each.installation.mpirun} has no functions of large counts")
    return program


def test_functions_of_large_counts_are_recorded(each: Real, counting: Path, tmp_path: Path) -> None:
    """Each stands in the profile with its bytes, and elements without data with none."""
    ours = each.run(3, [counting], {"COLLTUNE_PROFILE": str(tmp_path / "profile")})
    process.check(ours, "the calls")
    used = read_profiles([tmp_path / "profile"]).uses
    found = {(use.kind.collective.value, use.msize_bytes): use.operations for use in used}
    expected = {(collective, 4000): 1 for collective in WITH_COUNTS}
    del expected["reduce_scatter", 4000]
    empty = {("bcast", 0): 1, ("allgather", 0): 1}
    assert found == expected | empty | {("reduce_scatter", 12000): 1}


def test_functions_of_large_counts_run_what_is_chosen(each: Real, counting: Path) -> None:
    """Our own algorithms run them, but for alltoallv, of which others may have larger counts."""
    ours = each.run(3, [counting], FORCED)
    process.check(ours, "the calls")
    ran = dict(line.split(": ") for line in ours.stdout.splitlines() if ": " in line)
    own = {"allgather", "allreduce", "bcast"}
    assert {name for name, ran_by in ran.items() if ran_by.startswith("colltune.")} == own
    assert ran.keys() == set(WITH_COUNTS)


def test_functions_of_large_counts_are_steered(each: Real, counting: Path, tmp_path: Path) -> None:
    """A rule that names an algorithm of MPICH holds for them, too."""
    rules = tmp_path / "rules"
    rules.write_text(
        "colltune-rules 1\n"
        "configuration c mpich.alltoallv.scattered MPIR_CVAR_ALLTOALLV_INTRA_ALGORITHM=scattered\n"
        "start alltoallv c\n"
    )
    ours = each.run(3, [counting], {"COLLTUNE_RULES": str(rules)})
    process.check(ours, "the calls")
    assert "alltoallv: mpich.alltoallv.scattered" in ours.stdout


def test_more_bytes_than_an_int_holds_are_counted(
    each: Real, counting: Path, tmp_path: Path
) -> None:
    """2 GiB and a bit, counted otherwise on each process, go to the MPI library; on request."""
    if not os.environ.get("COLLTUNE_TEST_CONFORMANCE"):
        pytest.skip("takes 5 GiB of memory; COLLTUNE_TEST_CONFORMANCE is not set")
    wanted = FORCED | {"COLLTUNE_PROFILE": str(tmp_path / "profile")}
    ours = each.run(2, [counting, "huge"], wanted)
    process.check(ours, "the call")
    assert "bcast: library" in ours.stdout
    (use,) = read_profiles([tmp_path / "profile"]).uses
    assert use.msize_bytes == 2**31 + 4096
