"""The tutorial works as written: all its commands, in order, with the outputs that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs._ext import screens, terminal
from tests.docs import pages
from tests.docs.pages import Command, Result
from tests.docs.test_terminal import text_of

ROOT = Path(__file__).parents[2]
COMMANDS = pages.commands_of(ROOT / "docs" / "tutorial.md")
TIMEOUT_S = 600
# of a clone; what the commands write lies beside them
USED = ("Makefile", "setup.sh", "pyproject.toml", "requirements", "tests", "notebooks")

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


def test_pictures_show_what_is_printed() -> None:
    """Those that differ from no run to the next are today's screens; `make screens` renews them."""
    made = dict(screens.screens(["fit", "select", "select-one", "write", "lint"]))
    for name, shown in made.items():
        kept = (ROOT / f"docs/images/tutorial-{name}.svg").read_text(encoding="utf-8")
        now = terminal.svg(shown, screens.COLUMNS)
        assert _without_ids(text_of(kept)) == _without_ids(text_of(now)), name


def _without_ids(lines: list[str]) -> list[str]:
    return [re.sub(r"\b[0-9a-f]{12}\b", "…", line) for line in lines]
