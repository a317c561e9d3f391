"""A service copes with whoever starts it, and its workers with losing who started them."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from colltune import process
from tests.server.serving_process import COMMAND, PATIENCE_S, Server

SETTLE = """
import os, sys
from colltune.server.surroundings import settle_in
settle_in()
kinds = [os.fstat(n).st_rdev == os.stat(os.devnull).st_rdev for n in range(3)]
taken = os.open(os.devnull, os.O_RDONLY)
open(sys.argv[1], "w").write(f"{kinds} {taken > 2} {os.getcwd()}")
"""


def children(pid: int) -> list[int]:
    """Return the processes that a process started and that still run."""
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runs(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ('exec "$@" <&- >&- 2>&-', "[True, True, True] True"),
        ('exec "$@" >&-', "[True, True, False] True"),
        (
            'mkdir "$PWD/gone" && cd gone && rmdir "$PWD" && exec "$@"',
            "[True, False, False] True /",
        ),
    ],
)
def test_what_is_missing_is_made_up_for(script: str, expected: str, tmp_path: Path) -> None:
    """Closed standard streams are opened and a removed working folder is left."""
    told = tmp_path / "told"
    command = [sys.executable, "-c", SETTLE, str(told)]
    outcome = process.run(["sh", "-c", script, "sh", *command], cwd=tmp_path, timeout_s=PATIENCE_S)
    process.check(outcome, "settling in")
    assert told.read_text().startswith(expected)
    assert told.read_text().endswith(" /") == expected.endswith(" /")


def test_workers_end_with_who_started_them(bundle_path: Path, tmp_path: Path) -> None:
    """None of them holds the socket when the first process is killed; they started without cwd."""
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    gone = tmp_path / "gone"
    gone.mkdir()
    command = ("sh", "-c", script, str(gone), *COMMAND)
    with Server("--bundle", bundle_path, "--workers", 2, command=command) as server:
        server.await_ready()
        workers = children(server.pid)
        assert len(workers) >= 2
        os.kill(server.pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while any(runs(worker) for worker in workers):
            assert time.monotonic() < deadline, server.log()
            time.sleep(0.02)
        with pytest.raises(ConnectionRefusedError):
            server.get("/health/live")
