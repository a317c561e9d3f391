"""NO_COLOR, FORCE_COLOR, CLICOLOR, TERM, and statuses in colour."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from colltune.cli.console import (
    Mark,
    TextTable,
    Verbatim,
    can_redraw,
    marked,
    output,
    painted,
    takes_colours,
)
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.text import range_text

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
    assert str(TextTable(header, _TABLE)) == str(TextTable(header, plain))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = str(TextTable(header, _TABLE))
    assert coloured.count("\x1b[") == 2
    assert coloured.replace("\x1b[32m", "").replace("\x1b[0m", "") == str(TextTable(header, plain))


_WIDE = TextTable(
    ("name", "n", "why", "extra"),
    [("bcast", 7, "a reason of several words", "x" * 20), ("scan", 12, "another", "y")],
    wrap=("why",),
    drop=("extra", "n"),
)


def test_a_table_fits_any_width() -> None:
    """Text columns wrap first, then columns go by rank, and nothing that stays is lost."""
    assert _WIDE.fitted(None)[0] == str(_WIDE)
    assert _WIDE.fitted(58) == (str(_WIDE), [])
    for width, dropped in ((50, []), (40, ["extra"]), (24, ["n", "extra"]), (9, ["n", "extra"])):
        text, left_out = _WIDE.fitted(width)
        assert left_out == dropped, width
        assert max(map(len, text.splitlines())) <= width
        for word in ("bcast", "areasonofseveralwords", "another"):
            assert _is_within(word, text), (word, width)


def _is_within(word: str, text: str) -> bool:
    """Tell whether the letters of `word` follow each other in `text`, whatever is between them."""
    letters = iter(text)
    return all(letter in letters for letter in word)


def test_what_a_narrow_terminal_leaves_out_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line names the columns; a pipe gets them all, whatever COLUMNS says."""
    monkeypatch.setenv("COLUMNS", "40")
    output({}, [_WIDE], json=False)
    assert capsys.readouterr().out == f"{_WIDE}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output({}, [_WIDE, "  words " + 8 * "word ", Verbatim(20 * "x y ")], json=False)
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "  words word word word word word word",
        "    word word",
        20 * "x y ",
        "not shown for want of width: extra;",
        "  --json or a wider terminal has them",
    ]


SIZES = (
    ((0, 15), "0 B .. 15 B"),
    ((0, 0), "0 B"),
    ((1024, 4095), "1 KiB .. <4 KiB"),
    ((741455, 2 << 20), "741455 B .. 2 MiB"),
    ((1025, 3072), ">1 KiB .. 3 KiB"),
    ((1 << 20, None), "from 1 MiB"),
    (((2 << 20) + 1, None), "above 2 MiB"),
)


def test_ranges_of_sizes_are_spelled_one_way() -> None:
    """Every size has its unit; a bound one byte off a round size is told by the round one."""
    for bounds, text in SIZES:
        assert range_text(*bounds) == text


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


def test_ids_and_dates_are_no_numbers() -> None:
    """A column is aligned to the right where most of its cells are numbers."""
    for cells, right in (
        (("1.2x", "12 %", ""), True),
        (("4 KiB", "above 2 MiB"), True),
        (("853eaf12", "9e401b74"), False),
        (("2026-11-23T07:58:12", "2026-11-23"), False),
        (("4x2", "16x32"), True),
    ):
        _, _, *rows = str(TextTable(("a wide column",), [(cell,) for cell in cells])).split("\n")
        assert any(row.startswith(" ") for row in rows) == right, cells
