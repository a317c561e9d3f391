"""Manual pages say what the command line's help says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from colltune import process
from colltune.cli.app import VERBS
from colltune.errors import EXIT_STATUSES
from docs._ext import man_pages
from docs._ext.verbs import command_line

ROOT = Path(__file__).parents[2]
PAGES = man_pages.pages()


def test_there_is_a_page_for_the_command_line_and_each_verb() -> None:
    """`man colltune` and `man colltune-select` are both found."""
    assert set(PAGES) == {"colltune.1", *(f"colltune-{verb}.1" for verb in VERBS)}


def test_the_pages_in_the_repository_are_those_of_the_code() -> None:
    """What a wheel brings along is what the help says now; if not, `make man` mends it."""
    there = {
        file.name: file.read_text("utf-8") for file in (ROOT / "packaging" / "man").glob("*.1")
    }
    assert sorted(there) == sorted(PAGES)
    assert [name for name, text in PAGES.items() if there[name] != text] == [], "run make man"


def test_a_page_has_the_sections_that_man_pages_have() -> None:
    """Name, synopsis, options, examples and statuses stand in the usual order."""
    titles = re.findall(r'^\.SH "(.*)"$', PAGES["colltune-select.1"], re.MULTILINE)
    assert titles == [
        *("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO")
    ]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_reads_all_pages_without_a_warning(tmp_path: Path) -> None:
    """No request or escape is unknown, and the text that comes out has every option and status."""
    man_pages.write(tmp_path)
    for verb in command_line().parts:
        page = tmp_path / f"{verb.name.replace(' ', '-')}.1"
        outcome = process.run(["groff", "-man", "-k", "-ww", "-Tutf8", page], timeout_s=60)
        assert (outcome.returncode, outcome.stderr) == (0, "")
        text = " ".join(re.sub(r"\x1b\[[0-9;]*m|.\x08", "", outcome.stdout).split())
        assert all(option.form in text for option in verb.options), page.name
        assert all(meaning[1:] in text for meaning in EXIT_STATUSES.values())


def test_text_means_nothing_to_roff() -> None:
    """Backslashes, quotes and a full stop at the beginning of a line stay what they are."""
    assert man_pages.prose(".x -a `b` \\n 'c'") == ("\\&.x \\fB\\-a\\fR b \\en \\(aqc\\(aq")


def test_pages_of_verbs_that_are_no_more_are_removed(tmp_path: Path) -> None:
    """Writing replaces what is there, and leaves nothing else of colltune's behind."""
    (tmp_path / "colltune-gone.1").write_text("")
    (tmp_path / "other.1").write_text("")
    man_pages.write(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {*PAGES, "other.1"}
