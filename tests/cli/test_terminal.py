"""What a user at a terminal sees while verbs are at work, and after."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from colltune import process
from colltune.dataset import read_parquet
from colltune.models.bundle import load
from tests.cli.on_terminal import Session
from tests.cli.verb_examples import CAMPAIGN

pytestmark = pytest.mark.slow

SLOW = (sys.executable, Path(__file__).with_name("slow_colltune.py"))
_IN_LAUNCH_2 = re.compile(r"bcast \w+, (8|64) B on \dx2 \(launch 2, \w+\)")
QUICK = (sys.executable, "-m", "colltune.cli")
TERMINAL = {"TERM": "xterm-256color", "PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONUTF8": "1"}
for _name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "HOME"):
    if _name in os.environ:
        TERMINAL[_name] = os.environ[_name]


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Return a campaign of 16 cells."""
    path = tmp_path / "c.toml"
    path.write_text(CAMPAIGN)
    return path


def test_measuring_shows_cells_budget_and_end_and_is_resumed_after_an_interrupt(
    campaign: Path, measurements_csv: Path, tmp_path: Path
) -> None:
    """What is measured, budget used and left, its end; Ctrl-C says that it goes on, and it does."""
    words = ("measure", campaign, "--replay", measurements_csv, "--out", tmp_path / "d")
    with Session((*SLOW, *words), TERMINAL) as session:
        session.wait_for(lambda screen: _IN_LAUNCH_2.search(screen.text))
        first, second = session.screen.text.splitlines()
        assert first.startswith("measuring ")
        assert "/16 cells, 0:0" in first
        assert " used, 1:" in first
        assert " left, ends by " in first
        assert second.startswith("  bcast ")
        session.type("\x03")
        assert session.end() == 130
    assert session.screen.text.removeprefix("^C") == (
        "colltune: error: interrupted; the measurements are kept. Run the same command again to go"
        " on."
    )
    kept = len(read_parquet(tmp_path / "d"))
    assert kept > 0
    goes_on = process.run([*map(str, (*QUICK, *words))], timeout_s=60)
    assert "resumed a killed run" in goes_on.stdout
    assert goes_on.stderr == ""
    assert len(read_parquet(tmp_path / "d")) > kept


def test_fitting_shows_configurations_and_the_time_left_and_leaves_nothing(
    measurements_csv: Path, tmp_path: Path
) -> None:
    """While it fits there is a bar with the time left; at the end only the result is there."""
    words = ("fit", measurements_csv, "--learner", "knn", "--out", tmp_path / "b")
    with Session((*SLOW, *words), TERMINAL) as session:
        session.wait_for(lambda screen: "/20 configurations, 0:0" in screen.text)
        session.wait_for(lambda screen: " so far, about 0:0" in screen.text)
        assert session.screen.text.splitlines()[1] == "  bcast: knn"
        assert session.screen.colours
        assert session.end() == 0
    # it is wrapped at 90 columns
    assert (
        session.screen.text.split()
        == (
            f"bundle {load(tmp_path / 'b').id[:12]} of hydra, openmpi 4.1.4, trimmed-mean times ->"
            f" {tmp_path / 'b'} bcast: 4 configurations, knn"
            " held out: 100% of the possible gain, 0.0% slower than the default, in 60 decisions"
        ).split()
    )


def test_an_interrupted_fit_writes_nothing_and_says_so(
    measurements_csv: Path, tmp_path: Path
) -> None:
    """Ctrl-C takes the bar away, says what is left, and the bundle that was there stays."""
    words = ("fit", measurements_csv, "--learner", "knn", "--out", tmp_path / "b")
    with Session((*SLOW, *words), TERMINAL, columns=40) as session:
        session.wait_for(lambda screen: "/20, about 0:0" in screen.text)
        assert max(map(len, session.screen.text.splitlines())) < 40
        session.type("\x03")
        assert session.end() == 130
    assert session.screen.text.removeprefix("^C") == (
        "colltune: error: interrupted; nothing was written"
    )
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("variables", "more", "seen"),
    [
        ({"NO_COLOR": "1", "PYTHONUTF8": "0", "LC_ALL": "C", "LANG": "C"}, (), True),
        ({"TERM": "dumb"}, (), False),
        ({}, ("--quiet",), False),
    ],
)
def test_who_wants_less_gets_less(
    variables: dict[str, str],
    more: tuple[str, ...],
    seen: bool,
    measurements_csv: Path,
    tmp_path: Path,
) -> None:
    """NO_COLOR has no colour, another locale no Unicode, a dumb terminal no escape sequence."""
    words = ("fit", measurements_csv, "--learner", "knn", "--out", tmp_path / "b", *more)
    told = tmp_path / "stdout"
    with Session((*SLOW, *words), TERMINAL | variables, out=told) as session:
        status = session.end()
    assert status == 0
    assert session.screen.text == ""
    assert ("configurations" in session.screen.raw) == seen
    assert ("\x1b" in session.screen.raw) == seen
    if "NO_COLOR" in variables:
        assert session.screen.colours == []
        assert session.screen.raw.isascii()
    assert "\x1b" not in told.read_text()


def test_statuses_have_colours_on_a_terminal_only(tmp_path: Path) -> None:
    """A warning is yellow for who looks at it; in a pipe the same text has no colour."""
    path = tmp_path / "rules"
    path.write_text("1\n7\n1\n4 2\n8192 3 0 0\n4096 9 0 0\n")
    words = (*QUICK, "rules", "lint", path, "--release", "5.0.8")
    with Session(words, TERMINAL, columns=500) as session:
        assert session.end() == 1
    piped = process.run([*map(str, words)], timeout_s=60)
    assert f"{path}:6: \x1b[33mwarning\x1b[0m: message size 4096" in session.screen.raw
    assert session.screen.text == piped.stdout.rstrip("\n")


def test_a_killed_verb_takes_its_progress_away(measurements_csv: Path, tmp_path: Path) -> None:
    """SIGTERM ends a fit as Ctrl-C does."""
    words = ("fit", measurements_csv, "--learner", "knn", "--out", tmp_path / "b")
    with Session((*SLOW, *words), TERMINAL) as session:
        session.wait_for(lambda screen: "fitting" in screen.text)
        os.kill(session.pid, signal.SIGTERM)
        assert session.end() == 130
    assert session.screen.text == "colltune: error: interrupted; nothing was written"
