"""Standard output that is closed, full, or not of this language."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from colltune import process
from tests.cli.verb_examples import RULES

_COLLTUNE = shlex.join([sys.executable, "-m", "colltune.cli"])


def _shell(line: str, **variables: str) -> process.ProcessResult:
    """Run a line of bash in which ``colltune`` is the command line."""
    return process.run(
        ["bash", "-c", f'colltune() {{ {_COLLTUNE} "$@"; }}; {line}'],
        timeout_s=120,
        env={**os.environ, **variables},
    )


@pytest.mark.parametrize(
    ("verb", "status"),
    [("rules catalog openmpi@5.0.8", 0), ("rules lint nowhere.conf", 2), ("--help", 0)],
)
def test_a_reader_that_ends_early_changes_nothing(verb: str, status: int) -> None:
    """With ``| true`` there is no word on standard error, and the status is the work's."""
    done = _shell(f"colltune {verb} | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == (f"{status}\n", "")


def test_a_full_disk_is_one_clear_error() -> None:
    """What cannot be printed is told on standard error, with the status of outputs."""
    done = _shell("colltune rules catalog openmpi@5.0.8 > /dev/full; echo $?")
    assert done.stdout == "9\n"
    assert done.stderr.startswith("colltune: error: cannot write standard output: ")
    assert done.stderr.count("\n") == 1


def test_closed_streams_are_no_error(tmp_path: Path) -> None:
    """Started without any standard stream, a verb does its work, and its files are its own."""
    rules, out = tmp_path / "r.conf", tmp_path / "r.json"
    rules.write_text(RULES)
    words = "--to openmpi-json --from-release 5.0.8 --release 6.0.0"
    line = f"colltune rules convert {rules} {words} --out {out} <&- >&- 2>&-; echo $?"
    assert _shell(line).stdout == "0\n"
    assert out.read_text().startswith("{")


def test_names_and_signs_that_an_encoding_lacks_are_printed_all_the_same(tmp_path: Path) -> None:
    """A file's name that is no text, and characters that are not ASCII, bring nothing down."""
    path = os.fsencode(tmp_path / "µ×") + b"\xff.conf"
    Path(os.fsdecode(path)).write_text(RULES)
    line = f"colltune rules lint {shlex.quote(str(tmp_path))}/*.conf --release 5.0.8; echo $?"
    for variables in ({"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, {"LC_ALL": "C"}):
        done = _shell(line, **variables)
        assert done.stderr == ""
        assert done.stdout.endswith("\n0\n") or done.stdout.endswith("\n1\n")
        assert ".conf: openmpi-classic for" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_warnings_come_before_what_they_are_about(unbuffered: str, tmp_path: Path) -> None:
    """Both streams are written line by line, also with PYTHONUNBUFFERED."""
    line = f"colltune site token add ci --scope promote --tokens {tmp_path / 'tokens'} 2>&1"
    first, second = _shell(line, PYTHONUNBUFFERED=unbuffered).stdout.splitlines()
    assert first.startswith("colltune: the token")
    assert second.startswith("colltune_")
