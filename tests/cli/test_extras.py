"""What an extra brings is asked for by its name, before any work is done."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from colltune import process
from colltune.errors import ProgramError

DATA = Path(__file__).parents[1] / "data" / "small_cluster.csv"
# as if what the first argument names were not installed
WITHOUT = """
import sys

sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
from colltune.cli import main

main()
"""
FIT = ("fit", DATA, "--out", "out")


@pytest.mark.parametrize(
    ("words", "absent", "extra"),
    [
        (("plot", "curves", DATA, "--out", "a.png"), "matplotlib", "plots"),
        (("data", "noise", DATA, "--picture", "a.png"), "matplotlib", "plots"),
        (("evaluate", DATA, "--suite", "paper", "--out", "out"), "matplotlib", "plots"),
        (("evaluate", DATA, "--suite", "paper", "--json"), "xgboost", "learners"),
        ((*FIT, "--learner", "gam"), "pygam", "learners"),
        ((*FIT, "--backend", "dask"), "distributed", "dask"),
        (("serve", "--registry", "registry"), "fastapi,uvicorn", "service"),
    ],
)
def test_a_missing_extra_is_named(
    words: tuple[object, ...], absent: str, extra: str, tmp_path: Path
) -> None:
    """One line tells what is missing and which command brings it; nothing is written."""
    command = [sys.executable, "-c", WITHOUT, absent, *map(str, words)]
    outcome = process.run(command, cwd=tmp_path, timeout_s=60)
    assert outcome.returncode == ProgramError.exit_status
    missing = " and ".join(absent.split(","))
    assert outcome.stderr.splitlines() == [
        f"colltune: error: this needs {missing}, which the extra {extra!r} brings:"
        f" pip install 'colltune[{extra}]' (in a clone: make setup)"
    ]
    assert outcome.stdout == ""
    assert not list(tmp_path.iterdir())
