"""Names, limits and safety of Open MPI's configurations."""

from __future__ import annotations

import pytest

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi import library
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED
from colltune.mpi.running import Promises, Refusal
from tests.refusals import refused

OPENMPI = library("openmpi")
parse = Configuration.parse


def ids(release: str, collective: Collective, **grids: tuple[int, ...]) -> list[str]:
    """Return the ids of a portfolio, without the part that all share."""
    found = OPENMPI.at(release).portfolio(collective, **grids)
    return [c.id.removeprefix(f"openmpi.{collective}.") for c in found.configurations]


def test_a_portfolio_holds_the_default_and_every_combination() -> None:
    """Only parameters that an algorithm honours are varied."""
    assert ids("4.1.4", Collective.BCAST, segsizes_bytes=(0, 4096), fanouts=(2, 8)) == [
        "default",
        "basic_linear",
        "chain:fanout=2,segsize=0",
        "chain:fanout=2,segsize=4096",
        "chain:fanout=8,segsize=0",
        "chain:fanout=8,segsize=4096",
        "pipeline:segsize=0",
        "pipeline:segsize=4096",
        "split_binary_tree:segsize=0",
        "split_binary_tree:segsize=4096",
        "binary_tree:segsize=0",
        "binary_tree:segsize=4096",
        "binomial:segsize=0",
        "binomial:segsize=4096",
        "knomial:segsize=0",
        "knomial:segsize=4096",
        "scatter_allgather",
        "scatter_allgather_ring",
    ]


def test_known_wrong_and_empty_configurations_are_not_offered() -> None:
    """Sparbit, and a segmented ring without segments, are in no portfolio."""
    assert "sparbit" not in ids("5.0.11", Collective.ALLGATHER)
    assert ids("5.0.11", Collective.ALLREDUCE, segsizes_bytes=(0, 1024)) == [
        "default",
        "basic_linear",
        "nonoverlapping",
        "recursive_doubling",
        "ring",
        "segmented_ring:segsize=1024",
        "rabenseifner",
    ]


def test_there_is_one_spelling() -> None:
    """Aliases, missing and ignored parameters all end in the same configuration."""
    for given, wanted in (
        ("bcast.linear", "bcast.basic_linear"),
        ("bcast.binary:segsize=1024", "bcast.binary_tree:segsize=1024"),
        ("bcast.split_binary", "bcast.split_binary_tree:segsize=0"),
        ("bcast.chain", "bcast.chain:fanout=4,segsize=0"),
        ("bcast.scatter_allgather:segsize=8", "bcast.scatter_allgather"),
        ("allreduce.ring_segmented:segsize=64", "allreduce.segmented_ring:segsize=64"),
        ("reduce.in_order", "reduce.in-order_binary:segsize=0"),
        ("gather.linear_synch", "gather.linear_sync:segsize=0"),
        ("allgatherv.default", "allgatherv.default"),
    ):
        assert OPENMPI.at("4.1.8").canonical(parse(f"openmpi.{given}")).id == f"openmpi.{wanted}"


def test_the_unknown_is_refused_with_what_is_known() -> None:
    """An unknown algorithm, parameter or value is an error that helps."""
    for given, message in (
        ("openmpi.bcast.tree", "no-algorithm algorithm=tree"),
        ("openmpi.bcast.binomial:fanout=2", "no-parameter parameter=fanout known=segsize"),
        ("openmpi.alltoall.linear:radix=2", "no-parameter parameter=radix known=none"),
        ("openmpi.bcast.chain:fanout=33", "parameter-out-of-bounds name=fanout low=1 high=32"),
        ("openmpi.bcast.chain:segsize=-1", "parameter-out-of-bounds name=segsize low=0"),
        ("mpich.bcast.binomial", "of-another-library library=openmpi"),
        ("openmpi.allgather.sparbit", "no-algorithm algorithm=sparbit"),
    ):
        with refused(message, LibraryError):
            OPENMPI.at("4.1.8").canonical(parse(given))


