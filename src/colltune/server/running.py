"""How uvicorn runs a service."""

from __future__ import annotations

from typing import Any

import uvicorn

APP = "colltune.server.app:worker_app"
_PROTOCOL = "colltune.server.guarded_protocol:GuardedProtocol"
_GRACE_S = 10
_KEEP_ALIVE_S = 30


def uvicorn_config(app: str = APP, *, workers: int = 1, **tls: Any) -> uvicorn.Config:
    """Return how uvicorn is to run an application.

    Parameters
    ----------
    app
        ``module:factory``.
    workers
        Processes.
    tls
        uvicorn's options whose names begin with ``ssl_``.
    """
    return uvicorn.Config(
        app,
        factory=True,
        http=_PROTOCOL,
        ws="none",
        workers=workers,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        **tls,
    )
