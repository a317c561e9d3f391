"""Intel MPI's configurations and the variables that force them."""

from __future__ import annotations

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi import library
from colltune.mpi.programs import MOST_PROMISED
from colltune.mpi.running import Promises
from tests.refusals import refused

INTEL = library("intelmpi")


def algorithms(release: str, collective: Collective) -> list[str]:
    """Return the names of the algorithms to choose from."""
    return [c.algorithm for c in INTEL.at(release).portfolio(collective).configurations[1:]]


def test_the_release_of_the_paper_has_its_algorithms() -> None:
    """Hunold et al. counted 16, 5 and 12 algorithms in Intel MPI 2019."""
    counts = {c: len(algorithms("2019.9", c)) for c in (Collective.ALLREDUCE, Collective.ALLTOALL)}
    assert counts == {Collective.ALLREDUCE: 16, Collective.ALLTOALL: 5}
    assert len(algorithms("2019", Collective.BCAST)) == 12


def test_each_release_has_its_own_presets() -> None:
    """A number that a release does not have would run preset 1, so none is offered or guessed."""
    for release, presets in {
        "2021.6": [18, 27, 13],
        "2021.10.0": [18, 27, 13],
        "2021.11": [22, 31, 13],
        "2021.15.0": [22, 32, 13],
        "2021.17": [22, 32, 13],
        "2021.18.1": [22, 32, 18],
        "2021.19": [22, 32, 18],
    }.items():
        collectives = (Collective.BCAST, Collective.ALLREDUCE, Collective.ALLTOALL)
        assert [len(algorithms(release, c)) for c in collectives] == presets, release
    for release in ("2018.4", "2021.5", "2022.1", "5.1.3", "latest"):
        with refused(
            "release-not-supported", LibraryError, supported="2019.x, 2021.6 and later 2021.x"
        ):
            INTEL.at(release)


def test_a_configuration_is_one_variable_of_a_launch() -> None:
    """Name and number of an algorithm are the same; other collectives are left alone."""
    for text in ("intelmpi.allreduce.shumilin_ring", "intelmpi.allreduce.7"):
        c = Configuration.parse(text)
        assert INTEL.at("2019.9").canonical(c).algorithm == "shumilin_ring"
        assert INTEL.at("2019.9").forced_environment(c) == {"I_MPI_ADJUST_ALLREDUCE": "7"}
        assert not INTEL.at("2019.9").settable_at_runtime(c)
        assert INTEL.at("2019.9").force(c) == {}
    with refused("no-algorithm", LibraryError):
        INTEL.at("2021.18.1").forced_environment(Configuration.parse("intelmpi.allreduce.33"))
    with refused("of-another-library", LibraryError, library="intelmpi"):
        INTEL.at("2021.6").forced_environment(Configuration.parse("mpich.bcast.binomial"))


def test_a_known_fall_back_is_not_measured() -> None:
    """Preset 2 of bcast runs preset 1 unless the processes are a power of two."""
    c = Configuration.parse("intelmpi.bcast.preset2")
    assert not INTEL.at("2021.17").runs(c, 8).why_not(64)
    assert INTEL.at("2021.17").runs(c, 6).why_not(64) == (
        "preset2 needs a power of two of processes, not 6"
    )


def test_what_gives_wrong_results_is_not_offered() -> None:
    """Preset 5 of allgather takes all ranks to use one datatype."""
    assert "preset5" not in algorithms("2021.6", Collective.ALLGATHER)
    c = Configuration.parse("intelmpi.allgather.5")
    assert INTEL.at("2021.6").runs(c, promises=Promises(MOST_PROMISED)).refusal
    assert "different types" in INTEL.at("2021.6").runs(c, 4).why_not(64)
