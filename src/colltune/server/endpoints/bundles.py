"""``/v1/bundles``: what there is, and reports on it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from colltune.server.schemas import BundlePath, Bundles
from colltune.server.serving import NOT_MODIFIED, PROBLEMS, computed, service_of

router = APIRouter(tags=["bundles"], responses=PROBLEMS)


@router.get("/v1/bundles", response_model=Bundles)
async def bundles(request: Request) -> Response:
    """List all bundles, what is in force, and the history of promotions."""
    return await computed(request, service_of(request).bundles)


@router.get("/v1/bundles/{bundle_id}/report", response_class=HTMLResponse, responses=NOT_MODIFIED)
async def report(request: Request, bundle_id: BundlePath) -> Response:
    """Show what a bundle decides and why: one page without scripts that loads nothing."""
    service = service_of(request)
    return await computed(request, service.report, service.state, bundle_id)
