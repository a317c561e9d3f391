"""The page on reading a rules file shows what the verbs really say of the file in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.pages import Command, Result

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "rules-file.md"
SHOWS_FILE, *COMMANDS = pages.commands_of(PAGE)
TIMEOUT_S = 300


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[Command, Result]:
    """Write the file that the page begins with; run all commands beside it."""
    folder = tmp_path_factory.mktemp("reader")
    assert SHOWS_FILE.text == "cat rules"
    (folder / "rules").write_text("\n".join(SHOWS_FILE.shown) + "\n", encoding="utf-8")
    found = [command for command in COMMANDS if pages.missing(command) is None]
    env = pages.environment(tmp_path_factory.mktemp("home"))
    return dict(zip(found, pages.run(found, folder, env, TIMEOUT_S), strict=True))


@pytest.mark.mpi
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command.line}")
def test_command_does_what_the_page_shows(command: Command, results: dict[Command, Result]) -> None:
    """It ends as the page says and prints what the page shows."""
    if (name := pages.missing(command)) is not None:
        pytest.skip(f"no {name} on PATH")
    complaint = pages.complaint(command, results[command])
    assert complaint is None, complaint
