"""`colltune verify` as far as no MPI is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration
from colltune.mpi.rules import Rule
from colltune.registry import Registry
from colltune.verify import proving
from colltune.verify.canary import Readability
from colltune.verify.rule_status import Assessment, Proof, RuleResult, RuleStatus
from tests.cli.conftest import Verb

RULES = "1\n7\n1\n0 1\n0 6 0 0\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return a rules file."""
    path = tmp_path / "my.rules"
    path.write_text(RULES)
    return path


def test_a_wrong_line_is_refused_before_anything_is_started(colltune: Verb, rules: Path) -> None:
    """The canary needs one launcher of MPI programs, which is there, and a wall time."""
    for words, status, code in (
        ((), 4, "missing"),
        (("--", "/no/such/mpirun", "-np", 2), 5, "program-missing program=/no/such/mpirun"),
        (("--", "sh", "-c", "x"), 4, "unknown-launcher"),
        (("--", "sh", "-n", 1, ":", "-n", 1), 4, "several-programs"),
        (("--budget", "soon", "--", "/no/such/mpirun"), 4, "malformed value=soon"),
    ):
        answer = colltune("verify", rules, *words)
        assert (answer.status, answer.says(code)) == (status, True), answer.err


def _proof(path: Path) -> Proof:
    statuses = (RuleStatus.APPLIED, RuleStatus.APPLIED, RuleStatus.IGNORED)
    chain = Configuration("openmpi", Collective.BCAST, "chain")
    results = tuple(
        RuleResult(Rule(k, "0 3 0 0", Collective.BCAST, chain), Assessment(status))
        for k, status in enumerate(statuses)
    )
    read = Readability(path, 8, ("n1",), {})
    told = ("openmpi-classic", "4.1.4", "Open MPI v4.1.4", {"n1": 8})
    return Proof(read, *told, results=results)


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