def test_unsupported_releases_are_refused_with_the_reason() -> None:
    """A release whose rules file is not known to work is an error."""
    for release, message in (
        ("4.1.3", "release-unsupported"),
        ("4.0.7", "release-unsupported"),
        ("7.0.0", "release-unsupported"),
        ("5.1.0", "release-unsupported"),
        ("5.0", "not-a-release"),
    ):
        with refused(message, LibraryError):
            OPENMPI.at(release).portfolio(Collective.BCAST)


def test_a_suffix_of_the_release_does_not_matter() -> None:
    """Vendors' names of releases, such as 4.1.5a1, belong to their series."""
    assert OPENMPI.at("4.1.5a1").portfolio(Collective.SCAN).configurations == (
        parse("openmpi.scan.default"),
        parse("openmpi.scan.linear"),
        parse("openmpi.scan.recursive_doubling"),
    )


def test_limits_are_told_before_measuring() -> None:
    """Outside an algorithm's limits the reason names the limit and what would run instead."""
    for given, nprocs, msize_bytes, reason in (
        ("allgather.two_proc", 2, 0, ""),
        ("allgather.two_proc", 3, 0, "two_proc ends the program unless there are 2 processes"),
        ("allgather.neighbor", 5, 8, "neighbor needs an even number of processes, not 5"),
        ("allgather.recursive_doubling", 8, 8, ""),
        (
            "allgather.recursive_doubling",
            12,
            8,
            "recursive_doubling needs a power of two of processes, not 12",
        ),
        (
            "bcast.scatter_allgather",
            16,
            15,
            "scatter_allgather on 16 processes needs 16 bytes or more; basic_linear runs instead",
        ),
        ("bcast.scatter_allgather", 16, 16, ""),
        (
            "allreduce.segmented_ring:segsize=1024",
            4,
            4095,
            "segmented_ring on 4 processes needs 4096 bytes or more; ring runs instead",
        ),
        ("allreduce.segmented_ring:segsize=1024", 4, 4096, ""),
        ("allreduce.segmented_ring", 4, 4096, "segmented_ring needs a segment size above 0"),
        (
            "reduce.rabenseifner",
            7,
            3,
            "rabenseifner on 7 processes needs 4 bytes or more; linear runs instead",
        ),
        (
            "bcast.split_binary_tree:segsize=1024",
            4,
            2047,
            "split_binary_tree on 4 processes needs 2048 bytes or more; chain runs instead",
        ),
        ("bcast.default", 4, 0, ""),
        ("allgather.sparbit", 4, 8, "sparbit: in-place calls give wrong results"),
        (
            "reduce_scatter.non-overlapping",
            4,
            8,
            "non-overlapping: in-place calls change what lies behind a process's own block",
        ),
    ):
        configuration = parse(f"openmpi.{given}")
        assert OPENMPI.at("5.0.11").runs(configuration, nprocs).why_not(msize_bytes) == reason


def test_limits_count_elements() -> None:
    """A limit on the count of elements grows with their size."""
    configuration = parse("openmpi.bcast.scatter_allgather_ring")
    feasible = [
        not OPENMPI.at("4.1.8").runs(configuration, 4, Promises(element_bytes=8)).why_not(msize)
        for msize in (4, 31, 32)
    ]
    assert feasible == [False, False, True]


def test_what_runs_in_the_same_way_has_one_name() -> None:
    """Segments that hold the message and chains without processes make no difference."""
    for given, nprocs, msize_bytes, wanted in (
        ("bcast.chain:fanout=8,segsize=65536", 4, 1024, "bcast.chain:fanout=3,segsize=0"),
        ("bcast.chain:fanout=2,segsize=1024", 4, 1024, "bcast.chain:fanout=2,segsize=0"),
        ("bcast.chain:fanout=2,segsize=1024", 4, 1025, "bcast.chain:fanout=2,segsize=1024"),
        ("gather.linear_sync:segsize=1024", 4, 8, "gather.linear_sync:segsize=1024"),
        ("bcast.split_binary:segsize=64", 4, 8, "bcast.split_binary_tree:segsize=64"),
        ("bcast.default", 4, 8, "bcast.default"),
    ):
        effective = OPENMPI.at("5.0.11").effective(parse(f"openmpi.{given}"), nprocs, msize_bytes)
        assert effective.id == f"openmpi.{wanted}"


