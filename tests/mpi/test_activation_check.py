"""Whether a job's variables put a file into effect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from colltune.mpi.activation_check import (
    effect_findings,
    missing,
    named_variables,
    outranked_findings,
)
from colltune.mpi.formats import FORMATS
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Severity
from tests.mpi.linting import lint
from tests.mpi.plain_format import PlainFile, PlainFormat

RULES = "plain\nbcast 2 0 binomial\nbcast 4 1024 chain\nscan 2 0 default\nallreduce 2 0 ring\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return a file of the tests' format."""
    path = tmp_path / "rules"
    path.write_text(RULES)
    return path


def _found(path: Path, changes: dict[str, str | None]) -> tuple[Finding, ...]:
    """Return what is found with the activation's variables changed, None for unset."""
    paths = {"": str(path)}
    activation = PlainFormat().activation("5.0.11", paths)
    job = {n: v for n, v in (activation | changes).items() if v is not None}
    parsed = PlainFile(path.read_text(), str(path), "5.0.11")
    return effect_findings(OPENMPI, parsed, activation, paths, job)


def test_a_job_as_it_should_be(rules: Path) -> None:
    """The variables of the activation are enough, beside any others."""
    assert _found(rules, {"PATH": "/bin"}) == ()


def test_the_file_is_not_named(rules: Path) -> None:
    """One finding, for the file as a whole."""
    (found,) = _found(rules, {"PLAIN_FILE": None, "PLAIN_ON": None})
    assert (found.line, found.fault, found.severity) == (0, Fault.NOT_ACTIVATED, Severity.WARNING)
    assert found.mend == f"set PLAIN_FILE={rules}"


def test_other_spellings_of_the_path(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to the file is the file, as is one of several; a relative name is warned about."""
    link = rules.with_name("link")
    link.symlink_to(rules)
    assert _found(rules, {"PLAIN_FILE": str(link)}) == ()
    assert _found(rules, {"PLAIN_FILE": f"/no/such,{rules}"}) == ()
    monkeypatch.chdir(rules.parent)
    (found,) = _found(rules, {"PLAIN_FILE": "rules"})
    assert (found.fault, found.severity) == (Fault.NOT_ACTIVATED, Severity.WARNING)
    assert "resolves it in its own working directory" in found.message


def test_a_switch_is_missing(rules: Path) -> None:
    """Each collective's rules have no effect; the mend names the one variable that matters."""
    found = _found(rules, {"PLAIN_ON": None})
    assert [(f.line, f.fault, f.severity) for f in found] == [
        (2, Fault.NOT_ACTIVATED, Severity.WARNING),
        (5, Fault.NOT_ACTIVATED, Severity.WARNING),
    ]
    assert {f.mend for f in found} == {"set PLAIN_ON=1"}


def test_another_component_goes_first(rules: Path) -> None:
    """What is outranked on some communicators only is a warning that says on which."""
    found = _found(rules, {"PLAIN_HAN": "35"})
    assert [(f.fault, f.severity) for f in found] == [(Fault.OUTRANKED, Severity.WARNING)] * 2
    assert found[0].message.startswith(
        "han decides bcast before this file's rules are read for communicators across nodes: han is"
    )
    assert found[0].mend == "set PLAIN_HAN=0"


def test_a_variable_of_the_user_goes_first(rules: Path) -> None:
    """The mend names the variable that overrides, found among all others."""
    found = _found(rules, {"PLAIN_FORCE": "chain", "PATH": "/bin", "HOME": "/"})
    assert [f.fault for f in found] == [Fault.OVERRIDDEN] * 2
    assert "openmpi.allreduce.chain: PLAIN_FORCE is chain" in found[1].message
    assert found[1].mend == "unset PLAIN_FORCE"


def test_nothing_is_asked_of_a_dropped_file(rules: Path) -> None:
    """A file that is dropped has no effect whatever is set."""
    rules.write_text(RULES + "drop\n")
    assert _found(rules, {"PLAIN_FILE": None}) == ()


def test_many_rules_are_sampled(rules: Path) -> None:
    """Thousands of thresholds are no reason to try every one."""
    asked = 0

    class _Counting(PlainFile):
        def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
            nonlocal asked
            asked += 1
            return super().decide(call, environment)

    text = "plain\n" + "".join(f"bcast 2 {n} binomial\n" for n in range(3000))
    paths = {"": str(rules)}
    activation = PlainFormat().activation("5.0.11", paths)
    parsed = _Counting(text, "f", "5.0.11")
    assert effect_findings(OPENMPI, parsed, activation, paths, activation) == ()
    assert 0 < asked <= 2 * 2 * 12


def test_what_is_missing() -> None:
    """Unset and differing variables are missing; named ones are those that are set at all."""
    activation = {"A": "1", "B": "/x/y", "C": "2"}
    assert missing(OPENMPI, activation, {"A": "1", "B": "/x/../x/y", "C": "3"}) == {"C": "2"}
    assert missing(OPENMPI, activation, {"B": ""}) == activation
    assert named_variables(activation, {"C": "", "D": ""}) == ["C"]


CLASSIC = "1\n7\n2\n0 1\n0 0 0 0\n8 2\n0 6 0 0\n8192 8 0 0\n"


@pytest.mark.parametrize(
    ("variables", "severities"),
    [({}, [Severity.WARNING]), ({"OMPI_MCA_coll_han_priority": "0"}, [])],
)
def test_a_note_on_components_is_settled_by_the_job(
    variables: dict[str, str], severities: list[Severity]
) -> None:
    """That coll/han goes first is a warning where the job lets it, else nothing."""
    known, paths = FORMATS["openmpi-classic"], {"": "/f"}
    parsed = known.parse(CLASSIC, "/f", "5.0.11")
    job = known.activation("5.0.11", paths) | variables
    assert [f.severity for f in lint(parsed)] == [Severity.NOTE]
    assert [f.severity for f in outranked_findings(lint(parsed), parsed, paths, job)] == severities
    together = paths | {".dispatch": "/f.dispatch"}
    assert outranked_findings(lint(parsed), parsed, together, job) == lint(parsed)
