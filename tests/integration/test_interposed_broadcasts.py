"""Broadcasts in groups of libcolltune, on real MPIs."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune import process
from colltune.mpi.libcolltune import NATIVE
from tests.integration.real import HEADERS, Real

pytestmark = pytest.mark.mpi
WORDS = ("library", "flat", "chain", "pipeline", "binary", "binomial", "scatter_ring_allgather")
# groups that do not divide 5 processes, of one process, as many as processes, and more
IDS = (
    *(f"colltune.bcast.hierarchical:groups=2,inner={w},segsize=1000" for w in WORDS),
    *(f"colltune.bcast.hierarchical:groups=3,inner={w},outer=library" for w in WORDS),
    *(f"colltune.bcast.hierarchical:groups=2,inner=library,outer={w},segsize=9" for w in WORDS),
    *(f"colltune.bcast.hierarchical:groups=1,inner={w}" for w in WORDS),
    "colltune.bcast.hierarchical",
    "colltune.bcast.hierarchical:groups=5,inner=flat,outer=pipeline,segsize=64",
    "colltune.bcast.hierarchical:groups=4,inner=pipeline,outer=scatter_ring_allgather,segsize=1",
    "colltune.bcast.hierarchical:groups=1000,inner=flat,outer=chain",
)
WARNINGS = ("-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror")
NPROCS = {"openmpi": 5, "mpich": 3}


@pytest.fixture
def program(each: Real) -> Path:
    """Return the test program, compiled for that MPI."""
    return each.compiled("broadcasts.c")


def _lines(outcome: process.ProcessResult) -> list[str]:
    assert outcome.ok, outcome.explain()
    return outcome.stdout.splitlines()


def test_the_compiler_has_nothing_to_say(each: Real) -> None:
    """All of the library's sources are free of warnings under each MPI."""
    sources = sorted((NATIVE / "src").glob("*.c"))
    flags = (*WARNINGS, *HEADERS, "-fsyntax-only")
    command: list[str | Path] = [each.installation.mpicc, *flags, *sources]
    outcome = process.run(command, timeout_s=60.0, env=each.environment())
    assert outcome.ok, outcome.explain()


def test_broadcasts_deliver_as_the_library_does(each: Real, program: Path) -> None:
    """Whatever the groups, algorithms, roots, communicators and datatypes; errors come once.

    Buffers are compared byte by byte with those of the MPI library's broadcast, gaps of datatypes
    included. Communicators come and go, one stays until the end.
    """
    nprocs = NPROCS[each.installation.library]
    outcome = each.run(nprocs, [program, "check", "2", "20", *IDS])
    lives, errors = 5 * nprocs, 3 * nprocs + 3
    cases = 2 * 4 * len(IDS) * nprocs
    assert _lines(outcome) == [f"{cases + lives + errors} right, 0 wrong"]
    assert outcome.stderr == ""


def test_messages_are_those_of_the_algorithm(each: Real, program: Path) -> None:
    """Five processes send, root 1 first, what each algorithm has them send."""
    wanted = {
        "groups=1,inner=flat": "0 4 0 0 0",
        "groups=1,inner=chain": "0 1 1 1 1",
        # the size, then five segments
        "groups=1,inner=pipeline,segsize=1000": "0 6 6 6 6",
        "groups=1,inner=binary": "0 2 2 0 0",
        "groups=1,inner=binomial": "0 3 0 1 0",
        # three messages of the scatter at the root, one at number 2; four round the ring
        "groups=1,inner=scatter_ring_allgather": "4 7 4 5 4",
        # ranks 0 1 2 and 3 4: the root sends to 3, then to 0 and 2
        "groups=2,inner=flat": "0 3 0 1 0",
        "groups=2,inner=chain": "0 2 1 1 0",
        "groups=2,inner=library,outer=flat": "0 1 0 0 0",
        "groups=0,inner=flat": "0 3 0 1 0",
        "groups=5,inner=flat,outer=chain": "0 1 1 1 1",
    }
    ids = {f"colltune.bcast.hierarchical:{p}": counts for p, counts in wanted.items()}
    outcome = each.run(5, [program, "messages", *ids])
    assert dict(line.split(": ") for line in _lines(outcome)[:-1]) == ids


def test_an_error_ends_the_job_as_ever(each: Real, program: Path) -> None:
    """A message that is too long for its buffer aborts, since nobody asked for anything else."""
    chain = "colltune.bcast.hierarchical:groups=1,inner=chain"
    outcome = each.run(2, [program, "truncated", chain])
    assert not outcome.ok
    assert "truncate" in outcome.stderr.lower()


def test_what_cannot_be_forced_changes_nothing(each: Real, program: Path) -> None:
    """One line tells why, and the MPI library broadcasts."""
    wrong = "colltune.bcast.hierarchical:inner=telepathic"
    outcome = each.run(2, [program, "messages", ""], {"COLLTUNE_FORCE": wrong})
    assert _lines(outcome) == [": 0 0", "0 right, 0 wrong"]
    assert outcome.stderr.splitlines() == [
        f"colltune: {wrong} cannot be forced: inner=telepathic is out of range"
    ]
