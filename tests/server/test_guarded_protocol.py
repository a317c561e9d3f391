"""Slow, greedy and malformed clients, over real sockets to a real uvicorn."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from colltune.server.connection_limits import STATE_KEY, ConnectionLimits
from colltune.server.guarded_protocol import GuardedProtocol

PATIENCE_S = 120.0
# a body has its time by what came of it, so that on a busy machine it may stop for seconds
LIMITS = ConnectionLimits(
    head_timeout_s=PATIENCE_S,
    head_bytes=4096,
    body_timeout_s=0.3,
    body_rate_bytes=100,
    answer_timeout_s=PATIENCE_S,
    connections=8,
)
HASTY = replace(
    LIMITS, head_timeout_s=0.3, body_timeout_s=0.3, body_rate_bytes=10_000, answer_timeout_s=0.3
)
GET = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
BIG = 32 << 20


@dataclass
class Echo:
    """An application that answers with what it read, or at once, or with a lot."""

    limits: ConnectionLimits
    disconnects: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            self.disconnects += 1
            answer = PlainTextResponse("nobody reads this")
        await answer(scope, receive, send)

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        scope["state"][STATE_KEY] = self.limits
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, request: Request) -> Response:
        if request.url.path == "/early":
            return PlainTextResponse("no", 413)
        if request.url.path == "/slow":
            await asyncio.sleep(3 * LIMITS.body_timeout_s)
        if request.url.path == "/big":
            return PlainTextResponse(b"x" * BIG)
        return PlainTextResponse(f"{len(await request.body())} bytes")


@dataclass(frozen=True)
class Running:
    """A server, its port and its application."""

    port: int
    app: Echo
    server: uvicorn.Server

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        """Yield a connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as stream:
            yield stream

    def await_connections(self, number: int) -> None:
        """Wait until the server holds so many connections."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.server.server_state.connections) != number:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """Return a server that gives clients all the time they need."""
    with _running(LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def hasty() -> Iterator[Running]:
    """Return a server that gives clients up soon."""
    with _running(HASTY) as server:
        yield server


@contextmanager
def _running(limits: ConnectionLimits) -> Iterator[Running]:
    """Run a server, on the event loop that `colltune serve` takes here, too."""
    app = Echo(limits)
    config = uvicorn.Config(
        app,
        http=GuardedProtocol,
        loop="auto",
        ws="none",
        lifespan="on",
        log_config=None,
        timeout_keep_alive=30,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield Running(listening.getsockname()[1], app, server)
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def _rest(stream: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    content = bytearray()
    with suppress(ConnectionResetError):
        while piece := stream.recv(1 << 16):
            content += piece
    return bytes(content)


def _await(stream: socket.socket, text: bytes) -> None:
    """Read until `text` has come."""
    content = b""
    while text not in content:
        piece = stream.recv(1 << 16)
        assert piece, content
        content += piece


def _drip(stream: socket.socket, pieces: Iterator[bytes]) -> None:
    """Send pieces at a tenth of the patience that there is, until nobody takes them."""
    with suppress(OSError):
        for piece in pieces:
            stream.sendall(piece)
            stream.settimeout(HASTY.head_timeout_s / 10)
            with suppress(TimeoutError):
                stream.recv(1, socket.MSG_PEEK)
                break
    stream.settimeout(PATIENCE_S)


def _for_ever(piece: bytes, first: bytes = b"") -> Iterator[bytes]:
    yield first + piece
    while True:
        yield piece


def test_a_connection_on_which_nothing_is_said_is_closed(hasty: Running) -> None:
    """Without an answer, since nothing was asked."""
    with hasty.connection() as stream:
        assert _rest(stream) == b""


@pytest.mark.parametrize(
    ("first", "piece"),
    [(b"GET /x HTTP/1.1\r\n", b"a: b\r\n"), (b"G", b"E"), (GET + b"GET /y HTT", b"")],
)
def test_a_head_that_drips_is_cut_off(hasty: Running, first: bytes, piece: bytes) -> None:
    """However the pieces come, and also on a connection that was good before."""
    with hasty.connection() as stream:
        _drip(stream, _for_ever(piece or b"P", first))
        assert b" 40" in _rest(stream)


def test_blank_lines_begin_no_request(hasty: Running) -> None:
    """They hold a connection no longer than nothing does, before a request or after one."""
    for first in (b"", GET):
        with hasty.connection() as stream:
            stream.sendall(first)
            stream.settimeout(HASTY.head_timeout_s / 10)
            with suppress(OSError):
                while True:
                    stream.sendall(b"\r\n")
                    with suppress(TimeoutError):
                        if not stream.recv(1 << 16):
                            break
        hasty.await_connections(0)


@pytest.mark.parametrize("length", [b"Content-Length: 1000000", b"Transfer-Encoding: chunked"])
def test_a_body_that_drips_is_cut_off(hasty: Running, length: bytes) -> None:
    """The application is told that the client is gone, and the client why."""
    before = hasty.app.disconnects
    piece = b"1\r\nx\r\n" if b"chunked" in length else b"x"
    with hasty.connection() as stream:
        _drip(stream, _for_ever(piece, b"POST /x HTTP/1.1\r\nHost: h\r\n" + length + b"\r\n\r\n"))
        assert b"408 Request Timeout" in _rest(stream)
    hasty.await_connections(0)
    assert hasty.app.disconnects == before + 1


def test_a_body_that_comes_steadily_has_the_time_it_needs(running: Running) -> None:
    """Longer than the patience with nothing, as long as it is fast enough."""
    with running.connection() as stream:
        piece = b"x" * 2000
        head = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 16000\r\n\r\n"
        for sent in (head + piece, *[piece] * 7):
            stream.sendall(sent)
            time.sleep(LIMITS.body_timeout_s / 4)
        _await(stream, b"16000 bytes")


def test_a_service_that_reads_late_does_not_blame_the_client(running: Running) -> None:
    """A body waits in the network while the application is busy, and is taken afterwards."""
    size = 8 << 20
    with running.connection() as stream:
        head = b"POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size
        stream.sendall(head + b"x" * size)
        _await(stream, b"%d bytes" % size)


def _huge_head(kind: str) -> bytes:
    if kind == "value":
        return b"GET /x HTTP/1.1\r\nHost: h\r\na: " + b"x" * 5000 + b"\r\n\r\n"
    if kind == "name":
        return b"GET /x HTTP/1.1\r\nHost: h\r\n" + b"x" * 5000 + b": a\r\n\r\n"
    if kind == "path":
        return b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: h\r\n\r\n"
    return b"GET /x HTTP/1.1\r\nHost: h\r\n" + b"a: b\r\n" * 3000 + b"\r\n"


@pytest.mark.parametrize("kind", ["value", "name", "path", "number"])
@pytest.mark.parametrize("piece_bytes", [1000, 1 << 20])
def test_a_gigantic_head_is_refused(running: Running, kind: str, piece_bytes: int) -> None:
    """In one piece or in many, with one long header or many short ones."""
    head = _huge_head(kind)
    with running.connection() as stream:
        with suppress(OSError):
            for at in range(0, len(head), piece_bytes):
                stream.sendall(head[at : at + piece_bytes])
        answer = _rest(stream)
    assert answer.startswith(b"HTTP/1.1 431")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_head_that_never_ends_does_not_grow(running: Running) -> None:
    """The connection is closed when its bound is reached, not when its sender is done."""
    sent = 0
    with running.connection() as stream:
        with suppress(OSError):
            stream.sendall(b"GET /x HTTP/1.1\r\na: ")
            while sent < 1 << 30:
                sent += stream.send(b"x" * (1 << 16))
        assert sent < 64 << 20


def test_an_early_answer_is_seen_and_the_rest_of_the_body_is_not_awaited(
    running: Running,
) -> None:
    """Of a gigabyte that is refused only a little is taken in."""
    sent = 0
    with running.connection() as stream:
        stream.sendall(b"POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
        _await(stream, b"413")
        with suppress(OSError):
            while sent < 1 << 30:
                sent += stream.send(b"x" * (1 << 16))
    assert sent < 64 << 20
    running.await_connections(0)


def test_after_an_early_answer_a_small_rest_is_thrown_away(running: Running) -> None:
    """Then the connection is as good as before."""
    with running.connection() as stream:
        stream.sendall(b"POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab")
        _await(stream, b"413")
        stream.sendall(b"cd" + GET)
        _await(stream, b"0 bytes")


def test_a_client_that_does_not_read_is_given_up(hasty: Running) -> None:
    """An answer that nobody takes does not hold its connection."""
    with hasty.connection() as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.sendall(b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n")
        hasty.await_connections(1)
        hasty.await_connections(0)
        assert len(_rest(stream)) < BIG


def test_a_big_answer_that_is_read_arrives(running: Running) -> None:
    """Reading slowly is not the same as not reading."""
    with running.connection() as stream:
        stream.sendall(b"GET /big HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert len(_rest(stream)) > BIG


def test_one_connection_too_many_is_told_so(running: Running) -> None:
    """The others are served on; when one of them goes there is room again."""
    running.await_connections(0)
    held = [
        socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S)
        for _ in range(LIMITS.connections)
    ]
    for stream in held:
        stream.sendall(GET)
        _await(stream, b"0 bytes")
    with running.connection() as extra:
        assert _rest(extra).startswith(b"HTTP/1.1 503")
    held[0].sendall(GET)
    _await(held[0], b"0 bytes")
    for stream in held:
        stream.close()
    running.await_connections(0)
    with running.connection() as stream:
        stream.sendall(GET)
        _await(stream, b"0 bytes")


BODIES = (0, 1, 5, 3000, 70_000)
REQUESTS = GET + b"".join(
    b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (n, b"x" * n) for n in BODIES
)


@pytest.mark.parametrize("seed", range(6))
def test_requests_in_any_pieces_are_answered_in_order(running: Running, seed: int) -> None:
    """Whole, one behind the other, or cut anywhere: every request gets its answer."""
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(REQUESTS)), 0 if seed == 0 else 6))
    pieces = [REQUESTS[a:b] for a, b in zip([0, *cuts], [*cuts, len(REQUESTS)], strict=True)]
    with running.connection() as stream:
        for piece in pieces:
            stream.sendall(piece)
            time.sleep(0.002 if seed % 2 else 0)
        stream.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        answer = _rest(stream)
    sizes = [int(part.rpartition(b"\r\n")[2]) for part in answer.split(b" bytes")[:-1]]
    assert sizes == [0, *BODIES, 0]


GARBAGE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET x HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /x HTTP/1.1\r\nHost: h\r\nA\x00: b\r\n\r\n",
    b"GET /x HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x00" * 5000,
)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_is_no_http_is_refused(
    running: Running, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """With a 400, closing the connection, and without a traceback in the log."""
    with running.connection() as stream:
        stream.sendall(garbage)
        answer = _rest(stream)
    assert answer.startswith(b"HTTP/1.1 400")
    assert not any(record.exc_info for record in caplog.records)
