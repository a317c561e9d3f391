"""Hooks: they tell what happened, keep their secret, and never change the result."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from colltune.errors import DataError
from colltune.retraining.nightly import notify
from colltune.retraining.site_file import Hooks, Webhook
from tests.retraining.site import launch, retrain, site_of


class _Listener(BaseHTTPRequestHandler):
    """Keeps what is posted; answers what ``answer`` says."""

    posted: ClassVar[list[tuple[str, dict[str, str], bytes]]] = []
    answer: ClassVar[int] = 204

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.posted.append((self.path, dict(self.headers), self.rfile.read(length)))
        self.send_response(self.answer)
        if 300 <= self.answer < 400:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield int(server.socket.getsockname()[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def web() -> Iterator[str]:
    """Return the URL of a web server that keeps what is posted."""
    _Listener.posted.clear()
    _Listener.answer = 204
    with _serving(HTTPServer(("127.0.0.1", 0), _Listener)) as port:
        yield f"http://127.0.0.1:{port}/hook"


def _secret(tmp_path: Path, content: bytes = b"s3cret\nignored\n") -> Path:
    path = tmp_path / "secret"
    path.write_bytes(content)
    return path


def test_a_webhook_gets_the_facts_and_the_secret(web: str, tmp_path: Path) -> None:
    """A POST of JSON arrives with the file's first line in the header that was asked for."""
    hooks = Hooks(webhook=Webhook(web, _secret(tmp_path), "X-Token"))
    assert notify(hooks, {"outcomes": ["kept"]}) == {"webhook": "sent"}
    ((path, headers, body),) = _Listener.posted
    assert path == "/hook"
    assert headers["X-Token"] == "s3cret"
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == {"outcomes": ["kept"]}


@pytest.mark.parametrize("answer", [302, 307, 404, 500])
def test_a_secret_goes_nowhere_else(web: str, tmp_path: Path, answer: int) -> None:
    """Redirections are not followed, and what is said of a failure holds no secret."""
    _Listener.answer = answer
    fared = notify(Hooks(webhook=Webhook(web, _secret(tmp_path))), {})
    assert fared == {"webhook": f"failed: {web} answers {answer}"}
    assert [path for path, _, _ in _Listener.posted] == ["/hook"]


def test_a_secret_that_is_none_is_not_sent(
    web: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A file whose first line cannot be a header is named, not quoted, and nothing is posted."""
    for content in (b"", b"\n", b"a\rb\n", b"\xff\xfe\n", "schlüssel".encode()):
        with subtests.test(content=content):
            path = _secret(tmp_path, content)
            fared = notify(Hooks(webhook=Webhook(web, path)), {})
            why = f"failed: hooks.webhook.secret_file {path}: the first line is not a secret"
            assert fared["webhook"].startswith(why)
            assert not _Listener.posted


def test_a_command_gets_the_facts_on_its_standard_input(tmp_path: Path) -> None:
    """Its arguments are taken as they are, without a shell; a bad end is told with its output."""
    got = tmp_path / "got; 'here'"
    fared = notify(Hooks(command=("dd", "status=none", f"of={got}")), {"outcomes": ["kept"]})
    assert fared == {"command": "sent"}
    assert json.loads(got.read_text()) == {"outcomes": ["kept"]}
    script = "cat; echo broken >&2; exit 3"
    failed = notify(Hooks(command=("sh", "-c", script)), {})["command"]
    assert failed.startswith("failed: command: sh -c")
    assert "status 3" in failed
    assert "broken" in failed
    assert "cannot start" in notify(Hooks(command=("/no/such/program",)), {})["command"]


def test_hooks_that_fail_change_nothing(tmp_path: Path) -> None:
    """Where nobody listens, or one listens and never answers, the night ends as it would have."""
    launch(tmp_path / "data", "launch 0", seed=0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        night = retrain(
            site_of(
                tmp_path,
                '[hooks]\ntimeout_s = 0.2\ncommand = ["sleep", "60"]\n'
                f'[hooks.webhook]\nurl = "http://127.0.0.1:{port}/"\n',
            )
        )
    assert night.exit_status == 0
    assert night.hooks["webhook"].startswith("failed: ")
    assert night.hooks["command"].startswith("failed: ")


def test_only_what_is_asked_for_is_told(web: str, tmp_path: Path) -> None:
    """A promotion and a failure are posted, a night without anything new is not."""
    launch(tmp_path / "data", "launch 0", seed=0)
    site = site_of(tmp_path, f'[hooks.webhook]\nurl = "{web}"\n')
    retrain(site)
    retrain(site)
    with pytest.raises(DataError):
        retrain(site, datasets=(str(tmp_path / "none"),))
    told = [json.loads(body) for _, _, body in _Listener.posted]
    assert [facts["outcomes"] for facts in told] == [["promoted"], ["failed"]]
    assert told[0]["slots"]["openmpi-4.1.4"]["outcome"] == "promoted"
    assert "none: no such file or folder" in told[1]["text"]
