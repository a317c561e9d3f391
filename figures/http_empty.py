"""The least that a FastAPI application can do."""

from __future__ import annotations

from fastapi import FastAPI


def empty_app() -> FastAPI:
    """Return an application with one handler that does nothing."""
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.get("/")
    async def nothing() -> None:
        return None

    return app
