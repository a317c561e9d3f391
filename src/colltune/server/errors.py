"""Errors as clients see them: problems (RFC 9457) with the message, never a traceback."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from colltune.errors import (
    BundleError,
    ColltuneError,
    ConflictError,
    DataError,
    LibraryError,
    OutputError,
    RegistryConflict,
    say,
)

PROBLEM = "application/problem+json"
_LONGEST = 500
_MOST_FAULTS = 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


class ServiceError(Exception):
    """A request that cannot be answered: the status that the client gets, and why.

    No `ColltuneError`, since no verb ends with it.
    """

    def __init__(self, status: int, why: ColltuneError, *, retry_s: int = 1) -> None:
        super().__init__(str(why))
        self.status, self.why = status, why
        self.headers: dict[str, str] = {}
        if status == 401:
            self.headers = {"WWW-Authenticate": 'Bearer realm="colltune", MUNGE realm="colltune"'}
        elif status in (429, 503):
            self.headers = {"Retry-After": str(retry_s)}


_STATUSES: dict[type[ColltuneError], int] = {
    DataError: 422,
    LibraryError: 422,
    RegistryConflict: 409,
    ConflictError: 409,
    BundleError: 404,
    OutputError: 503,
}
"""Of errors that know nothing of HTTP."""


def _status_of(error: Exception) -> int:
    if isinstance(error, ServiceError):
        return error.status
    if isinstance(error, OutputError) and getattr(error.__cause__, "errno", 0) in _FULL:
        return 507
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 500)


def problem(
    status: int, why: ColltuneError | str, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    code = why.code if isinstance(why, ColltuneError) else ""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _short(str(why)),
        **({"code": code} if code else {}),
        **more,
    }
    text = json.dumps(body).encode()
    return Response(text, status, dict(headers or {}), PROBLEM)


def install(app: FastAPI) -> None:
    app.add_exception_handler(ColltuneError, _explained)
    app.add_exception_handler(ServiceError, _explained)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


async def _explained(request: Request, error: Exception) -> Response:
    status = _status_of(error)
    if isinstance(error, BundleError) and not request.app.state.service.watcher.reachable:
        # what is not found may well be there
        status = 503
    if status >= 500:
        structlog.get_logger().warning("request failed", status=status, error=str(error))
    if isinstance(error, ServiceError):
        return problem(status, error.why, error.headers)
    return problem(status, error if isinstance(error, ColltuneError) else str(error))


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [_fault(found) for found in error.errors()[:_MOST_FAULTS]]
    detail = "; ".join(f"{fault['where']}: {fault['what']}" for fault in faults)
    return problem(422, say("wrong-request", why=detail), errors=faults)


def _fault(found: Mapping[str, Any]) -> dict[str, str]:
    # without what the client sent
    what = str(found["msg"]).removeprefix("Value error, ")
    return {"where": _short(".".join(map(str, found["loc"]))), "what": _short(what)}


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, str(error.detail), error.headers)


async def _unforeseen(request: Request, error: Exception) -> Response:
    route = getattr(request.scope.get("route"), "path", "")
    structlog.get_logger().error("unexpected error", route=route, exc_info=error)
    return problem(500, say("unforeseen"))


def _short(text: str) -> str:
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= _LONGEST else f"{clean[:_LONGEST]}…"
