"""How endpoints hand requests to the service, and its answers back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response

from colltune.server.answers import Answer, Document
from colltune.server.errors import PROBLEM, UnclearError
from colltune.server.offload import Offload
from colltune.server.schemas import ProblemOf
from colltune.server.service import Service
from colltune.server.state import State

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": what, "model": ProblemOf, "content": {PROBLEM: {}}}
    for status, what in {
        404: "There is no such thing.",
        422: "The request is not understood.",
        503: "Not ready, or too much to do; see Retry-After.",
    }.items()
}
"""Answers that every endpoint may give."""


def service_of(request: Request) -> Service:
    """Return the service behind a request."""
    service: Service = request.app.state.service
    return service


async def answered(
    request: Request, compute: Callable[..., Document], *arguments: object
) -> Response:
    """Return what `compute` makes of the state in force and `arguments`, and keep it ready."""
    service, offload = service_of(request), _offload(request)
    state = service.state
    key = (id(state), compute.__name__, arguments)
    document = await offload.run(key, lambda: compute(state, *arguments))
    return _response(request, service, state, document)


async def computed(
    request: Request, compute: Callable[..., Document], *arguments: object
) -> Response:
    """Return what `compute` makes of `arguments`; nothing is kept."""
    document = await _offload(request).run(
        (compute.__name__, arguments), lambda: compute(*arguments)
    )
    answer = Answer(document, _route(request))
    return Response(answer.body, 200, _text(answer.headers))


def _response(request: Request, service: Service, state: State, document: Document) -> Response:
    answer = Answer(document, _route(request))
    service.metrics.miss.inc()
    service.metrics.answered(document)
    state.answers.put((request.scope["path"], request.scope["query_string"]), answer)
    if answer.is_known(request.headers.get("if-none-match", "").encode()):
        return Response(None, 304, _text(answer.short_headers))
    return Response(answer.body, 200, _text(answer.headers))


def _text(headers: tuple[tuple[bytes, bytes], ...]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers}


def _route(request: Request) -> str:
    path: str = request.scope["route"].path
    return path


def _offload(request: Request) -> Offload:
    offload: Offload = request.app.state.offload
    return offload


async def once_each(request: Request) -> None:
    """Refuse a parameter that is given twice, of which only one would count."""
    seen = set()
    for name, _ in request.query_params.multi_items():
        if name in seen:
            raise UnclearError(f"query.{name[:40]}: given twice")
        seen.add(name)
