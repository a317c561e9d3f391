"""``/docs``: the interface for people, rendered from its OpenAPI description; works offline."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from colltune.server.docs_page import docs_page
from colltune.server.protection import CONTENT_POLICY, DOCUMENT_POLICY

router = APIRouter()


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Show the interface."""
    return HTMLResponse(docs_page(request.app.openapi()), headers={CONTENT_POLICY: DOCUMENT_POLICY})
