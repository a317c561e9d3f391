"""A munged of the test's own, with its own key and socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("munged", "munge")
_PATIENCE_S = 120.0
_PATHS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing() -> str:
    """Return why there can be no munged here; empty if there can."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=_PATHS) is None]
    return f"no {' and no '.join(absent)} here" if absent else ""


def daemon(folder: Path, *options: str) -> list[str]:
    """Return the command that starts a munged with a new key, all in `folder`."""
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o400)
    program = shutil.which("munged", path=_PATHS)
    assert program is not None
    files = {"key-file": "key", "pid-file": "pid", "seed-file": "seed", "log-file": "log"}
    places = [f"--{option}={folder / file}" for option, file in files.items()]
    return [program, *options, f"--socket={folder / 'socket'}", *places]


@contextmanager
def munged() -> Iterator[Path]:
    """Yield the socket of a running munged, which ends afterwards."""
    # every user must be able to reach the socket, and its path must be short
    with tempfile.TemporaryDirectory(prefix="munged-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        socket, null = folder / "socket", subprocess.DEVNULL
        command = daemon(folder, "--foreground", "--num-threads=2")
        process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null)
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while not socket.exists():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield socket
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def credential(socket: Path, payload: str = "", *options: str) -> str:
    """Return a credential of this user."""
    program = shutil.which("munge", path=_PATHS)
    assert program is not None
    command = [program, f"--socket={socket}", *options]
    done = subprocess.run(
        command, input=payload, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
    )
    return done.stdout.strip()
