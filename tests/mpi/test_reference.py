"""What is told of a collective: words and numbers of the catalogues, nothing else."""

from __future__ import annotations

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.catalogue import Limit, compared_sizes
from colltune.mpi.formats import FORMATS
from colltune.mpi.reference import (
    AlgorithmFacts,
    AlgorithmParameter,
    Requirement,
    collective_named,
    facts,
    release_of,
    similar,
)
from tests.refusals import refused

OPENMPI = LIBRARIES["openmpi"]
SERIES = [release_of(mpi, series) for mpi in LIBRARIES.values() for series in mpi.series]


def test_an_algorithm_is_told_with_its_parameters_and_limits() -> None:
    """Defaults, ranges, variables, limits and what happens outside of them stand together."""
    known = facts(OPENMPI.at("5.0.8"), Collective.ALLREDUCE)
    assert known.algorithms[4] == AlgorithmFacts(
        number=5,
        name="segmented_ring",
        value="",
        aliases=("ring_segmented",),
        parameters=(
            AlgorithmParameter(
                "segsize", 0, 0, 2**31 - 1, "coll_tuned_allreduce_algorithm_segmentsize"
            ),
        ),
        settings={},
        conditions=(
            Requirement(
                Limit.COMMUTATIVE, "a commutative operation", "wrong numbers, without a message"
            ),
            Requirement(
                Limit.SEGMENT_PER_PROCESS,
                "a message of a segment per process or more",
                "ring runs",
            ),
            Requirement(Limit.SEGMENTED, "a segment size above 0", "ring runs"),
        ),
        wrong="",
        symbol="ompi_coll_base_allreduce_intra_ring_segmented",
    )


def test_han_decides_across_nodes_only_where_it_outranks_tuned() -> None:
    """5.0 leaves a bcast across nodes to coll/han, 4.1 does not, and 5.0 no alltoall."""
    assert "han" in facts(OPENMPI.at("5.0.8"), Collective.BCAST).across_nodes
    assert "han" not in facts(OPENMPI.at("5.0.8"), Collective.BCAST).one_node
    assert "han" not in facts(OPENMPI.at("5.0.8"), Collective.ALLTOALL).across_nodes
    assert "han" not in facts(OPENMPI.at("4.1.8"), Collective.BCAST).across_nodes


def test_mpich_checks_most_limits_but_not_all() -> None:
    """It decides itself where a reduction does not commute, and ends for unequal counts."""
    known = facts(LIBRARIES["mpich"].at("4.3.2"), Collective.REDUCE_SCATTER)
    otherwise = {a.name: {c.otherwise for c in a.conditions} for a in known.algorithms}
    assert otherwise["noncommutative"] == {"the program ends"}
    assert otherwise["pairwise"] == {"MPICH decides (the choice of a JSON file is not checked)"}


def test_mpichs_device_splits_some_collectives() -> None:
    """Across nodes the device takes a bcast apart, but no scan."""
    mpich = LIBRARIES["mpich"]
    assert "splits" in facts(mpich.at("4.0.2"), Collective.BCAST).across_nodes
    assert "splits" not in facts(mpich.at("4.0.2"), Collective.SCAN).across_nodes


def test_everything_can_be_told() -> None:
    """Every collective of every catalogue has words for its limits, sizes and its example."""
    for release in SERIES:
        for collective, entry in release.catalogue.collectives.items():
            case = (release.mpi.name, release.name, collective)
            known = facts(release, collective)
            assert all(c.needs for a in known.algorithms for c in a.conditions), case
            assert known.sizes, case
            assert any(variable.endswith(known.variable) for variable in known.forced), case
            assert len(known.algorithms) == len(entry.algorithms), case
            example = Configuration.parse(known.example)
            assert known.forced == release.forced_environment(example), case
            for algorithm in known.algorithms:
                for parameter in algorithm.parameters:
                    assert parameter.low <= parameter.default <= parameter.high, case


def test_the_example_runs_wherever_it_is_called() -> None:
    """The algorithm that is forced as an example has no limits, where there is such a one."""
    assert facts(OPENMPI.at("5.0.8"), Collective.ALLTOALL).example == "openmpi.alltoall.linear_sync"
    assert facts(OPENMPI.at("5.0.8"), Collective.BCAST).example.startswith("openmpi.bcast.knomial")


def test_formats_that_a_release_cannot_read_are_not_told() -> None:
    """Formats with sizes are told to the releases that read them, and one choice has no sizes."""
    for known in FORMATS.values():
        if not known.single_algorithm:
            assert set(compared_sizes()) >= {known.name}
        for release in (r for r in SERIES if r.mpi.name == known.library):
            told = known.name in facts(release, Collective.BCAST).sizes
            assert told == (not known.unreadable_by(release.name)), (known.name, release.name)


def test_han_has_rules_for_alltoall_from_6_on() -> None:
    """A han file of 5.0 cannot say anything about alltoall."""
    for release, words in (("5.0.8", "no rules"), ("6.0.0", "bytes for one process")):
        assert words in facts(OPENMPI.at(release), Collective.ALLTOALL).sizes["openmpi-han"]


def test_a_release_may_be_left_out_or_be_a_series() -> None:
    """Without a release the newest series is meant; a series stands for its first release."""
    newest = OPENMPI.series[-1]
    assert release_of(OPENMPI, None) is release_of(OPENMPI, newest)
    assert release_of(OPENMPI, "4.1").name == "4.1.4"
    assert release_of(OPENMPI, "4.1.8").name == "4.1.8"


def test_unknown_releases_are_told_with_the_known_ones() -> None:
    """The error lists the series in the way in which they can be asked for."""
    for release in ("3.1.4", "five", "4.1.0"):
        with refused("unknown-release", LibraryError):
            release_of(OPENMPI, release)


def test_a_collective_that_cannot_be_chosen_is_told_with_those_that_can() -> None:
    """A collective that a release has no algorithms for is an error that lists the others."""
    for release in SERIES:
        for collective in set(Collective) - set(release.catalogue.collectives):
            with refused("no-choice-of-algorithms", LibraryError):
                facts(release, collective)


def test_names_are_taken_as_mpi_spells_them_or_nearly() -> None:
    """MPI_Bcast is bcast; a slip of the pen is told with what was meant."""
    assert collective_named("MPI_Bcast") is Collective.BCAST
    with refused("unknown-algorithm", LibraryError):
        collective_named("MPI_Bcats")
    assert similar("zzz", Collective) == ""
