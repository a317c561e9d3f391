"""What is proven of a file as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration
from colltune.mpi.rules import Rule
from colltune.verify.canary import Readability
from colltune.verify.rule_status import Assessment, FileVerdict, Proof, RuleResult, RuleStatus

READ = Readability(Path("f"), 4, ("n1",), {})
CHAIN = Configuration("openmpi", Collective.BCAST, "chain")
CASES = [
    ("", FileVerdict.PASSED, 0, ""),
    ("applied", FileVerdict.PASSED, 0, ""),
    ("applied, unobserved, unreachable", FileVerdict.PASSED, 0, ""),
    ("unobserved, unobserved", FileVerdict.UNOBSERVED, 17, "--budget"),
    ("unobserved, unreachable", FileVerdict.UNOBSERVED, 17, "--budget"),
    ("unreachable", FileVerdict.UNOBSERVED, 17, "no call of this job reaches a rule"),
    ("unobserved, overridden", FileVerdict.FAILED, 1, ""),
    ("applied, ignored", FileVerdict.FAILED, 1, ""),
    ("harmful", FileVerdict.FAILED, 1, ""),
    ("applied, other bits", FileVerdict.FAILED, 1, ""),
]


def _proof(statuses: str, *, measured: bool = True) -> Proof:
    results = tuple(
        RuleResult(Rule(n, "0 3 0 0", Collective.BCAST, CHAIN), Assessment(RuleStatus(status)))
        for n, status in enumerate(filter(None, statuses.split(", ")))
    )
    return Proof(READ, results=results, measured=measured)


@pytest.mark.parametrize(("statuses", "verdict", "status", "how"), CASES)
def test_nothing_observed_is_no_proof(
    statuses: str, verdict: FileVerdict, status: int, how: str
) -> None:
    """One rule that was seen to be applied passes, a failure fails, and the rest is its own."""
    proof = _proof(statuses)
    assert (proof.verdict, proof.verdict.exit_status) == (verdict, status)
    assert how in proof.how_to_observe
    assert bool(how) == bool(proof.how_to_observe)


def test_measuring_is_advised_where_it_was_left_out() -> None:
    """Libraries that show nothing are judged by time."""
    assert "--no-measure" in _proof("unobserved", measured=False).how_to_observe


def test_a_dropped_file_fails() -> None:
    """What the library ignores as a whole is no matter of observing."""
    dropped = Proof(READ, dropped="why")
    assert dropped.verdict is FileVerdict.FAILED
