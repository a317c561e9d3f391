"""How much one client may ask: requests per second, and bytes of a request's body.

A plain ASGI middleware, since every answer passes through it.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from colltune.server.bodies import TooLargeError, too_large
from colltune.server.errors import problem

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_CLIENTS = 10_000
_IPV6_SITE_BITS = 64
_MOST_DIGITS = 20


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
    """The middleware."""

    def __init__(self, app: ASGIApp, max_body_bytes: int, writes: RateLimit) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._writes = writes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the application what is beyond the limits."""
        if scope["type"] != "http" or scope["method"] in _READING:
            # what such a request carries nobody reads, and the connection gives it up
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, self._counted(receive), send)
        else:
            await refusal(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        if _declared_bytes(scope) > self._max_body_bytes:
            return problem(413, too_large(self._max_body_bytes))
        client = client_of(scope)
        wait_s = math.ceil(self._writes.wait_s(client)) if client else 0
        if not wait_s:
            return None
        detail = f"too many requests of this client; try again in {wait_s} s"
        return problem(429, detail, {"Retry-After": str(wait_s)})

    def _counted(self, receive: Receive) -> Receive:
        """Return `receive` with an end: a body in chunks does not tell its length."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_body_bytes:
                raise TooLargeError(too_large(self._max_body_bytes))
            return message

        return counted


def _declared_bytes(scope: Scope) -> int:
    """Return the body's length as told, 0 where it is not told."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value[:_MOST_DIGITS]) if value.isdigit() else 0
    return 0


def client_of(scope: Scope) -> str:
    """Return whom requests are counted for; empty if that is not known."""
    if not scope.get("client"):
        return ""
    host = str(scope["client"][0])
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _IPV6_SITE_BITS), strict=False))
