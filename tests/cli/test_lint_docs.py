"""docs/reference/lint.md shows what lint prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune.mpi.file_format import Fault
from tests.cli.conftest import Verb

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "lint.md"
SAMPLES = ROOT / "tests" / "mpi" / "lint_samples"
_BLOCK = re.compile(r"^```console\n\$ (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks() -> Iterator[tuple[str, str]]:
    """Yield the commands of the page with what they print; a command may go on on a next line."""
    for first, rest in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        command, printed = first, rest
        while command.endswith("\\"):
            more, _, printed = printed.partition("\n")
            command = command[:-1] + more.strip()
        yield command, printed


def test_the_page_shows_real_output(colltune: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the page prints what the page shows, and ends with the status shown."""
    monkeypatch.chdir(ROOT)
    for command, printed in _blocks():
        program, *words = shlex.split(command)
        assert program == "colltune"
        answer = colltune(*words)
        shown = answer.out.replace(str(ROOT), "/home/me/colltune")
        assert f"{shown}[exit status {answer.status}]\n" == printed, command


def test_every_sample_is_on_the_page() -> None:
    """No sample is left without what is said about it."""
    text = PAGE.read_text(encoding="utf-8")
    missing = [sample.name for sample in SAMPLES.iterdir() if f"/{sample.name}" not in text]
    assert missing == []


def test_every_fault_is_on_the_page() -> None:
    """The table explains each fault, with its severity."""
    text = PAGE.read_text(encoding="utf-8")
    assert [fault for fault in Fault if f"| `{fault}` | {fault.severity} |" not in text] == []
