"""How much each fault of a configuration file matters."""

from __future__ import annotations

import pytest

from colltune.mpi.file_format import Fault, Finding, Severity

SEVERITIES = {
    # the MPI library refuses what is written, or programs crash, hang or compute what is wrong
    Severity.ERROR: {
        "file-dropped",
        "rule-dropped",
        "ends-program",
        "hangs",
        "wrong-result",
        "ranks-disagree",
    },
    # something else than what is written runs
    Severity.WARNING: {
        "commutative-only",
        "dead-rule",
        "unsorted",
        "inherited",
        "wrong-unit",
        "unknown",
        "no-effect",
        "falls-back",
        "outranked",
        "not-activated",
        "overridden",
        "malformed",
        "other-release",
    },
    # what is written runs; the rest is taste
    Severity.NOTE: {"not-everywhere", "remark"},
}


def test_each_fault_has_one_severity(subtests: pytest.Subtests) -> None:
    """It is the one of the table, wherever it is found."""
    for fault in Fault:
        with subtests.test(fault=fault):
            assert [s for s, faults in SEVERITIES.items() if fault in faults] == [fault.severity]
            assert Finding(1, fault, "it is so", "mend it").severity is fault.severity


def test_the_table_names_no_other_fault() -> None:
    """What is in the table is found."""
    assert set.union(*SEVERITIES.values()) == set(Fault)
