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

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": what, "model": ProblemOf, "content": {PROBLEM: {}}}
    for status, what in {
        404: "There is no such thing.",
        414: "The address is too long.",
        422: "The request is not understood.",
        503: "Not ready, or too much to do; see Retry-After.",
    }.items()
}
"""Answers that every endpoint may give."""
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "What the client has (If-None-Match) is still right."}
}
"""Answers of endpoints whose content has an ETag."""


def service_of(request: Request) -> Service:
    """Return the service behind a request."""
    service: Service = request.app.state.service
    return service


async def answered(
    request: Request, compute: Callable[..., Document], *arguments: object
) -> Response:
    """Return what `compute` makes of the state in force and `arguments`, and keep it ready."""
    service = service_of(request)
    state = service.state
    key = (id(state), compute.__name__, arguments)
    document = await _offload(request).run(key, lambda: compute(state, *arguments))
    answer = Answer(document, _route(request), (compute, arguments))
    service.count_first(document)
    state.answers.put((request.scope["path"], request.scope["query_string"]), answer)
    return _response(request, answer)


async def computed(
    request: Request, compute: Callable[..., Document], *arguments: object
) -> Response:
    """Return what `compute` makes of `arguments`; nothing is kept.

    It has a thread of its own, since such things take long.
    """
    slow: Offload = request.app.state.slow
    document = await slow.run((compute.__name__, arguments), lambda: compute(*arguments))
    return _response(request, Answer(document, _route(request)))


def _response(request: Request, answer: Answer) -> Response:
    if answer.is_known(request.headers.get("if-none-match", "").encode("latin-1")):
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


class OnceEach:
    """Refuses a parameter that is given twice, of which only one would count."""

    def __init__(self, *but: str) -> None:
        self._but = but

    async def __call__(self, request: Request) -> None:
        seen = set()
        for name, _ in request.query_params.multi_items():
            if name in seen:
                raise UnclearError(f"query.{name[:40]}: given twice")
            if name not in self._but:
                seen.add(name)
