"""No secret is written anywhere."""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path

from colltune.server.supervisor import without_secrets
from tests.server import writable
from tests.server.serving_process import Server

CREDENTIAL = "MUNGE:AwQFAADsecretsecretsecret:"
SECRETS = (*(t for t in (writable.EVERYTHING, writable.ONLY_REPORTS)), CREDENTIAL, "pa55word")


def _ask(connection: HTTPConnection, verb: str, path: str, **headers: str) -> int:
    connection.request(verb, path, headers=headers, body=b"x" if verb == "POST" else None)
    answer = connection.getresponse()
    content = answer.read() + str(answer.getheaders()).encode()
    assert not any(secret.encode() in content for secret in SECRETS)
    return answer.status


def test_no_secret_is_logged_or_answered(tmp_path: Path) -> None:
    """With everything logged, good, bad, misplaced and malformed secrets appear nowhere."""
    _, first, _second = writable.filled(tmp_path)
    folders = [f"--{name}={tmp_path / name}" for name in ("registry", "data", "tokens")]
    everything = ["--access-log", "--log-level", "DEBUG"]
    with Server(*folders, *everything) as server:
        server.await_ready()
        promote = f"/v1/bundles/{first}/promote"
        good, sends = (f"Bearer {t}" for t in (writable.EVERYTHING, writable.ONLY_REPORTS))
        cases = [
            ("POST", promote, good, 200),
            ("POST", promote, sends, 403),
            ("POST", "/v1/summaries", good, 403),
            ("POST", promote, f"{good}x", 401),
            ("POST", promote, writable.EVERYTHING, 401),
            ("POST", promote, f"MUNGE {CREDENTIAL}", 401),
            ("POST", promote, "Basic pa55word", 401),
            ("GET", "/v1/bundles", good, 200),
            ("GET", f"/v1/bundles?token={writable.EVERYTHING}", good, 200),
            ("POST", f"{promote}?token={writable.EVERYTHING}", good, 422),
            ("GET", f"/v1/select?nodes={writable.EVERYTHING}", good, 422),
        ]
        for verb, path, authorization, status in cases:
            connection = server.connection()
            assert _ask(connection, verb, path, Authorization=authorization) == status, path
            connection.close()
        connection = server.connection()
        connection.connect()
        connection.sock.sendall(f"GET / HTTP/1.1\r\nAuthorization {good}\r\n\r\n".encode())
        assert writable.EVERYTHING.encode() not in connection.sock.recv(1 << 16)
        connection.close()
        assert server.stop() == 0
        log = server.log()
    assert f'"path": "{promote}"' in log
    assert '"who": "all (token)"' in log
    assert "the token reports does not have the scope promote" in log
    assert not any(secret in log for secret in SECRETS)
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(written) > 5
    assert not any(secret.encode() in p.read_bytes() for p in written for secret in SECRETS)


def test_what_looks_like_a_secret_is_hidden_wherever_it_stands() -> None:
    """Also in a message that quotes a request; words that merely speak of it are not."""
    event = {
        "a": f"got Bearer {writable.EVERYTHING}, no",
        "b": f"MUNGE {CREDENTIAL} end",
        "c": f"/v1?x={writable.EVERYTHING}",
        "d": "this MUNGE credential is expired; the bearer tokens of colltune_server",
        "Authorization": "x",
    }
    hidden = without_secrets(None, "", dict(event))
    assert not any(secret in str(hidden) for secret in SECRETS)
    assert hidden["d"] == event["d"].replace("bearer tokens", "bearer [hidden]")
    assert hidden["Authorization"] == "[hidden]"
