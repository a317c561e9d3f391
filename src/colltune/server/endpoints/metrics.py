"""``/metrics``, for Prometheus."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from colltune.server.examples import METRICS
from colltune.server.facts import facts
from colltune.server.metrics import CONTENT_TYPE
from colltune.server.serving import service_of

router = APIRouter(tags=["health"])
_TEXT = {
    "description": "All metrics, of all workers of this service.",
    "content": {"text/plain": {"schema": {"type": "string"}, "example": METRICS}},
}


@router.get("/metrics", response_class=PlainTextResponse, responses={200: _TEXT})
async def metrics(request: Request) -> Response:
    """Give all metrics in Prometheus' text format."""
    service = service_of(request)
    service.settle()
    text = await asyncio.to_thread(service.metrics.text, facts(service))
    return Response(text, 200, {"Content-Type": CONTENT_TYPE})
