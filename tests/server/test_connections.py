"""What one connection may cost a real service, and that others are answered meanwhile."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from colltune import process
from tests.server import writable
from tests.server.serving_process import PATIENCE_S, Server

KIB = 1 << 10
GET = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/summaries HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
QUICK = {"COLLTUNE_SERVER_RECEIVE_S": "0.5"}
MOST_SENT = 1 << 20
OF_ONE = 8


@pytest.fixture(scope="module")
def server(bundle_path: Path) -> Iterator[Server]:
    """Return a service with limits that a test can wait for."""
    with Server("--bundle", bundle_path, environment=QUICK) as server:
        server.await_ready()
        yield server


@contextmanager
def connected(server: Server, source: str = "") -> Iterator[socket.socket]:
    """Yield a connection to `server`, made from the address `source`."""
    if server.address.startswith("unix:"):
        made = socket.socket(socket.AF_UNIX)
        made.connect(server.address.removeprefix("unix:"))
    else:
        host, port = server.address.removeprefix("http://").split(":")
        where = (source, 0) if source else None
        made = socket.create_connection((host, int(port)), PATIENCE_S, where)
    made.settimeout(PATIENCE_S)
    with made:
        yield made


def told(connection: socket.socket) -> list[int]:
    """Return the statuses of all answers up to the connection's end."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            received += piece
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


def sent_until_closed(connection: socket.socket, piece: bytes) -> int:
    """Send `piece` again and again until nobody takes it; return how many bytes were taken."""
    taken = 0
    with suppress(OSError):
        while taken < MOST_SENT:
            connection.sendall(piece)
            taken += len(piece)
    return taken


@pytest.mark.parametrize(
    ("begin", "piece", "status"),
    [
        (GET + b"X-Endless: ", b"x" * (32 * KIB), 431),
        (GET, b"a: b\r\n" * 1000, 431),
        (b"GET /", b"x" * (32 * KIB), 431),
        (GET + b"x", b"x" * (32 * KIB), 431),
        (b"", b"\r\n" * (16 * KIB), 431),
        (GET + CHUNKED + b"1;", b"x" * (32 * KIB), None),
        (POST + CHUNKED + b"1;", b"x" * (32 * KIB), None),
        (GET + CHUNKED + b"0\r\nX-Trailer: ", b"x" * (32 * KIB), None),
        (GET + CHUNKED + b"0\r\n", b"a: b\r\n" * 1000, None),
        (GET + CHUNKED, b"1;xxxxxxxxxxxxxxxxxxxxx\r\nx\r\n" * 1000, None),
        (GET + CHUNKED, b"8000\r\n" + b"x" * 0x8000 + b"\r\n", None),
        (b"", (GET + b"\r\n") * 1000, None),
        (b"", b"\x16\x03\x01" * KIB, 400),
    ],
    ids=[
        "header",
        "headers",
        "address",
        "name",
        "nothing",
        "chunk's name",
        "chunk's name of an upload",
        "trailer",
        "trailers",
        "tiny chunks",
        "body that nobody reads",
        "pipeline",
        "no HTTP",
    ],
)
def test_what_never_ends_is_cut_off(
    server: Server, begin: bytes, piece: bytes, status: int | None
) -> None:
    """Whatever is endless about a request, its connection is closed, and others are answered."""
    with connected(server) as connection:
        connection.sendall(begin)
        sent = threading.Thread(target=sent_until_closed, args=(connection, piece))
        if status is None:
            connection.settimeout(None)
        sent.start()
        assert server.get("/health/live").status == 200
        answers = told(connection)
        sent.join(PATIENCE_S)
        assert not sent.is_alive()
    # an answer may be lost where the other end still sends
    assert status is None or answers in ([], [status])
    assert server.get("/health/live").status == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (GET + b"X: " + b"x" * (63 * KIB) + b"\r\n\r\n", 200),
        (GET + b"X: " + b"x" * (65 * KIB) + b"\r\n\r\n", 431),
        (GET + b"a: b\r\n" * 99 + b"\r\n", 200),
        (GET + b"a: b\r\n" * 100 + b"\r\n", 431),
    ],
    ids=["63 KiB", "65 KiB", "100 fields", "101 fields"],
)
def test_the_limits_of_a_head(server: Server, head: bytes, status: int) -> None:
    """64 KiB and 100 fields are taken; what is larger is refused by name."""
    with connected(server) as connection:
        for start in range(0, len(head), 5000):
            connection.sendall(head[start : start + 5000])
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 %d" % status)
        if status != 200:
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == status
            assert b"nosniff" in answer


