"""What is around the endpoints: headers against misuse, host names, the cache, and counting."""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from colltune.errors import say
from colltune.server.answers import CLOSED_POLICY, CONTENT_POLICY, Answer, Headers
from colltune.server.errors import problem
from colltune.server.metrics import OTHER
from colltune.server.service import Service

_NO_POLICY = (CONTENT_POLICY.lower().encode(), f"default-src 'none'; {CLOSED_POLICY}".encode())
ALWAYS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
CLOSED: Headers = (*ALWAYS, _NO_POLICY)
"""Of every answer without another content policy: it loads nothing and is in no frame."""
_LONGEST_PATH, _LONGEST_QUERY = 1024, 4096
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"})
_PORT = re.compile(r":[0-9]{0,5}$")
_MOST_KNOWN = 100
_ONE_WORD = re.compile(r"[a-z0-9_-]{1,63}")


class Protected:
    """ASGI middleware around everything: each answer has these headers, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                has_policy = any(name == _NO_POLICY[0] for name, _ in headers)
                message = {**message, "headers": [*headers, *(ALWAYS if has_policy else CLOSED)]}
            await send(message)

        await self._app(scope, receive, protected)


class Hosts:
    """By which names the service may be asked: a page of somebody else's cannot fake one.

    A page can give its own name any address, such as that of this service, and then ask it as if
    it were its own (DNS rebinding); but the browser goes on to tell that name. Names that nobody
    else can have are addresses, names of one word, ``….localhost`` and this machine's own. Over a
    unix socket, which browsers do not reach, all are good unless some are configured.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower().rstrip(".") for name in names)
        self._own = _own_names()
        self._known: set[bytes] = set()

    def allow(self, scope: Scope) -> bool:
        # a request that names none is allowed
        told = [value for name, value in scope["headers"] if name == b"host"]
        if len(told) != 1 or not told[0]:
            return len(told) < 2
        if told[0] in self._known:
            return True
        server = scope.get("server")
        over_unix_socket = not server or server[1] is None
        if over_unix_socket and not self._names:
            return True
        is_allowed = self._allows(told[0].decode("latin-1"))
        if is_allowed and len(self._known) < _MOST_KNOWN:
            self._known.add(told[0])
        return is_allowed

    def _allows(self, host: str) -> bool:
        name = _PORT.sub("", host.lower()).rstrip(".")
        with suppress(ValueError):
            ipaddress.ip_address(name.strip("[]"))
            return True
        if _ONE_WORD.fullmatch(name):
            return True
        above = (f"*{name[at:]}" for at, letter in enumerate(name) if letter == ".")
        return (
            name.endswith(".localhost")
            or not self._names.isdisjoint((name, "*", *above))
            or name in self._own
        )


@cache
def _own_names() -> frozenset[str]:
    return frozenset(name.lower() for name in (socket.gethostname(), socket.getfqdn()))


class CacheMiddleware:
    """ASGI middleware; a warm answer goes no further than this."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._hosts = Hosts(service.settings.allowed_hosts)
        self._metrics = service.metrics
        self._notes = service.demand is not None and service.has_tokens
        self._access = structlog.get_logger("access") if service.settings.access_log else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        method = scope["method"]
        is_allowed = self._hosts.allow(scope)
        if is_allowed and method in ("GET", "HEAD"):
            key = (scope["path"], scope["query_string"])
            answer = self._service.state.answers.get(key)
            if answer is not None and not self._may_be_noted(answer, scope):
                status = await _send(answer, scope, send)
                answer.hits += 1
                self._count(scope, answer.route, status, started)
                return
        if is_allowed:
            await self._through(self._app, scope, receive, send, started)
        else:
            await self._through(problem(421, say("wrong-host")), scope, receive, send, started)

    def _may_be_noted(self, answer: Answer, scope: Scope) -> bool:
        """Tell whether a token asks for what would be noted; that is looked at by the endpoint."""
        if not (self._notes and answer.document.demanded):
            return False
        return any(name == b"authorization" for name, _ in scope["headers"])

    async def _through(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, started: float
    ) -> None:
        status = 500
        is_head = scope["method"] == "HEAD"

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        inner: Scope = {**scope, "method": "GET"} if is_head else scope
        try:
            if len(scope["path"]) > _LONGEST_PATH or len(scope["query_string"]) > _LONGEST_QUERY:
                await problem(414, say("address-too-long"))(scope, receive, counted)
            else:
                await app(inner, receive, counted)
        finally:
            scope["route"] = inner.get("route")
            route = getattr(scope["route"], "path", OTHER)
            self._count(scope, route, status, started)

    def _count(self, scope: Scope, route: str, status: int, started: float) -> None:
        seconds = time.perf_counter() - started
        method = scope["method"] if scope["method"] in _METHODS else OTHER
        self._metrics.request(route, method, status, seconds)
        if self._access is not None:
            self._access.info(
                "request",
                method=method,
                path=scope["path"],
                status=status,
                seconds=round(seconds, 6),
                client=(scope.get("client") or ("",))[0],
            )


async def _send(answer: Answer, scope: Scope, send: Send) -> int:
    known = next((v for k, v in scope["headers"] if k == b"if-none-match"), b"")
    if known and answer.is_known(known):
        await send({"type": "http.response.start", "status": 304, "headers": answer.short_headers})
        await send({"type": "http.response.body", "body": b""})
        return 304
    await send({"type": "http.response.start", "status": 200, "headers": answer.headers})
    body = b"" if scope["method"] == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})
    return 200
