"""MPICH's configurations and control variables."""

from __future__ import annotations

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi import library
from colltune.mpi.in_effect import of_environment
from colltune.mpi.programs import ANY_LEGAL
from colltune.mpi.running import Promises
from tests.refusals import refused

MPICH = library("mpich")
RELEASES = ("4.0.2", "4.1.3", "4.2.3", "4.3.2", "5.0.2")


def parsed(text: str) -> Configuration:
    """Return a configuration of MPICH."""
    return Configuration.parse(f"mpich.{text}")


def test_all_releases_of_known_series_are_supported() -> None:
    """Later releases and candidates have a series' algorithms; of others the known are told."""
    for release in ("4.0", "4.1a1", "4.2.3", "v4.3.0rc2", "5.0.0", "5.0.99"):
        assert set(MPICH.catalogue_of(release).collectives) == set(Collective), release
    for release in ("3.4.3", "5.1.0", "6.0.0", "main"):
        with refused("release-not-supported", LibraryError):
            MPICH.at(release)


def test_a_configuration_is_forced_by_number_and_by_name() -> None:
    """Within a program by numbers, for a launch by names; the device's collectives are off."""
    c = parsed("bcast.pipelined_tree_kary:fanout=4,segsize=1024")
    parameters = {
        "MPIR_CVAR_BCAST_TREE_KVAL": 4,
        "MPIR_CVAR_BCAST_TREE_PIPELINE_CHUNK_SIZE": 1024,
        "MPIR_CVAR_BCAST_DEVICE_COLLECTIVE": 0,
    }
    assert MPICH.at("5.0.2").force(c) == parameters | {
        "MPIR_CVAR_BCAST_INTRA_ALGORITHM": 6,
        "MPIR_CVAR_COLLECTIVE_FALLBACK": 0,
    }
    assert MPICH.at("5.0.2").forced_environment(c) == {
        name: str(value) for name, value in parameters.items()
    } | {"MPIR_CVAR_BCAST_INTRA_ALGORITHM": "pipelined_tree"}


def test_numbers_differ_by_release() -> None:
    """The same algorithm of allreduce has another number from 4.3 on."""
    c = parsed("allreduce.ring")
    name = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
    numbers = {release: MPICH.at(release).force(c)[name] for release in RELEASES[1:]}
    assert numbers == {"4.1.3": 7, "4.2.3": 7, "4.3.2": 8, "5.0.2": 8}
    with refused("no-algorithm", LibraryError, library="MPICH 4.0.2"):
        MPICH.at("4.0.2").force(c)


def test_types_of_trees_need_a_launch_of_their_own() -> None:
    """The type is a text that MPICH reads once; the default's type needs none."""
    for c, settable in (
        ("bcast.tree_kary:fanout=2", True),
        ("bcast.tree_knomial_1:fanout=2", False),
        ("bcast.pipelined_chain:segsize=1024", True),
        ("allreduce.tree_knomial_1:fanout=2,segsize=0", True),
        ("allreduce.tree_kary:fanout=2", False),
        ("allreduce.default", True),
    ):
        assert MPICH.at("5.0.2").settable_at_runtime(parsed(c)) is settable
    environment = MPICH.at("5.0.2").forced_environment(parsed("bcast.tree_knomial_1:fanout=2"))
    assert environment["MPIR_CVAR_BCAST_TREE_TYPE"] == "knomial_1"


def test_what_makes_no_difference_is_reduced() -> None:
    """A radix above the processes, and chunks above the message, are the same as smaller ones."""
    tree, pipelined = "allreduce.tree_knomial_1:fanout=2", "bcast.pipelined_tree_kary:fanout=2"
    for given, nprocs, msize_bytes, wanted in (
        ("bcast.tree_kary:fanout=8", 4, 64, "bcast.tree_kary:fanout=3"),
        ("bcast.tree_kary:fanout=8", 2, 64, "bcast.tree_kary:fanout=2"),
        ("bcast.tree", 8, 64, "bcast.tree_kary:fanout=2"),
        ("allreduce.recexch:fanout=8", 4, 64, "allreduce.recexch:fanout=4"),
        (f"{tree},segsize=1024", 4, 1024, f"{tree},segsize=0"),
        (f"{pipelined},segsize=1024", 4, 1500, f"{pipelined},segsize=1024"),
    ):
        found = MPICH.at("5.0.2").effective(parsed(given), nprocs, msize_bytes)
        assert found == parsed(wanted), given


