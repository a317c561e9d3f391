"""What verbs show on terminals of 80 and of 200 columns, kept as pictures in build/screens."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from docs._ext import terminal
from tests.cli.verb_examples import EXAMPLES, commands

pytestmark = pytest.mark.slow

_WIDTHS = (80, 200)
_EXAMPLE = (sys.executable, "-m", "tests.cli.example_colltune")
_COLLTUNE = (sys.executable, "-m", "colltune.cli")
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COPIED = re.compile(
    r"\s*(export |mpirun |add to the job: |or start it with: |(sudo )?sh /|colltune site |-> )"
)
"""Lines that are to be copied whole."""
_TEXTS = (
    "submit",
    "rules convert",
    "site retrain",
    "site slurm hooks",
    "site token add",
    "site upgrade",
)
"""What prints the text of a file, or a secret."""
_HELP = ["", *(name.partition(" ")[0] for name, _ in commands()), *(name for name, _ in commands())]


def _kept(name: str, columns: int, written: str) -> str:
    """Keep the picture of a screen; return its text."""
    shown = terminal.screen(written)
    folder = Path(os.environ.get("COLLTUNE_TEST_ARTIFACTS") or "build") / "screens"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '-')}-{columns}.svg"
    path.write_text(terminal.svg(shown, columns), encoding="utf-8")
    return _CODES.sub("", shown)


def _too_long(text: str, columns: int) -> list[str]:
    """Return the lines beyond the width that could have been broken."""
    lines = [line for line in text.splitlines() if len(line) > columns]
    return [line for line in lines if not _COPIED.match(line) and " " in line.strip()]


@pytest.mark.parametrize("columns", _WIDTHS)
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_verb_stays_within_the_terminal(
    name: str, columns: int, measurements_csv: Path, bundle_path: Path, tmp_path: Path
) -> None:
    """No line is longer than the terminal is wide, but for what is to be copied."""
    words = (*_EXAMPLE, name, tmp_path, measurements_csv, bundle_path)
    status, written = terminal.run(words, columns=columns)
    text = _kept(name, columns, written)
    assert status in (0, 1), text
    assert "Traceback" not in text
    if name not in _TEXTS:
        assert _too_long(text, columns) == []


@pytest.mark.parametrize("columns", _WIDTHS)
def test_help_stays_within_the_terminal(columns: int) -> None:
    """Nor is a line of any help."""
    for name in dict.fromkeys(_HELP):
        status, written = terminal.run((*_COLLTUNE, *name.split(), "--help"), columns=columns)
        text = _kept(f"help {name}".strip(), columns, written)
        assert (status, _too_long(text, columns)) == (0, []), name
