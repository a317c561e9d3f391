"""The outermost layer: answers what is kept ready, and counts everything."""

from __future__ import annotations

import time

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from colltune.server.answers import Answer
from colltune.server.errors import problem
from colltune.server.metrics import OTHER
from colltune.server.protection import Hosts
from colltune.server.service import Service

_LONGEST_PATH, _LONGEST_QUERY = 1024, 4096
_WRONG_HOST = (
    "this service is not known by the name in the Host header; use its address, or have the name"
    " added with --allowed-hosts where it is served"
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"})


class CacheMiddleware:
    """ASGI middleware; a warm answer goes no further than this."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._hosts = Hosts(service.settings.allowed_hosts)
        self._metrics = service.metrics
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
            if answer is not None:
                status = await _send(answer, scope, send)
                answer.hits += 1
                self._count(scope, answer.route, status, started)
                return
        if is_allowed:
            await self._through(self._app, scope, receive, send, started)
        else:
            await self._through(problem(421, _WRONG_HOST), scope, receive, send, started)

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
                await problem(414, "the address is too long")(scope, receive, counted)
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
    """Send a warm answer and return its status."""
    known = next((v for k, v in scope["headers"] if k == b"if-none-match"), b"")
    if known and answer.is_known(known):
        await send({"type": "http.response.start", "status": 304, "headers": answer.short_headers})
        await send({"type": "http.response.body", "body": b""})
        return 304
    await send({"type": "http.response.start", "status": 200, "headers": answer.headers})
    body = b"" if scope["method"] == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})
    return 200
