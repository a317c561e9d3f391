"""uvicorn's HTTP protocol with the patience that it lacks: no connection is held for nothing.

uvicorn waits for ever for a request's head, for its body, and for a client that does not read its
answer; and it takes a head of any size. Here each has its bound, `ConnectionLimits`. A request that
arrives whole costs no timer.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from enum import Enum
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from colltune.server.connection_limits import STATE_KEY, ConnectionLimits
from colltune.server.protection import CLOSED

_DEFAULT = ConnectionLimits()
_LINGER_BYTES = 1 << 20
_LINGER_S = 5.0
_RESET = struct.pack("ii", 1, 0)


class _Stage(Enum):
    HEAD = "waiting for a head, or for its rest"
    BODY = "waiting for the rest of a body"
    LINGER = "answered; the rest of the body is thrown away"
    WHOLE = "the request is here, or there is none"


# names of a module are found faster than members of an enumeration
_HEAD, _BODY, _LINGER, _WHOLE = _Stage


class GuardedProtocol(HttpToolsProtocol):
    """One connection, cut off when it exceeds its `ConnectionLimits`.

    Where a request is answered before its body has come, a little of the rest is read and thrown
    away, so that the client gets to see the answer; then the connection is closed.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits: ConnectionLimits = app_state.get(STATE_KEY, _DEFAULT)
        self._stage = _WHOLE
        self._since_s = 0.0
        self._chunk_bytes = 0
        self._first_bytes = 0
        self._head_bytes = 0
        self._body_bytes = 0
        self._begun_now = False
        self._unread_bytes = 0
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None
        self._abort_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol.connection_made`: one too many is told so, and closed."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._refuse(503, "Too many connections; try again in a moment.")
        else:
            self._enter(_HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol.connection_lost`."""
        for timer in (self._timer, self._abort_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._abort_timer = None
        self._refused = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol.data_received`."""
        if self._refused:
            return
        self._chunk_bytes, self._begun_now = len(data), False
        if self._stage is _HEAD:
            self._head_bytes += len(data)
        before = self._stage
        super().data_received(data)
        if self._begun_now and self._timer is None and self._stage is _WHOLE:
            # the usual case: one request in one piece
            return
        if self.transport.is_closing():
            self._abort_later()
        elif self._stage is _WHOLE:
            self._after_a_whole_request(before)
        elif self._stage is _HEAD and self._head_bytes > self._limits.head_bytes:
            self._refuse(431, "The request's head is too large.")
        elif self._stage is _LINGER and self._body_bytes > _LINGER_BYTES:
            self._close()
        elif self._timer is None or self._stage is not before or self._begun_now:
            self._enter(self._stage)

    def on_message_begin(self) -> None:
        """See `HttpToolsProtocol.on_message_begin`: a head begins."""
        # of this piece an unknown part belongs to what came before
        self._first_bytes, self._head_bytes = self._chunk_bytes, 0
        self._stage, self._begun_now = _HEAD, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """See `HttpToolsProtocol.on_headers_complete`: the head is whole, and its size known."""
        if self._refused:
            return
        most = self._limits.head_bytes
        if self._first_bytes + self._head_bytes > most:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > most:
                self._refuse(431, "The request's head is too large.")
                return
        self._stage, self._body_bytes = _BODY, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See `HttpToolsProtocol.on_body`."""
        if self._refused:
            return
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See `HttpToolsProtocol.on_message_complete`: the request is whole."""
        if self._refused:
            return
        self._stage = _WHOLE
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """See `HttpToolsProtocol.on_response_complete`: the body may still be on its way."""
        is_last = not self.pipeline
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_later()
        elif self._stage is _BODY and is_last:
            self._unset_keepalive_if_required()
            self._body_bytes = 0
            self._enter(_LINGER)

    def send_400_response(self, msg: str) -> None:
        """See `HttpToolsProtocol.send_400_response`: this is no HTTP."""
        self._refuse(400, msg)

    def timeout_keep_alive_handler(self) -> None:
        """See `HttpToolsProtocol.timeout_keep_alive_handler`."""
        self._close()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol.pause_writing`: the client does not read its answer."""
        super().pause_writing()
        self._abort_later()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol.resume_writing`."""
        super().resume_writing()
        if self._abort_timer is not None and not self.transport.is_closing():
            self._abort_timer.cancel()
            self._abort_timer = None

    def _after_a_whole_request(self, before: _Stage) -> None:
        """Leave an idle connection to uvicorn's timer, if that runs."""
        answered = self.cycle is None or self.cycle.response_complete
        if answered and self.timeout_keep_alive_task is None and not self.pipeline:
            if before is _LINGER:
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
            else:
                # blank lines between requests, which begin none
                self._enter(_HEAD)
                return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enter(self, stage: _Stage) -> None:
        """Begin to wait."""
        self._stage, self._since_s = stage, self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(self._deadline_s(), self._check)

    def _deadline_s(self) -> float:
        if self._stage is _HEAD:
            return self._since_s + self._limits.head_timeout_s
        if self._stage is _LINGER:
            return self._since_s + _LINGER_S
        allowed_s = self._limits.body_timeout_s + self._body_bytes / self._limits.body_rate_bytes
        return self._since_s + allowed_s

    def _check(self) -> None:
        """Look whether time is up, and else wait on."""
        self._timer = None
        if self._refused or self.transport.is_closing() or self._stage is _WHOLE:
            return
        if self._stage is _BODY and self.flow.read_paused:
            # it is we who do not read
            self._since_s = self.loop.time()
        if self._deadline_s() > self.loop.time():
            self._timer = self.loop.call_at(self._deadline_s(), self._check)
        elif self._stage is _LINGER or self._is_idle():
            self._close()
        else:
            self._refuse(408, "The request did not arrive in time.")

    def _is_idle(self) -> bool:
        """Whether nothing of a request has come, which deserves no answer."""
        return self._stage is _HEAD and self.cycle is None and not self._head_bytes

    def _refuse(self, status: int, why: str) -> None:
        """Answer what uvicorn would not have waited for, unless it answers already; and close."""
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle.response_started:
                self._abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        head = STATUS_LINE[status] + b"content-type: text/plain; charset=utf-8\r\n"
        head += b"".join(b"%b: %b\r\n" % header for header in CLOSED)
        self.transport.write(
            head + b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(why), why.encode())
        )
        self._close()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
        self._abort_later()

    def _abort_later(self) -> None:
        if self._abort_timer is None:
            self._unread_bytes = self.transport.get_write_buffer_size()
            self._abort_timer = self.loop.call_later(
                self._limits.answer_timeout_s, self._abort_unless_read
            )

    def _abort_unless_read(self) -> None:
        """Wait on for a client who reads, if slowly."""
        self._abort_timer = None
        limits = self._limits
        read_bytes = self._unread_bytes - self.transport.get_write_buffer_size()
        if read_bytes < limits.answer_timeout_s * limits.body_rate_bytes:
            self._abort()
        else:
            self._abort_later()

    def _abort(self) -> None:
        """Give the connection up, with what the system still holds to be sent on it."""
        stream = self.transport.get_extra_info("socket")
        if stream is not None:
            with suppress(OSError):
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()
