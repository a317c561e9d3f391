"""How Open MPI is told, and how the user's own settings are honoured."""

from __future__ import annotations

import pytest

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import UserOverrides, library
from colltune.mpi.formats import FORMATS
from colltune.mpi.in_effect import of_environment
from colltune.mpi.openmpi.mca import environment
from tests.refusals import refused

OPENMPI = library("openmpi")
TUNED = {
    "coll_tuned_use_dynamic_rules": "1",
    "coll_tuned_dynamic_rules_filename": "/shared/rules",
}
HAN = {
    "coll_han_use_dynamic_file_rules": "1",
    "coll_han_dynamic_rules_filename": "/shared/dispatch",
}
NO_HCOLL = {"coll_hcoll_enable": "0"}


def test_forcing_sets_number_parameters_and_han(subtests: pytest.Subtests) -> None:
    """The control variables name the algorithm, and keep or restore coll/han where it matters."""
    for release, configuration, variables in (
        (
            "5.0.11",
            "openmpi.bcast.chain:fanout=2,segsize=1024",
            {
                "coll_tuned_bcast_algorithm": 2,
                "coll_tuned_bcast_algorithm_chain_fanout": 2,
                "coll_tuned_bcast_algorithm_segmentsize": 1024,
                "coll_han_priority": 0,
            },
        ),
        (
            "5.0.11",
            "openmpi.bcast.default",
            {"coll_tuned_bcast_algorithm": 0, "coll_han_priority": 35},
        ),
        ("5.0.11", "openmpi.alltoall.pairwise", {"coll_tuned_alltoall_algorithm": 2}),
        (
            "6.0.0",
            "openmpi.allgather.bruck:fanout=3",
            {
                "coll_tuned_allgather_algorithm": 2,
                "coll_tuned_allgather_algorithm_tree_fanout": 3,
                "coll_han_priority": 0,
            },
        ),
        (
            "6.1.0a1",
            "openmpi.alltoall.pairwise",
            {"coll_tuned_alltoall_algorithm": 2, "coll_han_priority": 0},
        ),
        ("4.1.8", "openmpi.bcast.linear", {"coll_tuned_bcast_algorithm": 1}),
        ("4.1.8", "openmpi.barrier.default", {"coll_tuned_barrier_algorithm": 0}),
    ):
        with subtests.test(release=release, configuration=configuration, variables=variables):
            assert OPENMPI.at(release).force(Configuration.parse(configuration)) == variables


def test_allgatherv_cannot_be_set_at_runtime() -> None:
    """The library makes its control variable read-only."""
    fixed = [
        c
        for c in Collective
        if not OPENMPI.at("5.0.11").settable_at_runtime(Configuration.default("openmpi", c))
    ]
    assert fixed == [Collective.ALLGATHERV]


def test_measuring_needs_dynamic_rules() -> None:
    """Without dynamic rules no control variable has an effect."""
    assert OPENMPI.at("4.1.8").base_environment() == {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_hcoll_enable": "0",
    }


def test_activation_steers_han_where_it_stands_in_the_way() -> None:
    """Only 5.0 across nodes needs the dispatch file."""
    rules, both = {"": "/shared/rules"}, {"": "/shared/rules", ".dispatch": "/shared/dispatch"}
    for release, paths, job, wanted in (
        ("5.0.11", both, Shape(2, 4), TUNED | HAN | NO_HCOLL),
        ("5.0.11", rules, Shape(2, 4), TUNED | NO_HCOLL),
        ("5.0.11", both, Shape(1, 4), TUNED | NO_HCOLL),
        ("4.1.4", both, None, TUNED | NO_HCOLL),
    ):
        found = FORMATS["openmpi-classic"].activation(release, paths, job)
        assert found == environment(wanted), (release, paths, job)


def test_parameters_become_a_file_and_an_environment() -> None:
    """Both channels carry the same names and values."""
    assert OPENMPI.parameter_file(TUNED) == (
        "--mca coll_tuned_use_dynamic_rules 1\n"
        "--mca coll_tuned_dynamic_rules_filename /shared/rules\n"
    )
    assert environment(NO_HCOLL) == {"OMPI_MCA_coll_hcoll_enable": "0"}


def test_what_a_parameter_file_cannot_carry_is_refused(subtests: pytest.Subtests) -> None:
    """A path with blanks would be cut by the library."""
    for path in ("/my rules", "/it's", "/a#b", ""):
        with subtests.test(path=path), refused("not-in-a-parameter-file", LibraryError):
            OPENMPI.parameter_file({"coll_tuned_dynamic_rules_filename": path})


OURS = {f"OMPI_MCA_{name}": value for name, value in (TUNED | NO_HCOLL).items()}


def test_unrelated_settings_change_nothing(subtests: pytest.Subtests) -> None:
    """Verbosity and other frameworks do not stand against our set."""
    for user in (
        {},
        {"PATH": "/bin", "OMPI_MCA_pml": "ob1", "OMPI_MCA_coll_base_verbose": "9"},
        {"OMPI_MCA_coll_han_verbose": "1"},
    ):
        with subtests.test(user=user):
            assert OPENMPI.user_overrides(OURS, of_environment(user)) == UserOverrides(OURS)


def test_the_users_own_equal_setting_is_left_to_him() -> None:
    """What the user has already set, in whatever spelling, is not set again."""
    user = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "true"}
    rest = {name: value for name, value in OURS.items() if name not in user}
    assert OPENMPI.user_overrides(OURS, of_environment(user)) == UserOverrides(rest)


def test_a_contradicting_user_is_left_alone(subtests: pytest.Subtests) -> None:
    """A user who decides about collectives himself gets none of our settings, and the reason."""
    for name, value in (
        ("coll", "^tuned"),
        ("coll_tuned_use_dynamic_rules", "0"),
        ("coll_tuned_dynamic_rules_filename", "/mine"),
        ("coll_tuned_bcast_algorithm", "6"),
        ("coll_han_priority", "0"),
        ("coll_hcoll_enable", "1"),
    ):
        with subtests.test(name=name, value=value):
            assert OPENMPI.user_overrides(
                OURS, of_environment({f"OMPI_MCA_{name}": value})
            ) == UserOverrides(
                {}, f"OMPI_MCA_{name}={value} is already set, so nothing else was changed"
            )