def test_what_needs_commuting_operations_is_unsafe_unless_they_all_do() -> None:
    """Exactly the algorithms found wrong with a non-commutative operation need the switch."""
    unsafe = {
        (c.collective.value, c.algorithm)
        for collective in Collective
        for c in OPENMPI.at("5.0.11").portfolio(collective, (1024,), (2,)).configurations
        if OPENMPI.at("5.0.11").runs(c, promises=Promises(ANY_LEGAL)).refusal
    }
    assert unsafe == {
        ("allreduce", "ring"),
        ("allreduce", "segmented_ring"),
        ("reduce", "chain"),
        ("reduce", "pipeline"),
        ("reduce", "binary"),
        ("reduce", "binomial"),
        ("reduce_scatter", "recursive_halving"),
        ("reduce_scatter", "ring"),
    }
    ring = parse("openmpi.allreduce.ring")
    assert not OPENMPI.at("5.0.11").runs(ring, promises=Promises(MOST_PROMISED)).refusal


def test_what_would_end_or_corrupt_programs_is_never_safe() -> None:
    """Two-process algorithms elsewhere and sparbit stay unsafe whatever the switch says."""
    two = parse("openmpi.barrier.two_proc")
    safe = [not OPENMPI.at("5.0.11").runs(two, n, Promises(MOST_PROMISED)).refusal for n in (2, 3)]
    assert safe == [True, False]
    sparbit = parse("openmpi.allgather.sparbit")
    assert OPENMPI.at("5.0.11").runs(sparbit, promises=Promises(MOST_PROMISED)).refusal


@pytest.mark.parametrize(
    ("what", "nprocs", "first_bytes", "refusal"),
    [
        ("allreduce.ring", 4, 32, None),
        ("bcast.binomial", 4, 0, None),
        ("bcast.no_such", 4, None, Refusal.UNKNOWN),
        ("bcast.binomial:segsize=-1", 4, None, Refusal.UNKNOWN),
        ("barrier.two_proc", 3, None, Refusal.HARMS_PROGRAMS),
        ("allgather.sparbit", 4, None, Refusal.HARMS_PROGRAMS),
        ("allgather.neighbor", 3, None, Refusal.NOT_AS_ITSELF),
        ("allreduce.default", 3, 0, None),
    ],
)
def test_one_question_tells_whether_from_when_on_and_why_not(
    what: str, nprocs: int, first_bytes: int | None, refusal: Refusal | None
) -> None:
    """Known, right for the programs, and running as itself, in this order."""
    runs = OPENMPI.at("5.0.11").runs(
        parse(f"openmpi.{what}"), nprocs, Promises(MOST_PROMISED, element_bytes=8)
    )
    assert (runs.first_bytes, runs.refusal) == (first_bytes, refusal)
    assert runs.reason or runs.first_bytes == 0


def test_a_radix_is_two_or_more_and_no_more_than_the_processes() -> None:
    """Open MPI 6 hangs with a radix of 0 or 1, so none is offered, written or made effective."""
    offered = OPENMPI.at("6.0.0").portfolio(Collective.ALLGATHER, fanouts=(1, 2, 4)).configurations
    assert [c.id for c in offered if c.algorithm.startswith("bruck")] == [
        "openmpi.allgather.bruck-k-fanout:fanout=2",
        "openmpi.allgather.bruck-k-fanout:fanout=4",
    ]
    with refused("parameter-out-of-bounds", LibraryError, name="fanout", low=2, high=32):
        OPENMPI.at("6.0.0").canonical(parse("openmpi.reduce.knomial:fanout=1"))
    for nprocs, radix in ((2, 2), (3, 3), (16, 8)):
        given = parse("openmpi.allgather.bruck:fanout=8")
        effective = OPENMPI.at("6.0.0").effective(given, nprocs, 64)
        assert effective == parse(f"openmpi.allgather.bruck-k-fanout:fanout={radix}")
