"""docs/reference/lint*.md show every sample and fault; what lint prints of them is made there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colltune.mpi.rules import Fault
from docs._ext import lint_samples

ROOT = Path(__file__).parents[2]
PAGES = [*(ROOT / "docs" / "reference").glob("lint*.md")]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
COMMANDS = re.findall(r"^```\{generated\} output (.*)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_pages_judge_a_file(command: str) -> None:
    """Each is a command of colltune that reads its file and tells of no place of this machine."""
    shown = lint_samples.output(command)
    assert re.search(r"\n\[exit status [01]\]\n```", shown)
    assert len(shown) > len(command) + 100
    assert str(ROOT) not in shown


def test_every_sample_is_on_a_page() -> None:
    """No sample is left without what is said about it and what is printed of it."""
    names = {sample.name for sample in (ROOT / lint_samples.SAMPLES).iterdir()}
    assert set(re.findall(r"^```\{generated\} lint-sample (.*)$", TEXT, re.MULTILINE)) == names
    assert [name for name in names if not any(f"/{name}" in command for command in COMMANDS)] == []


def test_every_fault_is_on_the_page() -> None:
    """The table explains each fault, with its severity."""
    assert [fault for fault in Fault if f"| `{fault}` | {fault.severity} |" not in TEXT] == []
