"""``/v1/bundles/{id}/promote`` and ``/rollback``: which bundle is in force."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from colltune.server.auth.dependency import Authenticated
from colltune.server.auth.scopes import Principal, Scope
from colltune.server.schemas import BundlePath, EventOf
from colltune.server.write_requests import WRITE_PROBLEMS, PromoteQuery, RollbackQuery, written
from colltune.server.writing import Why

router = APIRouter(tags=["changes"], responses=WRITE_PROBLEMS)
Writer = Annotated[Principal, Depends(Authenticated(Scope.PROMOTE))]


@router.post("/v1/bundles/{bundle_id}/promote")
async def promote(
    request: Request, bundle_id: BundlePath, writer: Writer, query: Annotated[PromoteQuery, Query()]
) -> EventOf:
    """Bring a bundle into force in the place of its MPI release, after checking all of it.

    With `expected` only if that bundle is in force now (`none`: if none is), so that of two who
    decide at the same time one is told. Promoting what is in force changes nothing.
    """
    why = Why(query.note, query.expected)
    event = await written(request, lambda writing: writing.promote(bundle_id, why, writer))
    return EventOf(**asdict(event))


@router.post("/v1/bundles/{bundle_id}/rollback")
async def rollback(
    request: Request,
    bundle_id: BundlePath,
    writer: Writer,
    query: Annotated[RollbackQuery, Query()],
) -> EventOf:
    """Take a bundle that is in force back: what was in force before it is so again."""
    why = Why(query.note)
    event = await written(request, lambda writing: writing.rollback(bundle_id, why, writer))
    return EventOf(**asdict(event))
