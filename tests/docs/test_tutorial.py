"""The tutorial works as written: all its commands, in order, with the outputs that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.pages import Command, Result

ROOT = Path(__file__).parents[2]
COMMANDS = pages.commands_of(ROOT / "docs" / "tutorial.md")
TIMEOUT_S = 600
# of a clone; what the commands write lies beside them
USED = ("Makefile", "setup.sh", "pyproject.toml", "requirements.lock", "tests", "notebooks")

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
