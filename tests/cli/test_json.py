"""--json, of every verb that has it."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs
import pytest

from colltune.cli import main
from colltune.cli.console import show_json
from colltune.domain import Collective, Configuration, Measurement, RunStatus, Shape
from colltune.text import computed
from docs._ext import json_output
from tests.cli.conftest import Verb, described
from tests.cli.verb_examples import EXAMPLES, OTHER_FORMS, Place, commands, has, replaced

_WITH_JSON = sorted(name for name, command in commands() if has(command, "--json"))


@pytest.fixture
def place(
    tmp_path: Path, measurements_csv: Path, bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    """Return a folder of its own, with an MPI that was found already."""
    found = Place(tmp_path, measurements_csv, bundle_path)
    replaced(found, monkeypatch)
    return found


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Make standard error a real terminal, and collect what is written there."""
    ours, theirs = pty.openpty()
    written: list[bytes] = []

    def collect() -> None:
        try:
            while data := os.read(ours, 1024):
                written.append(data)
        except OSError:
            return

    reader = threading.Thread(target=collect)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        reader.start()
        yield written
    reader.join()
    os.close(ours)


def test_every_verb_with_json_has_an_example() -> None:
    """A new verb with --json needs a call in `verb_examples`, and its fields described."""
    assert sorted(EXAMPLES) == _WITH_JSON
    assert sorted(json_output.verbs()) == _WITH_JSON


@pytest.mark.parametrize("name", _WITH_JSON)
def test_json_is_one_document_and_nothing_else(
    name: str,
    place: Place,
    terminal: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Standard output is the document that the reference describes; a terminal sees no progress."""
    if name not in EXAMPLES:
        pytest.fail(f"add a call of `colltune {name}` to tests/cli/verb_examples.py")
    monkeypatch.setattr("colltune.cli.progress._DELAY_S", 0.0)
    _run_with_json(EXAMPLES[name](place), monkeypatch)
    described(name.split(), capsys.readouterr().out)
    sys.stderr.flush()
    assert b"\x1b" not in b"".join(terminal)


@pytest.mark.parametrize("form", sorted(OTHER_FORMS))
def test_other_forms_are_described_too(
    form: str, place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So is the document of other options of the verb."""
    _run_with_json(OTHER_FORMS[form](place), monkeypatch)
    described(form.split(), capsys.readouterr().out)


def _run_with_json(call: Sequence[object], monkeypatch: pytest.MonkeyPatch) -> None:
    words = [str(word) for word in call]
    at = words.index("--") if "--" in words else len(words)
    monkeypatch.setattr(sys, "argv", ["colltune", *words[:at], "--json", *words[at:]])
    with pytest.raises(SystemExit):
        main()


@dataclass(frozen=True)
class _Part:
    """What `_Printed` refers to, and what refers to itself.

    Parameters
    ----------
    name
        its name
    """

    name: str
    parts: tuple[_Part, ...] = ()
    """its own parts"""


@dataclass(frozen=True)
class _Printed:
    """Every kind of field that a verb prints."""

    part: _Part | None
    """one dataclass, or none"""
    parts_by_name: Mapping[Collective, list[_Part]]
    """more of them"""
    status: RunStatus
    """an enumeration"""
    word: Literal["a", "b"]
    """one of a few words"""
    shape: Shape
    """a shape"""
    configuration: Configuration
    """a configuration"""
    time_s: float | None
    """a number, or none"""
    interval_s: tuple[float, float]
    """two numbers"""
    times_s: Sequence[float | None]
    """numbers, some unknown"""
    extra: Mapping[str, Any]
    """anything"""
    path: Path
    """a file"""
    found: bool
    """a truth"""

    @computed
    def time_us(self) -> float | None:
        """The same in microseconds."""
        return None if self.time_s is None else self.time_s * 1e6


def test_the_schema_of_a_record_is_what_is_printed_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A dataclass is described as it is printed, with those that it holds."""
    printed = _Printed(
        _Part("a", (_Part("b"),)),
        {Collective.BCAST: [_Part("c")]},
        RunStatus.OK,
        "a",
        Shape(2, 4),
        Configuration.default("openmpi", Collective.BCAST),
        None,
        (1.0, 2.0),
        [None, 1.0],
        {"x": Path("y")},
        Path("z"),
        True,
    )
    types: dict[str, Any] = {}
    schema = json_output.schema_of(list[_Printed], types) | {"$defs": types}
    show_json([printed, replace(printed, part=None, time_s=1.0)])
    document = json.loads(capsys.readouterr().out)
    jsonschema_rs.validator_for(schema).validate(document)
    assert document[0].keys() == types["_Printed"]["properties"].keys()
    assert [each["time_us"] for each in document] == [None, 1e6]
    assert document[0]["part"]["parts"] == [{"name": "b", "parts": []}]
    wrongs: tuple[dict[str, Any], ...] = (
        {"shape": 1},
        {"time_us": ""},
        {"parts_by_name": {"bcast": {}}},
        {"part": {}},
    )
    for wrong in wrongs:
        assert not jsonschema_rs.is_valid(schema, [document[0] | wrong]), wrong


def test_a_field_that_nothing_tells_of_is_refused() -> None:
    """A record without a word on each of its fields makes no page."""
    with pytest.raises(LookupError, match="times_s"):
        json_output.schema_of(Measurement, {})


def test_schemas_are_schemas() -> None:
    """Each is valid by the schema of schemas; `described` holds what verbs print to them."""
    for verb in json_output.verbs():
        jsonschema_rs.meta.validate(json_output.schema(verb))


@pytest.mark.parametrize("name", _WITH_JSON)
def test_every_verb_speaks_ascii_where_nothing_else_is_understood(
    name: str, place: Place, colltune: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints for people fits into ASCII, whatever names and notes are quoted."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = io.BytesIO()
    stream = io.TextIOWrapper(out, "ascii", errors="colltune", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    answer = colltune(*EXAMPLES[name](place))
    assert answer.status in (0, 1), answer.err
    assert out.getvalue()
    assert b"\\x" not in out.getvalue().replace(b"\\xff", b"").replace(b"\\udcff", b"")


def test_errors_leave_standard_output_empty(colltune: Verb) -> None:
    """Wrong usage is told on standard error, with a status, and no half document."""
    for name in _WITH_JSON:
        answer = colltune(*name.split(), "--json", "--no-such-option")
        assert (answer.status, answer.out) == (2, ""), name
        assert "no-such-option" in answer.err, name
