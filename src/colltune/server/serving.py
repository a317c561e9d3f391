"""How endpoints hand requests to the service, and its answers back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request, Response

from colltune.server.answers import Answer, Document
from colltune.server.errors import BusyError, UnclearError
from colltune.server.service import Service
from colltune.server.writing import Writing

Result = TypeVar("Result")


class Offload:
    """Computes in a few threads what would hold up the event loop, each thing once.

    At most ``max_pending`` computations are under way or wait.
    """

    def __init__(self, threads: int, max_pending: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="answers")
        self._max_pending = max_pending
        self._pending: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return what `compute` returns; who asks for the same meanwhile gets the same."""
        task = self._pending.get(key)
        if task is None:
            if len(self._pending) >= self._max_pending:
                raise BusyError("too many answers are being computed; ask again in a second")
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

    def close(self) -> None:
        """Wait for what is under way, and drop what waits."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def answered(
    request: Request, compute: Callable[..., Document], *arguments: object
) -> Response:
    """Return what `compute` makes of the state in force and `arguments`, and keep it ready."""
    service = service_of(request)
    state = service.state
    key = (id(state), compute.__name__, arguments)
    offload: Offload = request.app.state.offload
    document = await offload.run(key, lambda: compute(state, *arguments))
    answer = Answer(document, request.scope["route"].path, (compute, arguments))
    service.count_first(document)
    state.answers.put((request.scope["path"], request.scope["query_string"]), answer)
    return response(request, answer)


async def computed(
    request: Request, compute: Callable[..., Document], *arguments: object, slow: bool = True
) -> Response:
    """Return what `compute` makes of `arguments`; nothing is kept.

    What is `slow` has its own thread.
    """
    state = request.app.state
    offload: Offload = state.slow if slow else state.offload
    document = await offload.run((compute.__name__, arguments), lambda: compute(*arguments))
    return response(request, Answer(document, request.scope["route"].path))


async def written(request: Request, write: Callable[[Writing], Result]) -> Result:
    """Return what `write` does; in other threads, so that answers do not wait for it."""
    writing: Writing = request.app.state.writing
    writes: Offload = request.app.state.writes
    return await writes.run(object(), lambda: write(writing))


def response(request: Request, answer: Answer) -> Response:
    if answer.is_known(request.headers.get("if-none-match", "").encode("latin-1")):
        return Response(None, 304, _text(answer.short_headers))
    return Response(answer.body, 200, _text(answer.headers))


def _text(headers: tuple[tuple[bytes, bytes], ...]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers}


class OnceEach:
    """Refuses a parameter that is given twice, of which only one would count; not those `but`."""

    def __init__(self, *but: str) -> None:
        self._but = but

    async def __call__(self, request: Request) -> None:
        seen = set()
        for name, _ in request.query_params.multi_items():
            if name in seen:
                raise UnclearError(f"query.{name[:40]}: given twice")
            if name not in self._but:
                seen.add(name)
