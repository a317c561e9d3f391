"""The web page at ``/``, and under ``/v1/view`` what it asks for."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from colltune.server.answers import Answer
from colltune.server.errors import NotThereError
from colltune.server.offload import Offload
from colltune.server.protection import CONTENT_POLICY, PAGE_POLICY
from colltune.server.serving import NOT_MODIFIED, PROBLEMS, OnceEach, answered
from colltune.server.views.pages import Pages
from colltune.server.views.schemas import (
    JobView,
    JobViewQuery,
    MapQuery,
    MapView,
    OverviewQuery,
    OverviewView,
    PredictionsQuery,
    PredictionView,
)

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {"Cache-Control": "no-cache", CONTENT_POLICY: PAGE_POLICY}


def _assets() -> dict[str, tuple[bytes, dict[str, str]]]:
    """Return the page's files with their headers, by name."""
    found = {}
    for file in files("colltune.server").joinpath("page").iterdir():
        kind = _TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            content = file.read_bytes()
            tag = hashlib.sha256(content).hexdigest()[:32]
            found[file.name] = content, {**_HEADERS, "Content-Type": kind, "ETag": f'"{tag}"'}
    return found


_ASSETS = _assets()
router = APIRouter(tags=["page"], dependencies=[Depends(OnceEach())])
_VIEW: dict[str, Any] = {"responses": {**PROBLEMS, **NOT_MODIFIED}}


@router.get("/", include_in_schema=False)
async def index(request: Request) -> Response:
    """Return the page."""
    return _asset(request, "index.html")


@router.get("/page/{name}", include_in_schema=False)
async def asset(request: Request, name: str) -> Response:
    """Return a script, a style sheet or a picture of the page."""
    return _asset(request, name)


@router.get("/v1/view", response_model=OverviewView, **_VIEW)
async def overview(request: Request, query: Annotated[OverviewQuery, Query()]) -> Response:
    """Say which bundles are in force, what they know, and how they came into force."""
    offload: Offload = request.app.state.offload
    pages = _pages(request)
    document = await offload.run(("overview", query), lambda: pages.overview(query))
    answer = Answer(document, "/v1/view")
    if answer.is_known(request.headers.get("if-none-match", "").encode("latin-1")):
        return Response(None, 304, {"ETag": answer.document.etag})
    headers = {"ETag": answer.document.etag, "Cache-Control": "no-cache"}
    return Response(answer.body, 200, headers, answer.document.media_type)


@router.get("/v1/view/map", response_model=MapView, **_VIEW)
async def decision_map(request: Request, query: Annotated[MapQuery, Query()]) -> Response:
    """Return the decisions of a collective on and around what was measured, and why."""
    return await answered(request, _pages(request).decision_map, query)


@router.get("/v1/view/predictions", response_model=PredictionView, **_VIEW)
async def predictions(request: Request, query: Annotated[PredictionsQuery, Query()]) -> Response:
    """Return the predicted runtimes of all configurations on one instance."""
    return await answered(request, _pages(request).predictions, query)


@router.get("/v1/view/job", response_model=JobView, **_VIEW)
async def job(request: Request, query: Annotated[JobViewQuery, Query()]) -> Response:
    """Return a job's configuration, how it is put into effect, and what to know about it."""
    return await answered(request, _pages(request).job, query)


def _pages(request: Request) -> Pages:
    pages: Pages = request.app.state.pages
    return pages


def _asset(request: Request, name: str) -> Response:
    if name not in _ASSETS:
        raise NotThereError("the page has no such file")
    content, headers = _ASSETS[name]
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(None, 304, headers)
    return Response(content, 200, headers)
