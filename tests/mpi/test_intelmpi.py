"""Intel MPI's configurations and the variables that force them."""

from __future__ import annotations

import pytest

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi import library

INTEL = library("intelmpi")


def algorithms(release: str, collective: Collective) -> list[str]:
    """Return the names of the algorithms to choose from."""
    return [c.algorithm for c in INTEL.portfolio(release, collective).configurations[1:]]


def test_the_release_of_the_paper_has_its_algorithms() -> None:
    """Hunold et al. counted 16, 5 and 12 algorithms in Intel MPI 2019."""
    counts = {c: len(algorithms("2019.9", c)) for c in (Collective.ALLREDUCE, Collective.ALLTOALL)}
    assert counts == {Collective.ALLREDUCE: 16, Collective.ALLTOALL: 5}
    assert len(algorithms("2019", Collective.BCAST)) == 12


@pytest.mark.parametrize(
    ("release", "presets"),
    [
        ("2021.6", (18, 27, 13)),
        ("2021.10.0", (18, 27, 13)),
        ("2021.11", (22, 31, 13)),
        ("2021.15.0", (22, 32, 13)),
        ("2021.17", (22, 32, 13)),
        ("2021.18.1", (22, 32, 18)),
        ("2021.19", (22, 32, 18)),
    ],
)
def test_each_release_has_its_own_presets(release: str, presets: tuple[int, ...]) -> None:
    """A number that a release does not have would run preset 1, so none is offered."""
    collectives = (Collective.BCAST, Collective.ALLREDUCE, Collective.ALLTOALL)
    assert tuple(len(algorithms(release, c)) for c in collectives) == presets


@pytest.mark.parametrize("release", ["2018.4", "2021.5", "2022.1", "5.1.3", "latest"])
def test_other_releases_are_refused(release: str) -> None:
    """Nothing is guessed from the numbers of another release."""
    with pytest.raises(LibraryError, match="supported"):
        INTEL.portfolio(release, Collective.BCAST)


def test_a_configuration_is_one_variable_of_a_launch() -> None:
    """Name and number of an algorithm are the same; other collectives are left alone."""
    for text in ("intelmpi.allreduce.shumilin_ring", "intelmpi.allreduce.7"):
        c = Configuration.parse(text)
        assert INTEL.canonical("2019.9", c).algorithm == "shumilin_ring"
        assert INTEL.forced_environment("2019.9", c) == {"I_MPI_ADJUST_ALLREDUCE": "7"}
        assert not INTEL.settable_at_runtime("2019.9", c)
        assert INTEL.force("2019.9", c) == {}
    with pytest.raises(LibraryError, match="has no allreduce algorithm '33'; known: preset1"):
        INTEL.forced_environment("2021.18.1", Configuration.parse("intelmpi.allreduce.33"))
    with pytest.raises(LibraryError, match="not of intelmpi"):
        INTEL.forced_environment("2021.6", Configuration.parse("mpich.bcast.binomial"))


def test_a_known_fall_back_is_not_measured() -> None:
    """Preset 2 of bcast runs preset 1 unless the processes are a power of two."""
    c = Configuration.parse("intelmpi.bcast.preset2")
    assert INTEL.feasible("2021.17", c, 8, 64)
    assert INTEL.why_not("2021.17", c, 6, 64) == (
        "preset2 needs a power of two of processes, not 6"
    )


def test_what_gives_wrong_results_is_not_offered() -> None:
    """Preset 5 of allgather takes all ranks to use one datatype."""
    assert "preset5" not in algorithms("2021.6", Collective.ALLGATHER)
    c = Configuration.parse("intelmpi.allgather.5")
    assert not INTEL.safe("2021.6", c, builtin_operations_only=True)
    assert "different types" in INTEL.why_not("2021.6", c, 4, 64)
