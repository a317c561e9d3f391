"""A gigabyte sent to a real service."""

from __future__ import annotations

import http.client
import select
from contextlib import suppress
from pathlib import Path

import pytest

from tests.server import writable
from tests.server.serving_process import Server

GIGABYTE = 1 << 30
CHUNK = b"10000\r\n" + b"x" * (1 << 16) + b"\r\n"
MOST_GROWTH_BYTES = 20 << 20


def _memory_bytes(server: Server) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024


def _sent(connection: http.client.HTTPConnection, piece: bytes) -> int:
    """Send pieces until there is an answer, or nobody takes them; return how much was taken."""
    taken = 0
    with suppress(OSError):
        while taken < GIGABYTE and not select.select([connection.sock], [], [], 0)[0]:
            connection.sock.sendall(piece)
            taken += len(piece)
    return taken


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' /proc")
def test_a_gigabyte_is_cut_off_without_growth(tmp_path: Path) -> None:
    """Told beforehand or in chunks, with a token or without; afterwards all is as before."""
    writable.filled(tmp_path)
    folders = [f"--{name}={tmp_path / name}" for name in ("registry", "data", "tokens")]
    limit = {"COLLTUNE_SERVER_MAX_BODY_BYTES": str(1 << 20)}
    with Server(*folders, environment=limit) as server:
        server.await_ready()
        before = _memory_bytes(server)
        told = {"Content-Length": str(GIGABYTE)}
        untold = {"Transfer-Encoding": "chunked"}
        for headers, piece, status in (
            (told | writable.bearer(), b"x" * (1 << 16), 413),
            (untold | writable.bearer(), CHUNK, 413),
            (untold, CHUNK, 401),
        ):
            connection = server.connection()
            connection.putrequest("POST", "/v1/measurements")
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            assert _sent(connection, piece) < GIGABYTE // 8
            assert connection.getresponse().status == status
            # who goes on sending fills no memory
            with suppress(OSError):
                connection.sock.sendall(piece * 1000)
            connection.close()
        assert _memory_bytes(server) - before < MOST_GROWTH_BYTES
        assert server.get("/health/ready").status == 200
        assert server.get("/v1/bundles").status == 200
    assert not list((tmp_path / "data").glob("[!.]*"))
