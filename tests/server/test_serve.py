"""A real `colltune serve`: several workers, unix sockets, TLS, and its end."""

from __future__ import annotations

import shutil
import ssl
import stat
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


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Return a certificate for this host and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    key, made = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(key), "-out", str(made), "-days", "2")
    assert process.run([openssl, *words, *names, *files], timeout_s=PATIENCE_S).ok
    return made, key


def test_workers_answer_over_tls_and_count_together(
    bundle_path: Path, certificate: tuple[Path, Path]
) -> None:
    """Two workers behind one address give one answer over TLS, count as one, and end with 0."""
    made, key = certificate
    tls = ("--ssl-certfile", made, "--ssl-keyfile", key)
    with _TlsServer("--bundle", bundle_path, "--workers", 2, *tls, certificate=made) as server:
        assert server.address.startswith("https://")
        server.await_ready()
        # the other worker may still be looking at the bundle
        answers = [server.get(CONFIG) for _ in range(REQUESTS)]
        assert len({answer.body for answer in answers if answer.status == 200}) == 1
        route = 'colltune_http_requests_total{method="GET",route="/v1/config/{library}/{release}"'
        assert _sum(server.get("/metrics").body.decode(), route) == REQUESTS
        assert server.stop() == 0
        assert "Traceback" not in server.log()


def test_a_unix_socket_is_gone_afterwards(bundle_path: Path, tmp_path: Path) -> None:
    """The socket is its group's while the service lives, and removed at its end."""
    path = tmp_path / "s"
    with Server("--bundle", bundle_path, "--uds", path) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert server.get("/health/live").status == 200
        assert server.stop() == 0
        assert not path.exists()


class _TlsServer(Server):
    def __init__(self, *words: object, certificate: Path) -> None:
        super().__init__(*words)
        self._context = ssl.create_default_context(cafile=certificate)

    def connection(self, timeout_s: float = PATIENCE_S) -> HTTPSConnection:
        address = self.address.removeprefix("https://")
        return HTTPSConnection(address, timeout=timeout_s, context=self._context)
