"""How endpoints hand requests to the service, and its answers back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fastapi import Request, Response

from colltune.server.answers import Answer, Document
from colltune.server.auth.gate import Gatekeeper
from colltune.server.errors import ServiceError
from colltune.server.limits import Offload
from colltune.server.service import Service
from colltune.server.writing import Writing

Result = TypeVar("Result")


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def answered(
    request: Request, compute: Callable[..., Document], *arguments: object, keep: bool = True
) -> Response:
    """Return what `compute` makes of the state in force and `arguments`.

    It is kept ready for others, unless it is one job's alone.
    """
    service = service_of(request)
    state = service.state
    key = (id(state), compute.__name__, arguments)
    offload: Offload = request.app.state.offload
    try:
        document = await offload.run(key, lambda: compute(state, *arguments))
    except ServiceError as error:
        service.refused(error, arguments)
        raise
    answer = Answer(document, request.scope["route"].path, (compute, arguments))
    service.count_first(document, by_token=bool(document.demanded) and await _has_token(request))
    if keep:
        state.answers.put((request.scope["path"], request.scope["query_string"]), answer)
    return _response(request, answer)


async def _has_token(request: Request) -> bool:
    """Tell whether a caller shows a good token, of whatever scope; reading needs none."""
    if not service_of(request).has_tokens or "authorization" not in request.headers:
        return False
    gatekeeper: Gatekeeper = request.app.state.gatekeeper
    return await gatekeeper.knows(request)


async def computed(
    request: Request, compute: Callable[..., Document], *arguments: object, slow: bool = True
) -> Response:
    """Return what `compute` makes of `arguments`; nothing is kept.

    What is `slow` has its own thread.
    """
    state = request.app.state
    offload: Offload = state.slow if slow else state.offload
    document = await offload.run((compute.__name__, arguments), lambda: compute(*arguments))
    return _response(request, Answer(document, request.scope["route"].path))


async def written(request: Request, write: Callable[[Writing], Result]) -> Result:
    """Return what `write` does; in other threads, so that answers do not wait for it."""
    writing: Writing = request.app.state.writing
    writes: Offload = request.app.state.writes
    return await writes.run(object(), lambda: write(writing))


def _response(request: Request, answer: Answer) -> Response:
    known = answer.is_known(request.headers.get("if-none-match", "").encode("latin-1"))
    headers = answer.short_headers if known else answer.headers
    told = {name.decode(): value.decode() for name, value in headers}
    return Response(None, 304, told) if known else Response(answer.body, 200, told)


class OnceEach:
    """Refuses a parameter that is given twice, of which only one would count; not those `but`."""

    def __init__(self, *but: str) -> None:
        self._but = but

    async def __call__(self, request: Request) -> None:
        seen = set()
        for name, _ in request.query_params.multi_items():
            if name in seen:
                raise ServiceError(422, f"query.{name[:40]}: given twice")
            if name not in self._but:
                seen.add(name)
