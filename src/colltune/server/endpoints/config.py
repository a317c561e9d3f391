"""``/v1/config`` and ``/v1/job``: the files that an MPI library reads."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import PlainTextResponse

from colltune.server.examples import JOB_FILE, RULES
from colltune.server.schemas import ConfigQuery, JobQuery, LibraryPath, ReleasePath
from colltune.server.serving import NOT_MODIFIED, PROBLEMS, OnceEach, answered, service_of

router = APIRouter(tags=["configuration"], responses={**PROBLEMS, **NOT_MODIFIED})
_FILE = {
    "description": "The file. ETag covers the bundle, the shape and whatever else it hangs on.",
    "content": {
        "text/plain": {"schema": {"type": "string"}, "example": RULES},
        "application/json": {"schema": {}},
    },
}
_JOB = {
    "description": "The job file.",
    "content": {"text/plain": {"schema": {"type": "string"}, "example": JOB_FILE}},
}


@router.get(
    "/v1/config/{library}/{release}",
    response_class=PlainTextResponse,
    responses={200: _FILE},
    dependencies=[Depends(OnceEach())],
)
async def config(
    request: Request,
    library: LibraryPath,
    release: ReleasePath,
    query: Annotated[ConfigQuery, Query()],
) -> Response:
    """Give a job's configuration file, as the release of the MPI library reads it.

    Where there is no bundle for the release, the one for the newest release of its series is asked.
    """
    service = service_of(request)
    return await answered(request, service.configuration, library, release, query)


@router.get(
    "/v1/job/{library}/{release}",
    response_class=PlainTextResponse,
    responses={200: _JOB},
    dependencies=[Depends(OnceEach("ppn"))],
)
async def job(
    request: Request,
    library: LibraryPath,
    release: ReleasePath,
    query: Annotated[JobQuery, Query()],
) -> Response:
    """Give all that a batch system's hooks tell a job, in one text that a shell can split."""
    return await answered(request, service_of(request).job, library, release, query)
