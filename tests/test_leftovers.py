"""What a launch leaves behind is found by its mark, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune import leftovers, process

_WAIT_S = 60.0
_SLEEP = "import time; time.sleep(600)"


def _daemon(file: Path, then: str = "") -> list[str]:
    """Return a program that leaves one behind in a session of its own, and tells its id."""
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', {_SLEEP!r}], start_new_session=True,"
        " stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        f"open({str(file)!r}, 'w').write(str(p.pid))\n{then}"
    )
    return [sys.executable, "-c", code]


def _is_gone(pid: int) -> bool:
    ends = time.monotonic() + _WAIT_S
    while time.monotonic() < ends:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def marked() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Return a dict of processes to be ended after the test."""
    found: dict[str, subprocess.Popen[bytes]] = {}
    yield found
    for one in found.values():
        one.kill()
        one.wait()


def _sleeping(mark: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {leftovers.MARK: mark}
    found = subprocess.Popen([sys.executable, "-c", _SLEEP], env=environment)
    # until it has its own environment it has this process's
    while leftovers.MARK.encode() not in Path(f"/proc/{found.pid}/environ").read_bytes():
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("then", ["", "time.sleep(600)", "sys.exit(3)"])
def test_a_daemon_ends_with_its_launch(tmp_path: Path, then: str) -> None:
    """However the launch ends, by itself, badly or at its time, nothing is left of it."""
    file = tmp_path / "pid"

    def go_on() -> bool:
        return not file.exists() or not file.read_text()

    watch = go_on if "sleep" in then else None
    outcome = process.run(
        _daemon(file, then), timeout_s=_WAIT_S, watch=watch, mark=leftovers.new_mark()
    )
    assert outcome.timed_out == ("sleep" in then)
    assert _is_gone(int(file.read_text()))


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    """The daemon of a launch that is interrupted ends, too."""
    file = tmp_path / "pid"

    def interrupt() -> bool:
        if file.exists() and file.read_text():
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        process.run(
            _daemon(file, "time.sleep(600)"),
            timeout_s=_WAIT_S,
            watch=interrupt,
            mark=leftovers.new_mark(),
        )
    assert _is_gone(int(file.read_text()))


def test_what_a_killed_run_left_is_told_from_what_is_in_use(
    marked: dict[str, subprocess.Popen[bytes]],
) -> None:
    """Only marks of a dead process of this host and namespace are orphans'."""
    own = leftovers.new_mark()
    host, namespace, pid, started, token = own.split("/")
    marks = {
        "own": own,
        "dead": "/".join((host, namespace, pid, "1", token)),
        "elsewhere": "/".join(("other-host", namespace, pid, "1", token)),
        "inside": "/".join((host, "1", pid, "1", token)),
        "strange": "mine",
    }
    marked |= {name: _sleeping(mark) for name, mark in marks.items()}
    assert started != "1"
    assert leftovers.end_orphans() == (marked["dead"].pid,)
    assert marked["dead"].wait(_WAIT_S) == -signal.SIGTERM
    assert all(one.poll() is None for name, one in marked.items() if name != "dead")


def test_words_end_what_a_node_has(marked: dict[str, subprocess.Popen[bytes]]) -> None:
    """The program that is started on other nodes ends exactly what has the mark."""
    first, second = leftovers.new_mark(), leftovers.new_mark()
    marked |= {"first": _sleeping(first), "second": _sleeping(second)}
    words = list(leftovers.ending_words(first))
    assert process.run(words, timeout_s=_WAIT_S, mark=leftovers.new_mark()).ok
    assert marked["first"].wait(_WAIT_S) == -signal.SIGKILL
    assert marked["second"].poll() is None


def test_who_ignores_the_signal_is_killed(marked: dict[str, subprocess.Popen[bytes]]) -> None:
    """A process that does not end when it is asked to is ended by force."""
    mark = leftovers.new_mark()
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); "
    marked["deaf"] = subprocess.Popen(
        [sys.executable, "-c", code + _SLEEP],
        env=os.environ | {leftovers.MARK: mark},
        stdout=subprocess.PIPE,
    )
    assert marked["deaf"].stdout is not None
    marked["deaf"].stdout.readline()
    marked["deaf"].stdout.close()
    assert leftovers.end_marked(mark) == (marked["deaf"].pid,)
    assert marked["deaf"].wait(_WAIT_S) == -signal.SIGKILL