def trickle(connection: socket.socket, pieces: Sequence[bytes]) -> None:
    """Send pieces so slowly that no limit of idle connections is met."""
    with suppress(OSError):
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("begin", "piece", "statuses"),
    [
        (b"", b"", [408]),
        (GET, b"a: b\r\n", [408]),
        (b"", b"\r\n", [408]),
        (GET + b"\r\n", b"\r\n", [200, 408]),
        (GET + b"\r\n" + GET, b"a: b\r\n", [200, 408]),
        (GET + b"Content-Length: 100000\r\n\r\n", b"x", [200]),
        (GET + CHUNKED, b"1\r\nx\r\n", [200]),
    ],
    ids=["nothing", "headers", "lines", "lines after an answer", "two", "body", "chunks"],
)
def test_who_is_slow_is_not_waited_for(
    server: Server, begin: bytes, piece: bytes, statuses: list[int]
) -> None:
    """A request whose headers or body trickle in is given up, the first and later ones."""
    with connected(server) as connection:
        connection.sendall(begin)
        sender = threading.Thread(
            target=trickle, args=(connection, [piece] * (1000 if piece else 0))
        )
        sender.start()
        found = told(connection)
        sender.join(PATIENCE_S)
    assert found == statuses


def test_a_slow_upload_is_given_up(tmp_path: Path) -> None:
    """A body that a handler waits for must come, too."""
    _, first, _ = writable.filled(tmp_path)
    folders = [f"--{name}={tmp_path / name}" for name in ("registry", "data", "tokens")]
    with Server(*folders, environment=QUICK) as server, connected(server) as connection:
        server.await_ready()
        bearer = "".join(f"{n}: {v}\r\n" for n, v in writable.bearer().items()).encode()
        line = f"POST /v1/bundles/{first}/promote HTTP/1.1\r\nHost: localhost\r\n".encode()
        connection.sendall(line + bearer + CHUNKED)
        sender = threading.Thread(target=trickle, args=(connection, [b"1\r\nx\r\n"] * 1000))
        sender.start()
        assert told(connection) == [408]
        sender.join(PATIENCE_S)


