"""The gate as FastAPI dependencies, which endpoints that write take.

``app.state.gatekeeper`` is the `Gatekeeper`.
"""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated
from urllib.parse import quote

import structlog
from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer

from colltune.server.auth.gate import Admission, Gate, Principal, TokenStore, munge_rules
from colltune.server.auth.token_file import Scope
from colltune.server.errors import AccessError, BusyError, CannotTellError
from colltune.server.limits import chunks
from colltune.server.settings import Settings

_LOG = structlog.get_logger("colltune.server.auth")
_THREADS = 4
_MOST_WAITING = 64
_PATIENCE_S = 5.0
_MOST_IGNORED_BYTES = 1 << 16
_TOKEN = HTTPBearer(
    scheme_name="token",
    auto_error=False,
    description="A token from `colltune site token add`.",
)
_MUNGE = APIKeyHeader(
    name="Authorization",
    scheme_name="munge",
    auto_error=False,
    description='`MUNGE` and a credential: `curl -H "Authorization: MUNGE $(munge -n)"`.',
)


class Gatekeeper:
    """A gate that may be asked from the event loop.

    It works in its own few threads: who floods the service with credentials, or a daemon that
    hangs, keeps no reader from his answer.
    """

    def __init__(self, settings: Settings) -> None:
        rules = munge_rules(settings.munge_users, settings.munge_socket, bound=settings.munge_bound)
        tokens = TokenStore(settings.tokens) if settings.tokens else None
        self._gate = Gate(tokens, rules if settings.munge else None)
        self._threads = ThreadPoolExecutor(_THREADS, "gate")
        self._waiting = 0

    async def admit(self, request: Request, scope: Scope) -> Admission:
        """Return who asks, if he may."""
        if self._waiting >= _MOST_WAITING:
            raise BusyError("too many callers are being checked; try again in a moment")
        try:
            return await self._checked(request, scope)
        except AccessError as error:
            client = (request.scope.get("client") or ("",))[0]
            _LOG.info("turned away", status=error.status, client=client, why=str(error))
            raise

    async def _checked(self, request: Request, scope: Scope) -> Admission:
        authorizations = request.headers.getlist("authorization")
        work = self._threads.submit(
            self._gate.admit, authorizations, scope, request.method, _target(request)
        )
        self._waiting += 1
        try:
            return await asyncio.wait_for(asyncio.wrap_future(work), _PATIENCE_S)
        except TimeoutError:
            raise CannotTellError(
                "who asks cannot be checked: the token file's folder or the MUNGE daemon hangs"
            ) from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Admitted:
    """The dependency of an endpoint that takes a body and checks it itself."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def __call__(
        self,
        request: Request,
        _token: Annotated[object, Security(_TOKEN)],
        _munge: Annotated[object, Security(_MUNGE)],
    ) -> Admission:
        """Return who asks."""
        keeper: Gatekeeper = request.app.state.gatekeeper
        return await keeper.admit(request, self._scope)


class Authenticated(Admitted):
    """The dependency of an endpoint that takes no body."""

    async def __call__(  # type: ignore[override]
        self,
        request: Request,
        _token: Annotated[object, Security(_TOKEN)],
        _munge: Annotated[object, Security(_MUNGE)],
    ) -> Principal:
        """Return who asks, after comparing his credential with the whole request."""
        admission = await super().__call__(request, _token, _munge)
        digest = hashlib.sha256()
        async for chunk in chunks(request, _MOST_IGNORED_BYTES):
            digest.update(chunk)
        admission.check_body(digest.hexdigest())
        return admission.principal


def _target(request: Request) -> str:
    """Return path and query as they were sent."""
    raw = request.scope.get("raw_path") or quote(request.url.path).encode()
    query = request.scope.get("query_string", b"")
    target = raw + b"?" + query if query else raw
    return bytes(target).decode("latin-1")
