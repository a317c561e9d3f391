"""NO_COLOR, FORCE_COLOR, CLICOLOR, TERM, and statuses in colour."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from colltune.cli.console import (
    Mark,
    Table,
    can_redraw,
    marked,
    output,
    painted,
    takes_colours,
)
from colltune.domain import Collective, Configuration, Instance, Shape

_NAMES = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM")
_TABLE = [["bcast", marked("yes", Mark.GOOD), "12"], ["scan", marked("withdrawn", None), "7"]]


class _Stream(io.StringIO):
    """Text that may claim to be a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


CASES: tuple[tuple[dict[str, str], bool, bool], ...] = (
    ({"TERM": "xterm"}, True, False),
    ({"TERM": "dumb"}, False, False),
    ({}, False, False),
    ({"TERM": "xterm", "NO_COLOR": "1"}, False, False),
    ({"TERM": "xterm", "NO_COLOR": ""}, True, False),
    ({"TERM": "xterm", "CLICOLOR": "0"}, False, False),
    ({"TERM": "xterm", "FORCE_COLOR": "1"}, True, True),
    ({"TERM": "dumb", "CLICOLOR_FORCE": "1"}, True, True),
    ({"TERM": "xterm", "FORCE_COLOR": "0"}, False, False),
    ({"TERM": "xterm", "FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
)


def test_colours_follow_the_conventions(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR wins over what forces colours, and that over what the stream is."""
    for variables, on_terminal, in_pipe in CASES:
        for name in _NAMES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        found = takes_colours(_Stream(terminal=True)), takes_colours(_Stream(terminal=False))
        assert found == (on_terminal, in_pipe), variables


def test_no_force_makes_a_pipe_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forced colours are no reason to redraw lines where nobody can see it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert not can_redraw(_Stream(terminal=False))


def test_tables_are_aligned_alike_with_and_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without colours a table is as if nothing was marked; with them only the marked cell is."""
    plain = [[str(cell) for cell in row] for row in _TABLE]
    header = ["collective", "in effect", "n"]
    monkeypatch.setenv("NO_COLOR", "1")
    assert str(Table(header, _TABLE)) == str(Table(header, plain))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = str(Table(header, _TABLE))
    assert coloured.count("\x1b[") == 2
    assert coloured.replace("\x1b[32m", "").replace("\x1b[0m", "") == str(Table(header, plain))


def test_spaces_are_not_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that underlines or inverts a colour must not show the padding."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert painted("ok  ", Mark.GOOD, sys.stdout) == "\x1b[32mok\x1b[0m  "
    assert painted("   ", Mark.GOOD) == "   "


def test_facts_or_lines_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Machines get the facts alone, ours by their stored names; people the warnings and lines."""
    chain = Configuration("openmpi", Collective.BCAST, "chain")
    facts = {"a": [chain, Shape(2, 4)], Collective.SCAN: Path("x"), "i": Instance(*_ASKED)}
    output(facts, ["line"], json=True, warnings=["careful"])
    told = capsys.readouterr()
    assert (json.loads(told.out), told.err) == (
        {
            "a": ["openmpi.bcast.chain", "2x4"],
            "scan": "x",
            "i": {"collective": "scan", "shape": "1x2", "msize_bytes": 8},
        },
        "",
    )
    output(facts, ["line", "other"], json=False, warnings=["careful"])
    assert capsys.readouterr() == ("line\nother\n", "colltune: careful\n")


_ASKED = (Collective.SCAN, Shape(1, 2), 8)
