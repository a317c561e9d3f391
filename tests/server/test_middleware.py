"""What keeps browsers from misusing the service: headers of every answer, and the Host header."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from colltune.server import middleware
from colltune.server.answers import PAGE_POLICY
from colltune.server.middleware import ALWAYS, CLOSED, Hosts
from tests.server.serving_process import Server

JOB = "/v1/config/openmpi/4.1.4?nodes=4&ppn=4"
SELECT = "/v1/select?nodes=4&ppn=4"
POLICY = "content-security-policy"
NOTHING = dict(CLOSED)[POLICY.encode()].decode()


def insist(headers: object, policy: str) -> None:
    """Insist on the headers of every answer, each once, with this content policy."""
    found = [(k.decode().lower(), v.decode()) for k, v in headers.raw]  # type: ignore[attr-defined]
    for name, value in (*((k.decode(), v.decode()) for k, v in ALWAYS), (POLICY, policy)):
        assert [v for k, v in found if k == name] == [value]


def test_every_answer_is_protected(client: TestClient, subtests: pytest.Subtests) -> None:
    """Errors, too; and what is answered a second time, from what is kept."""
    for method, path, status, policy in (
        ("GET", "/", 200, PAGE_POLICY),
        ("GET", "/page/app.js", 200, PAGE_POLICY),
        ("GET", "/openapi.json", 200, NOTHING),
        ("GET", "/metrics", 200, NOTHING),
        ("GET", "/health/live", 200, NOTHING),
        ("GET", "/v1/bundles", 200, NOTHING),
        ("GET", "/v1/view", 200, NOTHING),
        ("GET", JOB, 200, NOTHING),
        ("HEAD", SELECT, 200, NOTHING),
        ("GET", "/nowhere", 404, NOTHING),
        ("GET", "/page/nothing.js", 404, NOTHING),
        ("GET", "/v1/bundles/0000/report", 404, NOTHING),
        ("DELETE", "/", 405, NOTHING),
        ("GET", "/" + "a" * 2000, 414, NOTHING),
        ("GET", "/v1/select?nodes=x", 422, NOTHING),
        ("POST", "/v1/summaries", 403, NOTHING),
    ):
        with subtests.test(method=method, path=path, status=status, policy=policy):
            for _ in range(2):
                answer = client.request(method, path)
                assert answer.status_code == status, answer.text
                insist(answer.headers, policy)


def test_what_is_not_modified_is_protected(client: TestClient, subtests: pytest.Subtests) -> None:
    """A browser may take the headers of a 304 for those of what it has."""
    report = f"/v1/bundles/{client.get('/v1/bundles').json()['bundles'][0]['id']}/report"
    for path in ("/", "/page/app.js", JOB, SELECT, "/v1/view", report):
        with subtests.test(path=path):
            first = client.get(path)
            again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
            assert again.status_code == 304
            assert again.headers[POLICY] == first.headers[POLICY]
            insist(again.headers, first.headers[POLICY])
            if path.endswith("report"):
                assert "script-src 'sha256-" in first.headers[POLICY]


def asked(host: bytes | None, over: object = ("10.0.0.1", 80)) -> dict[str, object]:
    """Return a request, as ASGI has it."""
    return {"headers": [] if host is None else [(b"host", host)], "server": over}


GOOD = (
    *(b"127.0.0.1", b"127.0.0.1:8765", b"10.1.2.3:80", b"[::1]:8765", b"[fe80::1]"),
    *(b"localhost:8765", b"LOCALHOST", b"a.localhost:1", b"tuning", b"tuning:8765", b"node_7"),
)
BAD = (
    *(b"evil.example", b"evil.example:8765", b"127.0.0.1.evil.example", b"localhost.evil.example"),
    *(b"[::1].evil.example", b"a b", b"evil.example.", b"\xe9vil.example", b"a/b", b"x..y"),
)


def test_addresses_and_local_names_are_good(subtests: pytest.Subtests) -> None:
    """Nobody else can have them, so that probes by address and names of a site work."""
    for host in GOOD:
        with subtests.test(host=host):
            assert Hosts(()).allow(asked(host))


def test_names_that_anybody_can_have_are_not(subtests: pytest.Subtests) -> None:
    """Over TCP; over a unix socket, which no browser reaches, only if names are configured."""
    for host in BAD:
        with subtests.test(host=host):
            hosts = Hosts(())
            assert not hosts.allow(asked(host))
            assert not hosts.allow(asked(host))
            for unix in (None, ("/run/socket", None)):
                assert hosts.allow(asked(host, unix))
                assert not Hosts(["tuning.example.org"]).allow(asked(host, unix))


def test_configured_names_are_good() -> None:
    """As they are, with any port and case; all below one; all."""
    hosts = Hosts(["Tuning.example.org", "*.cluster.example"])
    for host in (b"tuning.example.org", b"TUNING.example.org.:80", b"a.b.cluster.example:8765"):
        assert hosts.allow(asked(host))
    for host in (b"x.tuning.example.org", b"cluster.example", b"evilcluster.example"):
        assert not hosts.allow(asked(host))
    assert Hosts(["*"]).allow(asked(b"evil.example"))


def test_this_machines_own_names_are_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system tells them."""
    monkeypatch.setattr(middleware, "_own_names", lambda: frozenset({"login1.cluster.example"}))
    assert Hosts(()).allow(asked(b"login1.cluster.example:8765"))
    assert not Hosts(()).allow(asked(b"login2.cluster.example:8765"))


def test_a_request_names_one_host_or_none() -> None:
    """HTTP/1.0 has no Host header; two of them are an attack."""
    assert Hosts(()).allow(asked(None))
    assert not Hosts(()).allow({"headers": 2 * [(b"host", b"127.0.0.1")], "server": ("a", 1)})


def test_another_name_gets_nothing(client: TestClient, subtests: pytest.Subtests) -> None:
    """A page that gave its own name this address reads nothing, also of what is kept ready."""
    for path in (SELECT, "/", "/health/live", "/metrics"):
        with subtests.test(path=path):
            assert client.get(path).status_code == 200
            refused = client.get(path, headers={"Host": "evil.example:8765"})
            assert refused.status_code == 421
            assert "--allowed-hosts" in refused.json()["detail"]
            insist(refused.headers, NOTHING)


def test_names_come_from_the_command_line(bundle_path: Path) -> None:
    """To all workers."""
    words = ("--bundle", bundle_path, "--allowed-hosts", "tuning.example.org, *.cluster.example")
    with Server(*words) as server:
        for host, status in (("tuning.example.org", 200), ("evil.example", 421)):
            assert server.get("/health/live", {"Host": host}).status == status
