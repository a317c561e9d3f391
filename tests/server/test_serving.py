"""A real `colltune serve`: several workers, unix sockets, TLS, and its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import stat
import time
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from colltune import process
from tests.server.serving_process import PATIENCE_S, Server

CONFIG = "/v1/config/openmpi/4.1.4?nodes=8&ppn=4"
REQUESTS = 24


def _sum(text: str, name: str) -> float:
    lines = [line for line in text.splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def _workers(server: Server) -> set[int]:
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    told = [line["event"] for line in lines if line["event"].startswith("Started server process")]
    return {int(line.partition("[")[2].rstrip("]")) for line in told}


def test_workers_answer_and_count_together(bundle_path: Path, tmp_path: Path) -> None:
    """Two workers on one unix socket count as one, one that dies is replaced, all end at once."""
    path = tmp_path / "s"
    with Server("--bundle", bundle_path, "--workers", 2, "--uds", path) as server:
        server.await_ready()
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        answers = {server.get(CONFIG).body for _ in range(REQUESTS)}
        assert len(answers) == 1
        route = 'colltune_http_requests_total{method="GET",route="/v1/config/{library}/{release}"'
        assert _sum(server.get("/metrics").body.decode(), route) == REQUESTS
        deadline = time.monotonic() + PATIENCE_S
        while len(_workers(server)) < 2:
            assert time.monotonic() < deadline, server.log()
            time.sleep(0.02)
        os.kill(min(_workers(server)), signal.SIGKILL)
        while len(_workers(server)) < 3:
            assert time.monotonic() < deadline, server.log()
            time.sleep(0.02)
        server.await_ready()
        assert server.get(CONFIG).status == 200
        assert server.stop() == 0
        assert not path.exists()


def test_tls_is_uvicorns(bundle_path: Path, tmp_path: Path) -> None:
    """With certificate and key it answers over TLS, and ends with status 0 when told to."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(key), "-out", str(certificate), "-days", "2")
    assert process.run([openssl, *words, *names, *files], timeout_s=PATIENCE_S).ok
    tls = ("--ssl-certfile", certificate, "--ssl-keyfile", key)
    with _TlsServer("--bundle", bundle_path, *tls, certificate=certificate) as server:
        assert server.address.startswith("https://")
        server.await_ready()
        assert server.get(CONFIG).status == 200
        assert server.stop() == 0
        assert "Traceback" not in server.log()


class _TlsServer(Server):
    def __init__(self, *words: object, certificate: Path) -> None:
        super().__init__(*words)
        self._context = ssl.create_default_context(cafile=certificate)

    def connection(self, timeout_s: float = PATIENCE_S) -> HTTPSConnection:
        address = self.address.removeprefix("https://")
        return HTTPSConnection(address, timeout=timeout_s, context=self._context)
