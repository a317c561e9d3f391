"""Starting programs."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from colltune import process
from colltune.errors import ProgramError, say
from tests.refusals import refused


def test_outputs_and_status_are_kept() -> None:
    """A finished program's outputs and status are there, and a bad status can be explained."""
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    outcome = process.run([sys.executable, "-c", code], timeout_s=20)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (3, "out\n", "err\n")
    with refused("program-failed", ProgramError, what="trying it", told=outcome.explain()):
        process.check(outcome, "trying it")


def test_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    """At its timeout a program is stopped together with what it started."""
    alive = tmp_path / "alive"
    child = f"import time; time.sleep(1.5); open({str(alive)!r}, 'w')"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    outcome = process.run([sys.executable, "-c", code], timeout_s=0.4)
    assert outcome.timed_out
    assert not outcome.ok
    time.sleep(1.6)
    assert not alive.exists()


def test_watcher_can_give_up() -> None:
    """A program is stopped when its watcher returns False for the first time."""
    answers = iter([True, False])
    outcome = process.run(["sleep", "600"], timeout_s=600, watch=lambda: next(answers))
    assert outcome.timed_out
    assert next(answers, None) is None


def test_a_moment_ends_programs_whatever_their_timeout() -> None:
    """The earliest of nested moments counts, with a watcher and without, and only in its block."""
    past = time.monotonic()
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    with process.ending_by(past), process.ending_by(past + 1000):
        assert process.latest() == past
        assert process.run(sleeping, timeout_s=60).timed_out
        assert process.run(sleeping, timeout_s=60, watch=lambda: True).timed_out
    assert process.run([sys.executable, "-c", ""], timeout_s=60).ok


def test_missing_program_is_named() -> None:
    """A program that is not there is named, with the mend."""
    with refused("program-missing", ProgramError, program="no-such-program", mend="install it"):
        process.find("no-such-program", "install it")
    with refused("cannot-start", ProgramError, program="/no/such/program"):
        process.run(["/no/such/program"], timeout_s=1)


def test_a_program_ends_with_a_killed_parent(tmp_path: Path) -> None:
    """After SIGKILL of the process that runs it, a program does not live on."""
    mark = tmp_path / "pid"
    script = f"echo $$ > {mark}; exec sleep 600"
    code = f"from colltune import process; process.run(['sh', '-c', {script!r}], timeout_s=600)"
    parent = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 300
    while not (mark.exists() and mark.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    child = Path(f"/proc/{mark.read_text().strip()}/stat")
    assert child.exists()
    parent.kill()
    parent.wait()
    while time.monotonic() < deadline and child.exists() and ") Z" not in child.read_text():
        time.sleep(0.05)
    assert not child.exists() or ") Z" in child.read_text()


def test_an_interrupt_while_a_program_is_started_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It takes effect once the program is there, and ends that program, too."""
    started: list[subprocess.Popen[str]] = []

    def interrupted(*words: object, **options: object) -> subprocess.Popen[str]:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        started.append(real(*words, **options))
        return started[0]

    real: Any = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    # tests that a shell runs in the background would ignore it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            process.run(["sleep", "600"], timeout_s=600.0, cwd=tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert started[0].returncode == -signal.SIGTERM


def test_what_failed_and_its_mend_are_told_apart() -> None:
    """They survive, with code and values, the way back from a worker."""
    error = say("program-missing", program="x", mend="try again")
    again = pickle.loads(pickle.dumps(error))
    for one in (error, again):
        assert (one.finding, one.mend) == ("program 'x' not found", "try again")
        assert str(one) == "program 'x' not found; try again"
        assert (one.code, one.values["program"]) == ("program-missing", "x")
