"""The application, made by a factory so that each worker makes its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from colltune import __version__
from colltune.server import errors, logs
from colltune.server.endpoints import health, select
from colltune.server.front import Front
from colltune.server.offload import Offload
from colltune.server.service import Service
from colltune.server.settings import Settings

ROUTERS = (health.router, select.router)
_DESCRIPTION = "Which algorithm of each MPI collective a job should use, from fitted bundles."


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    settings
        By default those of the environment.
    """
    settings = settings or Settings()
    service = Service(settings)
    app = FastAPI(
        title="colltune",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.service = service
    app.state.offload = Offload(settings.threads, settings.max_pending)
    errors.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(Front, service=service)
    return app


def worker_app() -> FastAPI:
    """Return the application of a server's process, which logs as it was told."""
    settings = Settings()
    logs.configure(settings.log_level)
    return create_app(settings)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    service.watcher.start()
    try:
        yield
    finally:
        await asyncio.to_thread(service.watcher.stop)
        app.state.offload.close()
