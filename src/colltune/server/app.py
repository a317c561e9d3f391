"""The application, made by a factory so that each worker makes its own."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from fastapi import FastAPI
from starlette.types import ASGIApp

from colltune import __version__
from colltune.server import errors
from colltune.server.auth.gate import Gatekeeper
from colltune.server.endpoints import ROUTERS, Writing
from colltune.server.limits import Limits, RateLimit, ThreadOffload
from colltune.server.middleware import CacheMiddleware, Protected
from colltune.server.service import Service
from colltune.server.settings import ServiceSettings
from colltune.server.supervisor import end_with_supervisor, log_as_json

_COUNT_S, _WRITE_S = 1.0, 10.0
_SWITCH_S = 0.0005
_SLOW_PENDING = 8
_WRITE_THREADS, _MOST_WRITES = 2, 16
_DESCRIPTION = "Which algorithm of each MPI collective a job should use, from fitted bundles."


def create_app(settings: ServiceSettings | None = None) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    settings
        By default those of the environment.
    """
    settings = settings or ServiceSettings()
    service = Service(settings)
    app = _Application(
        title="colltune",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.service = service
    app.state.offload = ThreadOffload(settings.threads, settings.max_pending)
    app.state.slow = ThreadOffload(1, _SLOW_PENDING)
    app.state.gatekeeper = Gatekeeper(settings)
    app.state.writing = Writing(settings, service.watcher.refresh)
    app.state.writes = ThreadOffload(_WRITE_THREADS, _MOST_WRITES)
    errors.install(app)
    for router in ROUTERS:
        app.include_router(router)
    rate = RateLimit(settings.rate_per_s, settings.burst)
    summaries = RateLimit(settings.rate_per_s, settings.summaries_burst)
    app.state.callers = RateLimit(settings.rate_per_s, settings.summaries_burst)
    app.add_middleware(
        Limits, max_body_bytes=settings.max_body_bytes, writes=rate, summaries=summaries
    )
    app.add_middleware(CacheMiddleware, service=service)
    return app


class _Application(FastAPI):
    """An application of which even the answers to unforeseen errors are protected."""

    def build_middleware_stack(self) -> ASGIApp:
        return Protected(super().build_middleware_stack())


def worker_app() -> FastAPI:
    """Return the application of a server's process, which logs as it was told."""
    end_with_supervisor()
    settings = ServiceSettings()
    log_as_json(settings.log_level)
    return create_app(settings)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    service.watcher.start()
    # a worker that started later than others takes no request before it can answer
    await asyncio.to_thread(service.watcher.await_first_look)
    if service.production is not None:
        # threads that judge give way to answers sooner
        sys.setswitchinterval(_SWITCH_S)
        service.production.start()
    counting = asyncio.create_task(_count(service))
    try:
        yield
    finally:
        counting.cancel()
        await asyncio.to_thread(service.watcher.stop)
        state = app.state
        for threads in (state.offload, state.slow, state.writes):
            await asyncio.to_thread(threads.close)
        # a file system or a daemon that hangs keeps nobody from ending
        state.gatekeeper.threads.close(wait=False)
        service.settle()
        await asyncio.to_thread(service.write_counts)
        if service.production is not None:
            await asyncio.to_thread(service.production.stop)


async def _count(service: Service) -> None:
    """Count warm answers from time to time, which costs less than doing so for each."""
    written_at = time.monotonic()
    while True:
        await asyncio.sleep(_COUNT_S)
        try:
            service.settle()
            if time.monotonic() - written_at > _WRITE_S:
                written_at = time.monotonic()
                await asyncio.to_thread(service.write_counts)
        except Exception:
            structlog.get_logger().exception("answers could not be counted")
