"""What verbs show on terminals of 80 and of 200 columns, kept as pictures in build/screens."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from docs._ext import terminal
from tests.cli.verb_examples import EXAMPLES

pytestmark = pytest.mark.slow

_CALLS = (sys.executable, "-m", "tests.cli.example_colltune")
_TIMEOUT_S = 1800.0
_END = re.compile(r"\f(.*): (\d+)\r?\n")
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COPIED = re.compile(
    r"\s*(-> |export |mpirun |colltune |sudo |sh |add to the job: |or start it with: )"
)
"""Commands and mends, which stay whole to be copied."""
_TEXTS = (
    *("submit", "rules convert", "site retrain", "site slurm hooks", "site token add"),
    "site upgrade",
)
"""What prints the text of a file, a difference, or a secret."""


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


@pytest.mark.parametrize("columns", [80, 200])
def test_screens_stay_within_the_terminal(
    columns: int, measurements_csv: Path, bundle_path: Path, tmp_path: Path
) -> None:
    """No verb and no help prints a line beyond the width, but for what is to be copied."""
    words = (*_CALLS, tmp_path, measurements_csv, bundle_path)
    status, written = terminal.run(words, columns=columns, timeout_s=_TIMEOUT_S)
    *parts, rest = _END.split(written)
    assert (status, rest) == (0, "")
    names = parts[1::3]
    assert set(names) > set(EXAMPLES)
    for printed, name, ended in zip(parts[::3], names, parts[2::3], strict=True):
        text = _kept(name, columns, printed)
        assert ended in "01", f"{name}: {text}"
        assert "Traceback" not in text, name
        assert name in _TEXTS or _too_long(text, columns) == [], name
