"""The variables by which users decide themselves, as patterns for a shell."""

from __future__ import annotations

import re
import shlex

import pytest

from colltune import process
from colltune.mpi import LIBRARIES, MpiLibrary, UserPatterns, library
from colltune.mpi.formats import format_for
from colltune.mpi.in_effect import of_environment


def matching(patterns: UserPatterns) -> list[str]:
    """Return names that some of the patterns match, and some that are longer than any."""
    few = (*patterns.deciding[:2], *patterns.harmless[:2])
    names = [each.replace("*", "ANY").replace("?", "X") for each in few]
    return [*names, *(f"NOT_{name}" for name in names)]


def ours(mpi: MpiLibrary) -> dict[str, str]:
    """Return what puts a file into effect."""
    form = format_for(mpi.name, mpi.current)
    return form.activation(mpi.current, {"": "/site/rules"})


NAMES = (
    "HOME",
    "OMPI_MCA_coll",
    "OMPI_MCA_coll_base_verbose",
    "OMPI_MCA_coll_han_priority",
    "OMPI_MCA_coll_hcoll_enable",
    "OMPI_MCA_coll_tuned_bcast_algorithm",
    "OMPI_MCA_coll_tuned_dynamic_rules_filename",
    "OMPI_MCA_coll_tuned_verbose",
    "OMPI_MCA_collx",
    "OMPI_MCA_pml",
    "XOMPI_MCA_coll",
    "I_MPI_ADJUST_BCAST",
    "I_MPI_FABRICS",
    "I_MPI_TUNING",
    "I_MPI_TUNING_BIN",
    "MPICH_ALLREDUCE_INTRA_ALGORITHM",
    "MPICH_PORT_RANGE",
    "MPIR_CVAR_ALLREDUCE_COMPOSITION",
    "MPIR_CVAR_BARRIER_DISSEM_KVAL",
    "MPIR_CVAR_BCAST_TREE_KVAL",
    "MPIR_CVAR_BCAST_TREE_TYPE",
    "MPIR_CVAR_BCAST_ALGORITHM",
    "MPIR_CVAR_BCAST_SHORT_MSG_SIZE",
    "MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE",
    "MPIR_CVAR_COLLECTIVE_FALLBACK",
    "MPIR_CVAR_DEBUG_SUMMARY",
    "MPIR_CVAR_DEVICE_COLLECTIVES",
    "MPIR_CVAR_REDUCE_SCATTER_BLOCK_DEVICE_COLLECTIVE",
    "MPIR_PARAM_COLL_SELECTION_TUNING_JSON_FILE",
    *(named for mpi in LIBRARIES.values() for named in matching(mpi.user_patterns)),
)


def matched_by_a_shell(patterns: tuple[str, ...], names: tuple[str, ...]) -> set[str]:
    """Return the names that the shell's ``case`` matches with one of the patterns."""
    script = (
        "set -f; for name in $NAMES; do for pattern in $PATTERNS; do"
        ' case $name in $pattern) echo "$name"; break;; esac; done; done'
    )
    env = {"NAMES": " ".join(names), "PATTERNS": " ".join(patterns)}
    outcome = process.run(["sh", "-c", script], timeout_s=30, env=env)
    return set(process.check(outcome, shlex.join(outcome.command)).stdout.split())


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_shell_finds_the_same_variables_as_honour_user(name: str) -> None:
    """A variable withholds our settings exactly where its name matches the patterns in sh."""
    mpi = library(name)
    patterns = mpi.user_patterns
    theirs = of_environment(dict.fromkeys(NAMES, "the user's own"))
    withheld = {n for n in NAMES if mpi.user_overrides(ours(mpi), {n: theirs[n]}).reason}
    shell = matched_by_a_shell(patterns.deciding, NAMES)
    assert shell - matched_by_a_shell(patterns.harmless, NAMES) == withheld
    assert 2 <= len(withheld) < len(NAMES) / 2


@pytest.mark.parametrize("name", LIBRARIES)
def test_patterns_need_no_quoting(name: str) -> None:
    """Patterns are words that no shell takes for anything but a pattern."""
    patterns = library(name).user_patterns
    assert patterns.deciding
    for pattern in (*patterns.deciding, *patterns.harmless):
        assert re.fullmatch(r"[A-Za-z0-9_*?]+", pattern)
