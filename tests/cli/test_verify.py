"""`colltune verify` as far as no MPI is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Rule
from colltune.registry import Registry
from colltune.verify import proving
from colltune.verify.readability import Readability
from colltune.verify.rule_status import Assessment, Proof, RuleResult, RuleStatus
from tests.cli.conftest import Verb

RULES = "1\n7\n1\n0 1\n0 6 0 0\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return a rules file."""
    path = tmp_path / "my.rules"
    path.write_text(RULES)
    return path


def test_help_has_an_example(colltune: Verb) -> None:
    """The help shows how the launcher is given, and tells the status for CI."""
    text = colltune("verify", "--help").out
    assert "-- mpirun -np 8" in text
    assert "--readable-only" in text
    assert "Exit status" in text


def test_a_launcher_must_be_named(colltune: Verb, rules: Path) -> None:
    """Without a launcher there is no job to prove anything in."""
    answer = colltune("verify", rules)
    assert answer.status == 4
    assert "no launcher was named; write the launcher with its options behind --" in answer.err


def test_a_missing_launcher_is_a_program_error(colltune: Verb, rules: Path) -> None:
    """A launcher that is not there is named."""
    answer = colltune("verify", rules, "--", "/no/such/mpirun", "-np", 2)
    assert answer.status == 5
    assert "'/no/such/mpirun' not found" in answer.err


def test_what_starts_no_mpi_programs_is_refused(colltune: Verb, rules: Path) -> None:
    """A program that is no launcher of MPI programs needs --mpi."""
    answer = colltune("verify", rules, "--", "sh", "-c", "x")
    assert answer.status == 4
    assert "is no launcher of MPI programs" in answer.err


def test_several_programs_are_refused(colltune: Verb, rules: Path) -> None:
    """A line for several programs has no place for the canary."""
    answer = colltune("verify", rules, "--", "sh", "-n", 1, ":", "-n", 1)
    assert answer.status == 4
    assert "several programs" in answer.err


def test_a_wrong_budget_is_refused_first(colltune: Verb, rules: Path) -> None:
    """A wall time that is none ends before anything is started."""
    answer = colltune("verify", rules, "--budget", "soon", "--", "/no/such/mpirun")
    assert answer.status == 4
    assert "'soon' is no wall time" in answer.err


def _proof(path: Path) -> Proof:
    statuses = (RuleStatus.APPLIED, RuleStatus.APPLIED, RuleStatus.IGNORED)
    chain = Configuration("openmpi", Collective.BCAST, "chain")
    results = tuple(
        RuleResult(Rule(k, "0 3 0 0", Collective.BCAST, chain), Assessment(status))
        for k, status in enumerate(statuses)
    )
    read = Readability(path, 8, ("n1",), {})
    return Proof(
        read, "openmpi-classic", "4.1.4", "Open MPI v4.1.4", (("n1", 8),), None, "", results
    )


def test_what_was_found_is_reported_to_the_registry(
    colltune: Verb, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --registry the counts of rules by status are kept there, failed or not."""
    root = tmp_path / "registry"
    root.mkdir()
    registry = Registry(root)
    monkeypatch.setattr(proving, "prove", lambda request, _progress: _proof(request.path))
    words = ("verify", rules, "--registry", registry, "--", "mpirun", "-n", 8)
    assert colltune(*words).status == 1
    told = registry.latest_report("verify")
    assert told is not None
    assert (told["library"], told["release"], told["passed"]) == ("openmpi", "4.1.4", False)
    counts = told["collectives"]["bcast"]
    assert {name: n for name, n in counts.items() if n} == {"applied": 2, "ignored": 1}


def test_a_missing_registry_is_told_before_anything_is_started(
    colltune: Verb, rules: Path, tmp_path: Path
) -> None:
    """A registry that is not there ends with status 7, and none is made by mistake."""
    nowhere = tmp_path / "nowhere"
    answer = colltune("verify", rules, "--registry", nowhere, "--", "/no/such/mpirun")
    assert answer.status == 7
    assert str(nowhere) in answer.err
    assert not nowhere.exists()
