"""What one connection may cost before there is a request: size and time of its headers and body.

uvicorn bounds neither. Here a head is bounded in bytes, fields and time, a body in the time that
its bytes take and in what surrounds them, a reader in how long an answer may wait for it, and the
connections of one address in number. A worker looks at its connections about once a second, so that
a request that arrives whole costs next to nothing. Time in which the worker itself does not read
is not held against a client.
"""

from __future__ import annotations

import asyncio
import math
import os
import pwd
import socket
import struct
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import uvloop
from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from colltune.errors import ColltuneError, say
from colltune.server.errors import problem
from colltune.server.limits import counted_as
from colltune.server.middleware import CLOSED
from colltune.server.settings import TRUSTED_PEER, ConnectionLimits

_PIECE_BYTES = 1 << 16
_BYTES_PER_S = 1 << 14
_MOST_PIPELINED = 32
_MOST_TICKS, _LONGEST_TICK_S = 10, 1.0
_TICKS_UNREAD, _READ_BYTES = 30, 1 << 16
_HANDSHAKE_S = 10.0
_SHARE_OF_ALL, _LEAST_SHARE = 4, 64
_BETWEEN, _HEAD, _BODY = range(3)
_CREDENTIALS = struct.Struct("3i")


class Loop(uvloop.Loop):
    """An event loop whose TLS handshakes end soon, one way or the other."""

    async def create_server(  # type: ignore[override]
        self, *words: Any, **options: Any
    ) -> asyncio.AbstractServer:
        if options.get("ssl"):
            options.setdefault("ssl_handshake_timeout", _HANDSHAKE_S)
        return await super().create_server(*words, **options)


