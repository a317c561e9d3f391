"""A service copes with whoever starts it, its workers with losing who started them; its sockets."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import time
from pathlib import Path

import pytest

from colltune import process
from colltune.errors import OutputError
from colltune.server.supervisor import address, tcp_socket, unix_socket
from tests.refusals import refused
from tests.server.serving_process import COMMAND, PATIENCE_S, Server

SETTLE = """
import os, sys
from colltune.server.supervisor import settle_in
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


def test_a_free_port_is_told() -> None:
    """Port 0 takes a free one, which the address names; it cannot be taken twice."""
    with tcp_socket("127.0.0.1", 0) as one:
        port = one.getsockname()[1]
        assert address(one, tls=False) == f"http://127.0.0.1:{port}"
        assert address(one, tls=True) == f"https://127.0.0.1:{port}"
        one.listen()
        with refused("cannot-listen", OutputError, address=f"127.0.0.1 port {port}"):
            tcp_socket("127.0.0.1", port)


def test_an_address_of_nobody_is_an_error() -> None:
    """An address that this machine does not have, or that is none, is named."""
    for host in ("192.0.2.1", "no host"):
        with refused("cannot-listen", OutputError, address=f"{host} port 0"):
            tcp_socket(host, 0)


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_unix_socket_has_its_permissions(tmp_path: Path, mode: int) -> None:
    """The socket's file has the mode that was asked for."""
    path = tmp_path / "s"
    with unix_socket(path, mode) as one:
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert address(one, tls=False) == f"unix:{path}"


def test_only_a_socket_that_nobody_uses_is_replaced(tmp_path: Path) -> None:
    """What a dead service left is replaced; a living one's socket and any other file are not."""
    path = tmp_path / "s"
    unix_socket(path, 0o600).close()
    with unix_socket(path, 0o600) as alive:
        alive.listen()
        with refused("cannot-listen", OutputError, why="another service listens there"):
            unix_socket(path, 0o600)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    file = tmp_path / "f"
    file.write_text("mine")
    with refused("cannot-listen", OutputError, why="it exists and is not a socket"):
        unix_socket(file, 0o600)
    assert file.read_text() == "mine"
    with refused("cannot-listen", OutputError, option="--uds"):
        unix_socket(tmp_path / ("x" * 200), 0o600)
    with refused("cannot-listen", OutputError, option="--uds"):
        unix_socket(tmp_path / "no" / "s", 0o600)
