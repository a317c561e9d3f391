"""A `colltune serve` in a process of its own, asked over its unix socket or TCP."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

PATIENCE_S = 120.0
COMMAND = (sys.executable, "-m", "colltune.cli")


@dataclass(frozen=True)
class Response:
    """What a server answered; names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body, parsed."""
        return json.loads(self.body)


class Server:
    """A running server; a context manager that ends it, by force if need be.

    Parameters
    ----------
    words
        Options of `colltune serve`.
    command
        How colltune is started.
    environment
        Variables beside this process's; None takes one away.
    """

    def __init__(
        self,
        *words: object,
        command: Sequence[str] = COMMAND,
        environment: Mapping[str, str | None] | None = None,
    ) -> None:
        self._words = [str(word) for word in words]
        self._command = command
        changed = dict(os.environ) | dict(environment or {})
        self._environment = {n: v for n, v in changed.items() if v is not None}
        self._log = tempfile.TemporaryFile("a+")  # noqa: SIM115
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def __enter__(self) -> Self:
        listens = [] if "--uds" in self._words else ["--port", "0"]
        self._process = subprocess.Popen(
            [*self._command, "serve", *self._words, *listens],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self._await_address()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    @property
    def pid(self) -> int:
        """Of the process that was started: the only worker, or their parent."""
        assert self._process is not None
        return self._process.pid

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """Tell it to end, as systemd and containers do; return its exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout_s)

    def connection(self, timeout_s: float = PATIENCE_S) -> HTTPConnection:
        """Return a connection to it, not yet opened."""
        if self.address.startswith("unix:"):
            return _UnixConnection(self.address.removeprefix("unix:"), timeout_s)
        return HTTPConnection(self.address.removeprefix("http://"), timeout=timeout_s)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Response:
        """Ask for `path` on a new connection."""
        return self._ask("GET", path, headers or {}, None)

    def post(self, path: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """Send `body` to `path` on a new connection."""
        return self._ask("POST", path, headers, body)

    def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        connection = self.connection()
        try:
            connection.request(method, path, body=body, headers=dict(headers))
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, named, answer.read())
        finally:
            connection.close()

    def await_ready(self) -> None:
        """Wait until it has loaded a bundle."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self.get("/health/ready")).status != 200:
            assert time.monotonic() < deadline, answer.body
            time.sleep(0.02)

    def log(self) -> str:
        """Return what it has printed."""
        self._log.flush()
        at = self._log.seek(0, os.SEEK_END)
        return os.pread(self._log.fileno(), at, 0).decode(errors="replace")

    def _await_address(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE_S
        while not self.address:
            for line in self.log().splitlines():
                if '"event": "listening"' in line:
                    self.address = json.loads(line)["address"]
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            select.select([], [], [], 0.02)
        while not self._is_listening():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def _is_listening(self) -> bool:
        connection = self.connection()
        try:
            connection.connect()
        except ConnectionRefusedError:
            return False
        finally:
            connection.close()
        return True


class _UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("colltune", timeout=timeout_s)
        self._path = Path(path)

    def connect(self) -> None:
        """Connect to the socket in place of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
