"""``/v1/select``: what to use where."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from colltune.server.schemas import Decision, SelectQuery, Table
from colltune.server.serving import NOT_MODIFIED, PROBLEMS, OnceEach, answered, service_of

router = APIRouter(
    tags=["decisions"], dependencies=[Depends(OnceEach())], responses={**PROBLEMS, **NOT_MODIFIED}
)


@router.get("/v1/select", response_model=Decision | list[Decision] | Table)
async def select(request: Request, query: Annotated[SelectQuery, Query()]) -> Response:
    """Say what to use on a shape: for one message size, or over all of them.

    With `collective` and `msize` one decision; with `msize` alone one of each collective that the
    bundle has; without it the intervals of message sizes.
    """
    return await answered(request, service_of(request).select, query)
