"""`colltune verify` as far as no MPI is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

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
