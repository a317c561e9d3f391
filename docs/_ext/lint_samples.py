"""Small tuning files with typical faults, and what the rules verbs really print of them."""

from __future__ import annotations

import io
import shlex
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from colltune.cli import main
from docs._ext.markdown import fenced
from docs._ext.verbs import broken

ROOT = Path(__file__).parents[2]
SAMPLES = Path("tests/mpi/lint_samples")
_HOME = "/home/me/colltune"
_WIDTH = 90


def sample(name: str) -> str:
    """Return a sample under its path."""
    path = SAMPLES / name
    return f"`{path}`:\n\n{fenced((ROOT / path).read_text(encoding='utf-8'))}"


def output(command: str) -> str:
    """Return a command of colltune at the top of a clone, what it prints and its exit status."""
    printed, status = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), 0
    with chdir(ROOT), redirect_stdout(printed), patch.object(sys, "argv", shlex.split(command)):
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    printed.seek(0)
    shown = printed.read().replace(str(ROOT), _HOME)
    return fenced(f"$ {broken(command, _WIDTH)}\n{shown}[exit status {status}]", "console")