def test_a_connection_may_be_kept(server: Server) -> None:
    """Who asks and is answered may ask later, in the time that idle connections have."""
    with connected(server) as connection:
        for _ in range(3):
            connection.sendall(GET + b"\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(1.0)


def test_a_few_requests_may_be_sent_at_once(server: Server) -> None:
    """They are answered in order."""
    with connected(server) as connection:
        connection.sendall((GET + b"\r\n") * 8 + GET + b"Connection: close\r\n\r\n")
        assert told(connection) == [200] * 9


def test_one_address_has_so_many_connections(bundle_path: Path) -> None:
    """More are refused; other addresses have their own, and places are given back."""
    few = {"COLLTUNE_SERVER_CONNECTIONS_PER_CLIENT": str(OF_ONE)}
    with Server("--bundle", bundle_path, environment=few) as server:
        with ExitStack() as stack:
            for _ in range(OF_ONE):
                stack.enter_context(connected(server, "127.0.0.2"))
            with connected(server, "127.0.0.2") as refused:
                assert told(refused) == [429]
            with connected(server, "127.0.0.3") as other:
                other.sendall(GET + b"\r\n")
                assert other.recv(65536).startswith(b"HTTP/1.1 200")
        await_true(lambda: _is_answered(server, "127.0.0.2"))


def test_workers_share_the_limit_of_an_address(bundle_path: Path) -> None:
    """However many workers there are, one address has no more connections of all of them."""
    few = {"COLLTUNE_SERVER_CONNECTIONS_PER_CLIENT": str(OF_ONE)}
    words = ("--bundle", bundle_path, "--workers", "2")
    with Server(*words, environment=few) as server, ExitStack() as stack:
        server.await_ready()
        answers = []
        for _ in range(4 * OF_ONE):
            connection = stack.enter_context(connected(server, "127.0.0.2"))
            with suppress(OSError):
                connection.sendall(GET + b"\r\n")
                answers.append(connection.recv(65536))
        held = [answer for answer in answers if answer.startswith(b"HTTP/1.1 200")]
        assert 1 <= len(held) <= OF_ONE


def test_a_named_proxy_has_all_it_needs(bundle_path: Path) -> None:
    """The connections of all its clients come from one address."""
    proxy = {
        "COLLTUNE_SERVER_CONNECTIONS_PER_CLIENT": str(OF_ONE),
        "FORWARDED_ALLOW_IPS": "127.0.0.2",
    }
    with Server("--bundle", bundle_path, environment=proxy) as server, ExitStack() as stack:
        for _ in range(3 * OF_ONE):
            stack.enter_context(connected(server, "127.0.0.2"))
        assert _is_answered(server, "127.0.0.2")


def test_many_slow_ones_make_room(bundle_path: Path) -> None:
    """Where most places are taken by requests that never end, others are still answered."""
    limits = {"COLLTUNE_SERVER_CONNECTIONS_PER_CLIENT": "4096", "COLLTUNE_SERVER_RECEIVE_S": "2"}
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); "
    command = (sys.executable, "-c", script + "from colltune.cli import main; main()")
    with (
        Server("--bundle", bundle_path, command=command, environment=limits) as server,
        ExitStack() as stack,
    ):
        server.await_ready()
        for _ in range(140):
            stack.enter_context(connected(server)).sendall(GET)
        await_true(lambda: _is_answered(server, "127.0.0.4"))


NAMES_ANOTHER = r"""
import os, socket, sys
os.setgroups([])
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    head = b"GET /v1/bundles HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.9\r\n\r\n"
    connection.sendall(head)
    assert connection.recv(65536)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
@pytest.mark.parametrize(
    ("mode", "proxy_users", "client"),
    [("666", "", "user 65534"), ("666", "nobody", "192.0.2.9"), ("660", "", "192.0.2.9")],
)
def test_who_may_name_the_client_at_a_unix_socket(
    bundle_path: Path, mode: str, proxy_users: str, client: str
) -> None:
    """A user of this host may not, though all addresses may, unless he runs the proxy."""
    told = {"FORWARDED_ALLOW_IPS": "*", "COLLTUNE_SERVER_PROXY_USERS": proxy_users}
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name, "s")
        words = ("--bundle", bundle_path, "--uds", path, "--uds-mode", mode, "--access-log")
        with Server(*words, environment=told) as server:
            # of its group, which a mode of 660 lets in
            command = [sys.executable, "-c", NAMES_ANOTHER, str(path)]
            process.check(process.run(command, timeout_s=PATIENCE_S), "asking as another user")
            await_true(lambda: "/v1/bundles" in server.log())
            lines = [line for line in server.log().splitlines() if '"/v1/bundles"' in line]
            assert [json.loads(line)["client"] for line in lines] == [client]


def _is_answered(server: Server, source: str) -> bool:
    with connected(server, source) as connection, suppress(OSError):
        connection.sendall(GET + b"\r\n")
        return connection.recv(65536).startswith(b"HTTP/1.1 200")
    return False


def await_true(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
