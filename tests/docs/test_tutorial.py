"""The tutorial works as written: all its commands, in order, with the outputs that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.pages import Command, Result

ROOT = Path(__file__).parents[2]
COMMANDS = pages.commands_of(ROOT / "docs" / "tutorial.md")
TIMEOUT_S = 600
# of a clone; what the commands write lies beside them
USED = ("Makefile", "setup.sh", "pyproject.toml", "requirements.lock", "tests", "notebooks")
_BUDGET = re.compile(r"--budget (\d+)(s?)")
# installing is tested where the tests are run from: `make test` begins with it
_SETUP = ("make setup", "make --dry-run setup")

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[Command, Result]:
    """Run the tutorial in what looks like a clone; return how each command ended."""
    clone = tmp_path_factory.mktemp("clone")
    for name in USED:
        (clone / name).symlink_to(ROOT / name)
    run = [command for command in COMMANDS if pages.missing(command) is None]
    env = pages.environment(tmp_path_factory.mktemp("home"))
    return dict(zip(run, pages.run(run, clone, env, TIMEOUT_S), strict=True))


@pytest.mark.parametrize(
    "command", COMMANDS, ids=lambda command: f"{command.line}: {command.text.splitlines()[0][:60]}"
)
def test_command_does_what_the_tutorial_shows(
    command: Command, results: dict[Command, Result]
) -> None:
    """It ends as the page says and prints what the page shows."""
    if (name := pages.missing(command)) is not None:
        pytest.skip(f"no {name} on PATH")
    complaint = pages.complaint(command, results[command])
    assert complaint is None, complaint


def test_the_test_changes_nothing_but_budgets_and_the_set_up() -> None:
    """What the page's source lets a test run instead is a shorter budget, or no installation."""
    for old, new in {pair for command in COMMANDS for pair in command.replaced}:
        if (old, new) != _SETUP:
            long, short = _BUDGET.fullmatch(old), _BUDGET.fullmatch(new)
            assert long is not None
            assert short is not None
            assert int(short[1]) < int(long[1])


def test_all_commands_of_the_tutorial_are_tested() -> None:
    """The page has no shell block of another kind, whose commands no test would run."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^```(\w+)$", text, re.MULTILINE)) <= {"console", "text"}
    assert all(command.prompt == "$ " for command in COMMANDS)
