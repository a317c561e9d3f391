"""The user's own variables of MPICH."""

from __future__ import annotations

import pytest

from colltune.mpi import library

OURS = {
    "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": "/site/job.json",
    "MPIR_CVAR_BCAST_DEVICE_COLLECTIVE": "0",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MPIR_CVAR_BCAST_INTRA_ALGORITHM", "binomial"),
        ("MPICH_ALLREDUCE_INTRA_ALGORITHM", "ring"),
        ("MPIR_PARAM_COLL_SELECTION_TUNING_JSON_FILE", "/home/me/own.json"),
        ("MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE", "/home/me/own.json"),
        ("MPIR_CVAR_DEVICE_COLLECTIVES", "none"),
        ("MPIR_CVAR_ALLREDUCE_COMPOSITION", "2"),
        ("MPIR_CVAR_BCAST_TREE_KVAL", "4"),
        ("MPIR_CVAR_BCAST_DEVICE_COLLECTIVE", "1"),
    ],
)
def test_what_the_user_decides_withholds_everything(name: str, value: str) -> None:
    """A variable of the user that decides on algorithms, by any prefix, is named and wins."""
    honoured = library("mpich").user_overrides(OURS, {name: value, "HOME": "/home/me"})
    assert honoured.environment == {}
    assert honoured.reason.startswith(f"{name}={value} is set already")


def test_other_variables_do_not_matter() -> None:
    """Variables that decide on something else withhold nothing."""
    user = {"MPIR_CVAR_DEBUG_SUMMARY": "1", "MPICH_PORT_RANGE": "1:2", "PATH": "/bin"}
    honoured = library("mpich").user_overrides(OURS, user)
    assert (honoured.environment, honoured.reason) == (OURS, "")


def test_the_same_setting_is_not_set_twice() -> None:
    """What the user has set to the same value, by another name, is left to him."""
    user = {"MPICH_BCAST_DEVICE_COLLECTIVE": "0"}
    honoured = library("mpich").user_overrides(OURS, user)
    assert list(honoured.environment) == ["MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"]
    assert honoured.reason == ""
