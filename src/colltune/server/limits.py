"""How much is done at once, and how much one client may ask."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from colltune.errors import ColltuneError, say
from colltune.server.errors import ServiceError, problem
from colltune.server.settings import TRUSTED_PEER

_TYPES = (
    "",
    "text/plain",
    "application/octet-stream",
    # what curl says of --data-binary
    "application/x-www-form-urlencoded",
)
SUMMARIES, MOST_SUMMARY_BYTES = "/v1/summaries", 65536
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_CLIENTS = 10_000
_IPV6_SITE_BITS = 64
_MOST_DIGITS = 20
Result = TypeVar("Result")


class ThreadOffload:
    """Computes in a few threads what would hold up the event loop, each thing once.

    At most ``max_pending`` computations are under way or wait; of more `what` there are too many.
    """

    def __init__(self, threads: int, max_pending: int, what: str = "requests at once") -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="answers")
        self._max_pending = max_pending
        self._what = what
        self._pending: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return what `compute` returns; who asks for the same meanwhile gets the same."""
        task = self._pending.get(key)
        if task is None:
            if len(self._pending) >= self._max_pending:
                raise ServiceError(503, say("too-busy", what=self._what, wait_s=1))
            task = asyncio.ensure_future(self._computed(key, compute))
            self._pending[key] = task
        # a client who goes away does not take the answer from the others
        found: Result = await asyncio.shield(task)
        return found

    async def _computed(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, compute)
        finally:
            del self._pending[key]

    def close(self, *, wait: bool = True) -> None:
        self._pool.shutdown(wait=wait, cancel_futures=True)


def refuse_other_types(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    packed = request.headers.get("content-encoding", "identity").strip().lower()
    if kind not in _TYPES or packed != "identity":
        raise ServiceError(415, say("not-plain-text"))


async def chunks(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body, which need not have told its length."""
    received = 0
    try:
        async for chunk in request.stream():
            received += len(chunk)
            if received > most_bytes:
                raise ServiceError(413, _too_large(most_bytes))
            yield chunk
    except ClientDisconnect:
        cut = say("cut-short", path="the request's body", why="the connection was closed")
        raise ServiceError(400, cut) from None


def _too_large(most_bytes: int) -> ColltuneError:
    return say("body-too-large", most=most_bytes)


class RateLimit:
    """A token bucket per client: `burst` requests at once, and `rate_per_s` in the long run.

    Of so many clients as are remembered the one that was silent the longest is forgotten first,
    which gives it no more than its burst anew.
    """

    def __init__(
        self,
        rate_per_s: float,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
        most_clients: int = _MOST_CLIENTS,
    ) -> None:
        self._rate_per_s = rate_per_s
        self._burst = float(burst)
        self._clock = clock
        self._most_clients = most_clients
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str) -> float:
        """Take one request of `client` off; return 0, or the seconds until it may ask again."""
        now_s = self._clock()
        left, then_s = self._buckets.pop(client, (self._burst, now_s))
        left = min(self._burst, left + max(0.0, now_s - then_s) * self._rate_per_s)
        wait_s = 0.0 if left >= 1.0 else (1.0 - left) / self._rate_per_s
        self._buckets[client] = (left if wait_s else left - 1.0, now_s)
        while len(self._buckets) > self._most_clients:
            self._buckets.popitem(last=False)
        return wait_s

    def __len__(self) -> int:
        return len(self._buckets)


class Limits:
    """A middleware that answers for the application what is beyond the limits.

    Bodies that do not tell their length are cut off where they are read, by `chunks`.
    """

    def __init__(
        self, app: ASGIApp, max_body_bytes: int, writes: RateLimit, summaries: RateLimit
    ) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._writes = writes
        self._summaries = summaries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _READING:
            await self._app(scope, receive, send)
            return
        await (self._refusal(scope) or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        if _declared_bytes(scope) > self._max_body_bytes:
            return problem(413, _too_large(self._max_body_bytes))
        client = client_of(scope)
        # many jobs end at once, and one host may tell of all
        rate = self._summaries if scope["path"] == SUMMARIES else self._writes
        wait_s = math.ceil(rate.wait_s(client)) if client else 0
        if not wait_s:
            return None
        why = say("too-busy", what="requests of this client", wait_s=wait_s)
        return problem(429, why, {"Retry-After": str(wait_s)})


def _declared_bytes(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value[:_MOST_DIGITS]) if value.isdigit() else 0
    return 0


def client_of(scope: Scope) -> str:
    """Return whom requests are counted for; empty if that is not known."""
    found = scope.get("client")
    return "" if not found or found[0] == TRUSTED_PEER else counted_as(str(found[0]))


def counted_as(host: str) -> str:
    """Return as whom an address is counted: itself, or its site for IPv6."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _IPV6_SITE_BITS), strict=False))
