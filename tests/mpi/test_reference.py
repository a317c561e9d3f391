"""What is told of a collective: words and numbers of the catalogues, nothing else."""

from __future__ import annotations

import pytest

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi import library
from colltune.mpi.catalogue import Limit, sizes
from colltune.mpi.formats import FORMATS
from colltune.mpi.reference import (
    REFERENCES,
    AlgorithmFacts,
    Condition,
    Parameter,
    collective_named,
    needs,
    similar,
)

OPENMPI = REFERENCES["openmpi"]
EVERY = [
    (name, series, collective)
    for name, reference in REFERENCES.items()
    for series in reference.series
    for collective in reference.at(series)[1].collectives
]


def test_an_algorithm_is_told_with_its_parameters_and_limits() -> None:
    """Defaults, ranges, variables, limits and what happens outside of them stand together."""
    facts = OPENMPI.facts("5.0.8", Collective.ALLREDUCE)
    assert facts.algorithms[4] == AlgorithmFacts(
        number=5,
        name="segmented_ring",
        value="",
        aliases=("ring_segmented",),
        parameters=(
            Parameter("segsize", 0, 0, 2**31 - 1, "coll_tuned_allreduce_algorithm_segmentsize"),
        ),
        settings={},
        conditions=(
            Condition(
                Limit.COMMUTATIVE, "a commutative operation", "wrong numbers, without a word"
            ),
            Condition(
                Limit.SEGMENT_PER_PROCESS,
                "a message of a segment per process or more",
                "ring runs",
            ),
            Condition(Limit.SEGMENTED, "a segment size above 0", "ring runs"),
        ),
        wrong="",
        symbol="ompi_coll_base_allreduce_intra_ring_segmented",
    )


def test_han_decides_across_nodes_only_where_it_outranks_tuned() -> None:
    """5.0 leaves a bcast across nodes to coll/han, 4.1 does not, and 5.0 no alltoall."""
    assert "han" in OPENMPI.facts("5.0.8", Collective.BCAST).across_nodes
    assert "han" not in OPENMPI.facts("5.0.8", Collective.BCAST).one_node
    assert "han" not in OPENMPI.facts("5.0.8", Collective.ALLTOALL).across_nodes
    assert "han" not in OPENMPI.facts("4.1.8", Collective.BCAST).across_nodes


def test_mpich_checks_most_limits_but_not_all() -> None:
    """It decides itself where a reduction does not commute, and ends for unequal counts."""
    facts = REFERENCES["mpich"].facts("4.3.2", Collective.REDUCE_SCATTER)
    otherwise = {a.name: {c.otherwise for c in a.conditions} for a in facts.algorithms}
    assert otherwise["noncommutative"] == {"the program ends"}
    assert otherwise["pairwise"] == {"MPICH decides (what a JSON file chooses is not checked)"}


def test_mpichs_device_splits_some_collectives() -> None:
    """Across nodes the device takes a bcast apart, but no scan."""
    mpich = REFERENCES["mpich"]
    assert "splits" in mpich.facts("4.0.2", Collective.BCAST).across_nodes
    assert "splits" not in mpich.facts("4.0.2", Collective.SCAN).across_nodes


@pytest.mark.parametrize(("name", "series", "collective"), EVERY)
def test_everything_can_be_told(name: str, series: str, collective: Collective) -> None:
    """Every collective of every catalogue has words for its limits, sizes and its example."""
    reference = REFERENCES[name]
    release, found = reference.at(series)
    facts = reference.facts(release, collective)
    limits = [c.limit for a in facts.algorithms for c in a.conditions]
    assert all(needs(limit) != limit.replace("_", " ") for limit in limits)
    assert facts.sizes
    assert any(variable.endswith(facts.variable) for variable in facts.forced)
    assert len(facts.algorithms) == len(found.collectives[collective].algorithms)
    example = Configuration.parse(facts.example)
    assert facts.forced == library(name).forced_environment(release, example)
    for algorithm in facts.algorithms:
        for parameter in algorithm.parameters:
            assert parameter.low <= parameter.default <= parameter.high


def test_the_example_runs_wherever_it_is_called() -> None:
    """The algorithm that is forced as an example has no limits, where there is such a one."""
    assert OPENMPI.facts("5.0.8", Collective.ALLTOALL).example == "openmpi.alltoall.linear_sync"
    assert OPENMPI.facts("5.0.8", Collective.BCAST).example.startswith("openmpi.bcast.knomial")


def test_formats_that_a_release_cannot_read_are_not_told() -> None:
    """Formats with sizes are told to the releases that read them, and one choice has no sizes."""
    for known in FORMATS.values():
        if not known.single_algorithm:
            assert set(sizes.compared()) >= {known.name}
        reference = REFERENCES[known.library]
        for series in reference.series:
            release = reference.at(series)[0]
            told = known.name in reference.facts(release, Collective.BCAST).sizes
            assert told == (not known.unreadable_by(release)), (known.name, release)


def test_han_has_rules_for_alltoall_from_6_on() -> None:
    """A han file of 5.0 cannot say anything about alltoall."""
    for release, words in (("5.0.8", "no rules"), ("6.0.0", "bytes for one process")):
        assert words in OPENMPI.facts(release, Collective.ALLTOALL).sizes["openmpi-han"]


def test_a_release_may_be_left_out_or_be_a_series() -> None:
    """Without a release the newest series is meant; a series stands for its first release."""
    newest = OPENMPI.series[-1]
    assert OPENMPI.at(None) == OPENMPI.at(newest)
    assert OPENMPI.at("4.1")[0] == "4.1.4"
    assert OPENMPI.at("4.1.8")[0] == "4.1.8"


@pytest.mark.parametrize("release", ["3.1.4", "five", "4.1.0"])
def test_unknown_releases_are_told_with_the_known_ones(release: str) -> None:
    """The error lists the series in the way in which they can be asked for."""
    with pytest.raises(LibraryError, match=r"openmpi@4\.1, openmpi@5\.0"):
        OPENMPI.at(release)


def test_a_collective_that_cannot_be_chosen_is_told_with_those_that_can() -> None:
    """A collective that a release has no algorithms for is an error that lists the others."""
    without = [
        (reference, series, collective)
        for reference in REFERENCES.values()
        for series in reference.series
        for collective in set(Collective) - set(reference.at(series)[1].collectives)
    ]
    for reference, series, collective in without:
        with pytest.raises(LibraryError, match="it has them for "):
            reference.facts(reference.at(series)[0], collective)


def test_names_are_taken_as_mpi_spells_them_or_nearly() -> None:
    """MPI_Bcast is bcast; a slip of the pen is told with what was meant."""
    assert collective_named("MPI_Bcast") is Collective.BCAST
    with pytest.raises(LibraryError, match=r"did you mean bcast\?"):
        collective_named("MPI_Bcats")
    assert similar("zzz", Collective) == ""
