"""What keeps browsers from misusing the service: headers of every answer, and the Host header."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from functools import cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from colltune.server.answers import Headers

CONTENT_POLICY = "Content-Security-Policy"
_CLOSED = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    f" {_CLOSED}"
)
"""Of the page, whose scripts and styles are files of the service."""
DOCUMENT_POLICY = f"default-src 'none'; style-src 'unsafe-inline'; {_CLOSED}"
"""Of pages without scripts that load nothing."""
_NO_POLICY = (CONTENT_POLICY.lower().encode(), f"default-src 'none'; {_CLOSED}".encode())
ALWAYS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
CLOSED: Headers = (*ALWAYS, _NO_POLICY)
"""Of every answer without another content policy: it loads nothing and is in no frame."""
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
        """Tell whether a request is for one of the names; one that names none is."""
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
        if _is_address(name.strip("[]")) or _ONE_WORD.fullmatch(name):
            return True
        above = (f"*{name[at:]}" for at, letter in enumerate(name) if letter == ".")
        return (
            name.endswith(".localhost")
            or not self._names.isdisjoint((name, "*", *above))
            or name in self._own
        )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@cache
def _own_names() -> frozenset[str]:
    """Return what this machine calls itself."""
    return frozenset(name.lower() for name in (socket.gethostname(), socket.getfqdn()))
