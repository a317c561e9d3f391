"""The options of verbs whose fits can be computed elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from colltune.errors import DataError

if TYPE_CHECKING:
    from colltune.models.workers import Workers

Backend = Annotated[
    str | None,
    typer.Option(help="Who computes: joblib (this host; default) or dask (a cluster)."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="tcp://HOST:PORT",
        help="Dask's scheduler; default: workers are started on this host.",
    ),
]


def workers_of(
    default: Workers, backend: str | None, scheduler: str | None, jobs: int | None
) -> Workers:
    """Return `default` changed by what was given on the command line.

    Raises
    ------
    DataError
        If there is no such backend, or it has no scheduler.
    """
    from dataclasses import replace

    from colltune.models.workers import BACKENDS, DASK

    changed = replace(default, jobs=default.jobs if jobs is None else jobs)
    if backend is not None:
        if backend not in BACKENDS:
            raise DataError(f"unknown --backend {backend!r}; known: {', '.join(BACKENDS)}")
        changed = replace(changed, backend=backend)
    if scheduler is not None:
        changed = replace(changed, scheduler=scheduler, slurm=None)
    if changed.scheduler is not None and changed.backend != DASK:
        raise DataError("--scheduler is for --backend dask; add that, or drop it")
    return changed
