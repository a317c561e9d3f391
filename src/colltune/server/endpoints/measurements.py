"""``/v1/measurements``: measurements for the next bundle."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from colltune.server.auth.dependency import Admitted
from colltune.server.auth.gate import Admission
from colltune.server.auth.scopes import Scope
from colltune.server.bodies import Uploads, refuse_other_types
from colltune.server.write_requests import WRITE_PROBLEMS, MeasurementsQuery, Stored, written

router = APIRouter(tags=["changes"], responses=WRITE_PROBLEMS)
Sender = Annotated[Admission, Depends(Admitted(Scope.MEASUREMENTS))]
_EXAMPLE = (
    "machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,launch,time_s\n"
    "hydra,openmpi,4.1.4,bcast,binomial,4,16,1024,job 4711,1.5e-05\n"
)
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "Tidy CSV, or a Parquet file as `colltune measure` writes it.",
        "content": {
            "text/csv": {"schema": {"type": "string"}, "example": _EXAMPLE},
            "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post(
    "/v1/measurements",
    status_code=201,
    openapi_extra=_BODY,
    responses={200: {"model": Stored, "description": "The same was stored before."}},
)
async def store(
    request: Request,
    response: Response,
    sender: Sender,
    query: Annotated[MeasurementsQuery, Query()],
) -> Stored:
    """Append measurements to the dataset that the next bundle is fitted to.

    Every row is checked, and all of a body is stored or nothing. The same body is stored once,
    however often it is sent.
    """
    refuse_other_types(request)
    uploads: Uploads = request.app.state.uploads
    folder = request.app.state.writing.dataset_folder()
    async with uploads.spooled(request, folder) as body:
        sender.check_body(body.sha256)
        stored = await written(
            request,
            lambda writing: writing.store(
                body.stream, body.path, body.sha256, query.launch, sender.principal
            ),
        )
    response.status_code = 201 if stored.new else 200
    return Stored(**asdict(stored))
