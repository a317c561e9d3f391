"""``/health``: whether the process lives, and whether it can answer."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from colltune.server.schemas import Liveness, Readiness
from colltune.server.serving import service_of

router = APIRouter(tags=["health"], prefix="/health")


@router.get("/live")
async def live() -> Liveness:
    """Say that the process lives."""
    return Liveness(status="live")


@router.get("/ready", response_model=Readiness, responses={503: {"model": Readiness}})
async def ready(request: Request) -> JSONResponse:
    """Say whether a bundle is loaded and whole, and if not, why."""
    service = service_of(request)
    why_not = service.why_not_ready()
    bundles = {slot: loaded.bundle.id for slot, loaded in service.state.loaded.items()}
    content = {
        "ready": not why_not,
        "bundles": bundles,
        "problems": why_not or service.warnings(),
    }
    return JSONResponse(content, 503 if why_not else 200, {"Cache-Control": "no-store"})