def test_what_does_not_run_as_itself_is_explained() -> None:
    """The reason names the algorithm and what it needs."""
    pipelined = "bcast.pipelined_tree_kary:fanout=2,segsize=1024"
    for configuration, nprocs, msize_bytes, why in (
        ("allgather.recursive_doubling", 6, 64, "needs a power of two of processes, not 6"),
        ("allreduce.reduce_scatter_allgather", 6, 3, "on 6 processes needs 4 bytes or more"),
        (pipelined, 4, 2047, "needs 2048 bytes or more; tree_kary runs instead"),
        ("bcast.smp", 4, 64, "smp: the library picks the algorithms of its parts itself"),
        ("alltoall.pairwise_sendrecv_replace", 4, 64, "for in-place calls only"),
        ("reduce_scatter.noncommutative", 6, 64, "needs a power of two of processes"),
    ):
        assert why in MPICH.at("5.0.2").runs(parsed(configuration), nprocs).why_not(msize_bytes)


def test_only_what_the_library_does_not_check_is_unsafe() -> None:
    """Blocks of different sizes end a program under one algorithm; MPICH checks other limits."""
    unsafe = {
        c.id
        for collective in Collective
        for c in MPICH.at("5.0.2").portfolio(collective).configurations
        if MPICH.at("5.0.2").runs(c, promises=Promises(ANY_LEGAL)).refusal
    }
    assert unsafe == {"mpich.reduce_scatter.noncommutative"}


def test_unknown_parameters_and_values_are_refused() -> None:
    """A radix of 1 would never end."""
    with refused("parameter-out-of-bounds", LibraryError, name="fanout", low=2):
        MPICH.at("5.0.2").canonical(parsed("allreduce.recexch:fanout=1"))
    with refused("no-parameter", LibraryError, parameter="fanout"):
        MPICH.at("5.0.2").canonical(parsed("bcast.binomial:fanout=2"))
    with refused("of-another-library", LibraryError, library="mpich"):
        MPICH.at("5.0.2").force(Configuration.parse("openmpi.bcast.binomial"))
    fanouts = MPICH.at("5.0.2").portfolio(Collective.BARRIER, fanouts=(1, 2))
    assert [c.parameter_text for c in fanouts.configurations] == ["", "fanout=2", "fanout=2"]


OURS = {
    "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": "/site/job.json",
    "MPIR_CVAR_BCAST_DEVICE_COLLECTIVE": "0",
}


def test_what_the_user_decides_withholds_everything() -> None:
    """A variable of the user that decides on algorithms, by any prefix, is named and wins."""
    for name, value in (
        ("MPIR_CVAR_BCAST_INTRA_ALGORITHM", "binomial"),
        ("MPICH_ALLREDUCE_INTRA_ALGORITHM", "ring"),
        ("MPIR_PARAM_COLL_SELECTION_TUNING_JSON_FILE", "/home/me/own.json"),
        ("MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE", "/home/me/own.json"),
        ("MPIR_CVAR_DEVICE_COLLECTIVES", "none"),
        ("MPIR_CVAR_ALLREDUCE_COMPOSITION", "2"),
        ("MPIR_CVAR_BCAST_TREE_KVAL", "4"),
        ("MPIR_CVAR_BCAST_DEVICE_COLLECTIVE", "1"),
    ):
        honoured = MPICH.user_overrides(OURS, of_environment({name: value, "HOME": "/home/me"}))
        assert honoured.environment == {}
        assert honoured.reason.startswith(f"{name}={value} is already set")


def test_other_variables_and_equal_ones_withhold_nothing() -> None:
    """What the user has set to the same value, by another name, is left to him."""
    user = {"MPIR_CVAR_DEBUG_SUMMARY": "1", "MPICH_PORT_RANGE": "1:2", "PATH": "/bin"}
    assert MPICH.user_overrides(OURS, of_environment(user)).environment == OURS
    honoured = MPICH.user_overrides(OURS, of_environment({"MPICH_BCAST_DEVICE_COLLECTIVE": "0"}))
    assert list(honoured.environment) == ["MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"]
    assert honoured.reason == ""