class Watch:
    """All connections of a worker, and the limits that they have in common."""

    def __init__(self, config: Config, connections: set[Any]) -> None:
        self.limits = ConnectionLimits()
        self.of_address: Counter[str] = Counter()
        self._connections = connections
        self._most = config.limit_concurrency or 0
        told = self.limits.connections_per_client
        of_server = told or max(_LEAST_SHARE, self._most // _SHARE_OF_ALL)
        # workers do not know of each other's connections; the kernel spreads them evenly enough
        self.most_of_address = math.ceil(of_server / config.workers)
        self._tick_s = min(_LONGEST_TICK_S, self.limits.receive_s / _MOST_TICKS)
        self.most_ticks = round(self.limits.receive_s / self._tick_s)
        self._proxies = _proxies()
        self.trusted_users = _trusted_users(self.limits.proxy_users)
        self._looks = False

    def is_limited(self, address: str) -> bool:
        """Tell whether connections of this address are counted; those of proxies are not."""
        return self._proxies is None or address not in self._proxies.trusted_hosts

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the connections from now on, as long as there are some."""
        if not self._looks:
            self._looks = True
            loop.call_later(self._tick_s, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looks = False
        found = tuple(self._connections)
        for connection in found:
            connection.tick()
        self._make_room(found)
        if found:
            self.start(loop)

    def _make_room(self, found: tuple[Any, ...]) -> None:
        """Where most places are taken, close the slowest, so that others find one."""
        excess = len(found) - self._most * 3 // 4
        if self._most and excess > 0:
            waiting = [c for c in found if c.waited > 1 and (c.is_slow or c.is_idle)]
            waiting.sort(key=lambda c: (c.is_slow, c.waited), reverse=True)
            for connection in waiting[:excess]:
                connection.refuse(408, say("too-slow"))


def _proxies() -> ProxyHeadersMiddleware | None:
    """Return what knows the addresses that somebody named as proxies, if some are named."""
    told = os.environ.get("FORWARDED_ALLOW_IPS", "*")
    return None if told.strip() == "*" else ProxyHeadersMiddleware(service_unavailable, told)


def _trusted_users(names: Iterable[str]) -> frozenset[int]:
    found = {0, os.geteuid()}
    for name in names:
        with suppress(KeyError):
            found.add(pwd.getpwnam(name).pw_uid)
    return frozenset(found)


_WATCHES: WeakKeyDictionary[ServerState, Watch] = WeakKeyDictionary()
"""Of each server in this process, which is one but for tests."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP of one connection, within the limits of its `Watch`."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        watch = _WATCHES.get(server_state)
        if watch is None:
            watch = _WATCHES[server_state] = Watch(config, server_state.connections)
        self._watch = watch
        self._stage = _HEAD
        self._has_begun = False
        self._counted = ""
        self._head_bytes = self._body_bytes = self._received_bytes = self._framing_bytes = 0
        self._unread_bytes = self._unread_ticks = 0
        self._refusal = (400, say("not-http"))
        self.waited = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        watch = self._watch
        watch.start(self.loop)
        if self.client is None:
            self.client = _peer(transport, watch.trusted_users)
            return
        address = counted_as(self.client[0])
        if watch.is_limited(self.client[0]):
            self._counted = address
            watch.of_address[address] += 1
            if watch.of_address[address] > watch.most_of_address:
                self.refuse(429, say("too-busy", what="connections of this address", wait_s=1))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        address, self._counted = self._counted, ""
        if address:
            left = self._watch.of_address[address] - 1
            self._watch.of_address[address] = left
            if not left:
                del self._watch.of_address[address]

    def data_received(self, data: bytes) -> None:
        if len(data) <= _PIECE_BYTES:
            self._take(data)
            return
        for start in range(0, len(data), _PIECE_BYTES):
            self._take(data[start : start + _PIECE_BYTES])
            if self.transport.is_closing():
                return

    def _take(self, piece: bytes) -> None:
        if self._stage == _BETWEEN:
            self._stage, self.waited = _HEAD, 0
        self._has_begun = False
        super().data_received(piece)
        if self._stage == _HEAD:
            self._bound_head(len(piece))
        elif self._stage == _BODY:
            self._bound_body(len(piece))

    def _bound_head(self, received_bytes: int) -> None:
        """Refuse a head that has become too large, or that never begins."""
        # where it begins, the piece may be mostly of the request before it
        self._head_bytes += 1 if self._has_begun else received_bytes
        why = self._why_too_large(self._head_bytes)
        if why:
            self.refuse(431, why)

    def _why_too_large(self, head_bytes: int) -> ColltuneError | None:
        limits = self._watch.limits
        if head_bytes > limits.max_header_bytes:
            return say("too-many", most=limits.max_header_bytes, what="bytes of headers")
        if self.headers is not None and len(self.headers) > limits.max_header_fields:
            return say("too-many", most=limits.max_header_fields, what="headers")
        return None

    def _bound_body(self, received_bytes: int) -> None:
        """Refuse a body that is mostly something else: names of chunks, headers at its end."""
        self._received_bytes += received_bytes
        self._framing_bytes += received_bytes
        if (
            self._framing_bytes > 2 * _PIECE_BYTES
            or self._received_bytes > 2 * (self._body_bytes + _PIECE_BYTES)
            or len(self.headers) > 2 * self._watch.limits.max_header_fields
        ):
            self.refuse(400, say("body-without-content"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._stage = _HEAD
        self._has_begun = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        why = self._why_too_large(self._whole_head_bytes() if self._head_bytes else 0)
        if why:
            self._refusal = 431, why
        elif len(self.pipeline) >= _MOST_PIPELINED:
            self._refusal = 429, say("too-busy", what="requests of one connection", wait_s=1)
        if self._refusal[0] != 400:
            # ends in send_400_response
            raise ValueError(str(self._refusal[1]))
        super().on_headers_complete()
        self._stage = _BODY
        self.waited = self._body_bytes = self._received_bytes = self._framing_bytes = 0

    def _whole_head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stage = _BETWEEN
        self.waited = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self.refuse(*self._refusal)

    @property
    def is_slow(self) -> bool:
        """Whether a request's head is waited for."""
        return self._stage == _HEAD

    @property
    def is_idle(self) -> bool:
        """Whether nothing has been asked since the last answer."""
        return self._stage == _BETWEEN and self._is_answered and not self.pipeline

    def tick(self) -> None:
        """Count the time that passed, and close what took too long."""
        self._await_reader()
        if self.flow.read_paused:
            return
        self.waited += 1
        if self._stage == _BETWEEN:
            return
        allowed = self._watch.most_ticks
        if self._stage == _BODY and not self._is_answered:
            allowed += self._body_bytes // _BYTES_PER_S
        if self.waited > allowed:
            self.refuse(408, say("too-slow"))

    def _await_reader(self) -> None:
        """Give a reader up who takes next to nothing of what waits for him."""
        unread_bytes = self.transport.get_write_buffer_size()
        if not unread_bytes or unread_bytes <= self._unread_bytes - _READ_BYTES:
            self._unread_bytes, self._unread_ticks = unread_bytes, 0
            return
        self._unread_bytes = max(unread_bytes, self._unread_bytes)
        self._unread_ticks += 1
        if self._unread_ticks > _TICKS_UNREAD:
            self.transport.abort()

    @property
    def _is_answered(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def refuse(self, status: int, why: ColltuneError) -> None:
        """Close the connection, with an answer unless it could be taken for another request's."""
        if self.transport.is_closing():
            return
        if self._is_ours_the_next_answer():
            answer = problem(status, why, {"Connection": "close"})
            lines = [b"%s: %s\r\n" % header for header in (*answer.raw_headers, *CLOSED)]
            self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", answer.body]))
        self.transport.close()

    def _is_ours_the_next_answer(self) -> bool:
        if self._stage == _BODY:
            return not self.pipeline and not self.cycle.response_started
        return self._stage == _HEAD and self._is_answered


def _peer(transport: asyncio.Transport, trusted: frozenset[int]) -> tuple[str, int] | None:
    """Return whom a unix socket's other end is counted as."""
    found = transport.get_extra_info("socket")
    if found is None or found.family != socket.AF_UNIX:
        return None
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    told = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user = _CREDENTIALS.unpack(told)[1]
    return (TRUSTED_PEER, 0) if user in trusted else (f"user {user}", 0)
