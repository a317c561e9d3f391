"""The endpoints: each a few lines over the service, and its description for the reference."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from importlib.resources import files
from typing import Annotated, Any, TypeVar

import structlog
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse

from colltune.errors import BundleError, RegistryConflict, say, unknown
from colltune.page.changes import ChangesView
from colltune.page.evidence import DecisionEvidence
from colltune.page.gains import DecisionGains
from colltune.page.maps import MapView, PredictionView
from colltune.page.overview import OverviewView
from colltune.production.status import ProductionStatus
from colltune.registry.events import Event
from colltune.registry.registry import NOTHING, Registry
from colltune.server import queries, schemas
from colltune.server.answers import CONTENT_POLICY, PAGE_POLICY, Answer, ResponseDocument
from colltune.server.auth.gate import Admission, Gatekeeper, promoter, reporter
from colltune.server.errors import PROBLEM, ServiceError
from colltune.server.front import FrontView
from colltune.server.job_page import JobView
from colltune.server.limits import (
    MOST_SUMMARY_BYTES,
    SUMMARIES,
    RateLimit,
    ThreadOffload,
    chunks,
    refuse_other_types,
)
from colltune.server.metrics import CONTENT_TYPE
from colltune.server.queries import BundlePath, LibraryPath, ReleasePath
from colltune.server.schemas import (
    Bundles,
    Decision,
    EventOf,
    Liveness,
    Readiness,
    Receipt,
    Table,
)
from colltune.server.service import Service
from colltune.server.settings import ServiceSettings
from colltune.text import counted


class Writing:
    """Writes for those who may."""

    def __init__(self, settings: ServiceSettings, changed: Callable[[], None]) -> None:
        self._root = settings.registry
        self._registry = Registry(settings.registry) if settings.registry else None
        self._changed = changed
        self._log = structlog.get_logger("colltune.server.endpoints")

    def promote(self, prefix: str, by: str, note: str, expected: str | None) -> Event:
        registry = self._changeable()
        bundle_id = _found(registry, prefix)
        now = NOTHING if expected == "none" else expected
        try:
            event = registry.promote(bundle_id, by=by, note=note, expected=now)
        except RegistryConflict:
            raise
        except BundleError as error:
            raise ServiceError(422, self._without_root(error)) from error
        return self._done(event, by)

    def rollback(self, prefix: str, by: str, note: str) -> Event:
        registry = self._changeable()
        bundle_id = _found(registry, prefix)
        ways = ((registry.stop, registry.trials()), (registry.rollback, registry.current()))
        found = [
            (undo, slot)
            for undo, of_slots in ways
            for slot, event in of_slots.items()
            if event.bundle_id == bundle_id
        ]
        if not found:
            raise ServiceError(409, say("not-in-force", bundle=bundle_id[:12]))
        undo, slot = found[0]
        try:
            event = undo(slot, by=by, note=note, expected=bundle_id)
        except RegistryConflict:
            raise
        except BundleError as error:
            raise ServiceError(409, self._without_root(error)) from error
        return self._done(event, by)

    def _changeable(self) -> Registry:
        if self._registry is None:
            lacks = "has one bundle and no registry, so no bundle can be promoted"
            raise ServiceError(403, say("not-offered", lacks=lacks, option="--registry"))
        return self._registry

    def _done(self, event: Event, by: str) -> Event:
        self._log.info(
            "in force", slot=event.slot, bundle=event.bundle_id, action=event.action, who=by
        )
        self._changed()
        return event

    def _without_root(self, error: BundleError) -> BundleError:
        """Return the error without the place of the registry, which is nobody's business."""
        said = BundleError(str(error).replace(str(self._root), "registry"))
        return said.named(error.code, {})


def _found(registry: Registry, prefix: str) -> str:
    """Return the whole id; only a failure of the search is a 404."""
    found = [i for i in registry.ids() if i.startswith(prefix)]
    if not found:
        raise ServiceError(404, say("no-bundle-begins", registry="/v1/bundles", prefix=prefix))
    if len(found) > 1:
        bundles = counted(len(found), "bundle")
        why = say("several-bundles-begin", registry="/v1/bundles", count=bundles, prefix=prefix)
        raise ServiceError(409, why)
    return found[0]


Result = TypeVar("Result")


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def answered(
    request: Request,
    compute: Callable[..., ResponseDocument],
    *arguments: object,
    keep: bool = True,
) -> Response:
    """Return what `compute` makes of the state in force and `arguments`.

    It is kept ready for others, unless it is one job's alone.
    """
    service = service_of(request)
    state = service.state
    key = (id(state), compute.__name__, arguments)
    offload: ThreadOffload = request.app.state.offload
    try:
        document = await offload.run(key, lambda: compute(state, *arguments))
    except ServiceError as error:
        service.refused(error, arguments)
        raise
    answer = Answer(document, request.scope["route"].path, (compute, arguments))
    service.count_first(document, by_token=bool(document.demanded) and await _has_token(request))
    if keep:
        state.answers.put((request.scope["path"], request.scope["query_string"]), answer)
    return _response(request, answer)


async def _has_token(request: Request) -> bool:
    """Tell whether a caller shows a good token, of whatever scope; reading needs none."""
    if not service_of(request).has_tokens or "authorization" not in request.headers:
        return False
    gatekeeper: Gatekeeper = request.app.state.gatekeeper
    return await gatekeeper.knows(request)


async def computed(
    request: Request,
    compute: Callable[..., ResponseDocument],
    *arguments: object,
    slow: bool = True,
) -> Response:
    """Return what `compute` makes of `arguments`; nothing is kept.

    What is `slow` has its own thread.
    """
    state = request.app.state
    offload: ThreadOffload = state.slow if slow else state.offload
    document = await offload.run((compute.__name__, arguments), lambda: compute(*arguments))
    return _response(request, Answer(document, request.scope["route"].path))


async def written(request: Request, write: Callable[[Writing], Result]) -> Result:
    """Return what `write` does; in other threads, so that answers do not wait for it."""
    writing: Writing = request.app.state.writing
    writes: ThreadOffload = request.app.state.writes
    return await writes.run(object(), lambda: write(writing))


def _response(request: Request, answer: Answer) -> Response:
    known = answer.is_known(request.headers.get("if-none-match", "").encode("latin-1"))
    headers = answer.short_headers if known else answer.headers
    told = {name.decode(): value.decode() for name, value in headers}
    return Response(None, 304, told) if known else Response(answer.body, 200, told)


class OnceEach:
    """Refuses a parameter that is given twice, of which only one would count; not those `but`."""

    def __init__(self, *but: str) -> None:
        self._but = but

    async def __call__(self, request: Request) -> None:
        seen = set()
        for name, _ in request.query_params.multi_items():
            if name in seen:
                raise ServiceError(422, say("twice", what="query", name=name[:40]))
            if name not in self._but:
                seen.add(name)


Described = dict[int | str, dict[str, Any]]


def _problems(descriptions: dict[int, str]) -> Described:
    return {
        status: {"description": what, "model": schemas.ProblemOf, "content": {PROBLEM: {}}}
        for status, what in descriptions.items()
    }


_PROBLEMS = _problems(
    {
        404: "There is no such thing.",
        414: "The address is too long.",
        422: "The request is not understood.",
        503: "Not ready, or too busy; see Retry-After.",
    }
)
_WRITE_PROBLEMS = _PROBLEMS | _problems(
    {
        400: "The body is incomplete.",
        401: "The caller is not authenticated.",
        403: "The caller may not do this, or nobody may.",
        409: "It conflicts with the present state.",
        413: "The body is too large.",
        415: "The body has an unsupported type.",
        429: "Too many requests; see Retry-After.",
        507: "The disk is full.",
    }
)
_NOT_MODIFIED: Described = {304: {"description": "The client's copy (If-None-Match) is current."}}


def _text_example(description: str, example: str, **more: Any) -> dict[str, Any]:
    text = {"schema": {"type": "string"}, "example": example}
    return {"description": description, "content": {"text/plain": text, **more}}


health = APIRouter(tags=["health"])


@health.get("/health/live")
async def live() -> Liveness:
    """Say that the process is alive."""
    return Liveness(status="live")


@health.get("/health/ready", response_model=Readiness, responses={503: {"model": Readiness}})
async def ready(request: Request) -> JSONResponse:
    """Say whether a bundle is loaded and complete, and if not, why."""
    content = service_of(request).readiness()
    return JSONResponse(content, 200 if content["ready"] else 503, {"Cache-Control": "no-store"})


@health.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: _text_example("All metrics, of all workers of this service.", schemas.METRICS)},
)
async def metrics(request: Request) -> Response:
    """Give all metrics in Prometheus' text format."""
    service = service_of(request)
    service.settle()
    text = await asyncio.to_thread(service.metrics_text)
    return Response(text, 200, {"Content-Type": CONTENT_TYPE})


decisions = APIRouter(
    tags=["decisions"],
    dependencies=[Depends(OnceEach())],
    responses={**_PROBLEMS, **_NOT_MODIFIED},
)


@decisions.get("/v1/select", response_model=Decision | list[Decision] | Table)
async def select(request: Request, query: Annotated[queries.SelectQuery, Query()]) -> Response:
    """Say what to use on a shape: for one message size, or over all of them.

    With `collective` and `msize` one decision; with `msize` alone one of each collective that the
    bundle has; without it the intervals of message sizes.
    """
    return await answered(request, service_of(request).select, query)


configuration = APIRouter(tags=["configuration"], responses={**_PROBLEMS, **_NOT_MODIFIED})


@configuration.get(
    "/v1/config/{library}/{release}",
    response_class=PlainTextResponse,
    responses={
        200: _text_example(
            "The file. ETag covers the bundle, the shape and whatever else it hangs on.",
            schemas.RULES,
            **{"application/json": {"schema": {}}},
        )
    },
    dependencies=[Depends(OnceEach())],
)
async def config(
    request: Request,
    library: LibraryPath,
    release: ReleasePath,
    query: Annotated[queries.ConfigQuery, Query()],
) -> Response:
    """Give a job's configuration file, as the release of the MPI library reads it.

    Where there is no bundle for the release, the one for the newest release of its series is asked.
    """
    return await answered(request, service_of(request).configuration, library, release, query)


@configuration.get(
    "/v1/job/{library}/{release}",
    response_class=PlainTextResponse,
    responses={200: _text_example("The job file.", schemas.JOB_FILE)},
    dependencies=[Depends(OnceEach("ppn"))],
)
async def job(
    request: Request,
    library: LibraryPath,
    release: ReleasePath,
    query: Annotated[queries.JobQuery, Query()],
) -> Response:
    """Give all that a batch system's hooks tell a job, in one text that a shell can split.

    Where the service compares jobs with a control group, `job` decides the job's arm: `tuned`,
    `candidate` (a bundle on trial) or `control` (nothing is set). The header `X-Colltune-Arm` and
    the text name it. Who names a bundle gets that one, and no arm.
    """
    keep = query.job is None
    return await answered(request, service_of(request).job, library, release, query, keep=keep)


listing = APIRouter(tags=["bundles"], responses=_PROBLEMS)


@listing.get("/v1/bundles", response_model=Bundles)
async def bundles(request: Request) -> Response:
    """List all bundles, what is in force, and the history of promotions."""
    return await computed(request, service_of(request).bundles)


@listing.get("/v1/bundles/{bundle_id}/report", response_class=HTMLResponse, responses=_NOT_MODIFIED)
async def report(request: Request, bundle_id: BundlePath) -> Response:
    """Show what a bundle decides and why: one page that loads nothing."""
    service = service_of(request)
    return await computed(request, service.report, service.state, bundle_id)


@listing.get("/v1/production/report", response_class=HTMLResponse)
async def production_report(
    request: Request, query: Annotated[queries.MonthQuery, Query()]
) -> Response:
    """Show what production jobs proved in a month: one page that loads nothing."""
    return await computed(request, service_of(request).production_report, query)


changes = APIRouter(tags=["changes"], responses=_WRITE_PROBLEMS)
Reporter = Annotated[Admission, Depends(reporter)]
Promoter = Annotated[str, Depends(promoter)]


@changes.post(
    SUMMARIES,
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The text of the epilog, at most 64 KiB.",
            "content": {"text/plain": {"schema": {"type": "string"}, "example": schemas.SUMMARY}},
        }
    },
    responses={
        200: {"model": Receipt, "description": "The job reported before; nothing is changed."},
        202: {"model": Receipt, "description": "It is set aside and never judged; `reason` why."},
    },
)
async def report_job(request: Request, response: Response, admission: Reporter) -> Receipt:
    """Take what a job reports at its end; it is on disk when the answer comes.

    A job counts once, however often it reports. What cannot be true is set aside with the reason,
    and need not be sent again.
    """
    production = service_of(request).production
    if production is None:
        option = "--site and [production] record = true in the site file"
        raise ServiceError(403, say("not-offered", lacks="takes no summaries", option=option))
    refuse_other_types(request)
    callers: RateLimit = request.app.state.callers
    wait_s = math.ceil(callers.wait_s(admission.caller))
    if wait_s:
        why = say("too-busy", what="summaries of this caller", wait_s=wait_s)
        raise ServiceError(429, why, retry_s=wait_s)
    body = b"".join([chunk async for chunk in chunks(request, MOST_SUMMARY_BYTES)])
    admission.check_body(hashlib.sha256(body).hexdigest())
    writes: ThreadOffload = request.app.state.writes
    receipt = await writes.run(object(), lambda: production.take(body))
    response.status_code = {"stored": 201, "known": 200, "set_aside": 202}[receipt.outcome]
    return receipt


@changes.post("/v1/bundles/{bundle_id}/promote", response_model=EventOf)
async def promote(
    request: Request,
    bundle_id: BundlePath,
    writer: Promoter,
    query: Annotated[queries.PromoteQuery, Query()],
) -> Event:
    """Bring a bundle into force in the place of its MPI release, after checking all of it.

    With `expected` only if that bundle is in force now (`none`: if none is), so that of two who
    decide at the same time one is told. Promoting what is in force changes nothing.
    """
    return await written(
        request, lambda writing: writing.promote(bundle_id, writer, query.note, query.expected)
    )


@changes.post("/v1/bundles/{bundle_id}/rollback", response_model=EventOf)
async def rollback(
    request: Request,
    bundle_id: BundlePath,
    writer: Promoter,
    query: Annotated[queries.RollbackQuery, Query()],
) -> Event:
    """Take a bundle that is in force back: what was in force before it is so again."""
    return await written(request, lambda writing: writing.rollback(bundle_id, writer, query.note))


pages = APIRouter(include_in_schema=False)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ASSET_HEADERS = {"Cache-Control": "no-cache", CONTENT_POLICY: PAGE_POLICY}


def _assets() -> dict[str, tuple[bytes, dict[str, str]]]:
    found = {}
    for file in files("colltune.page").joinpath("assets").iterdir():
        kind = _TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            content = file.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[file.name] = content, {**_ASSET_HEADERS, "Content-Type": kind, "ETag": tag}
    return found


_ASSETS = _assets()


@pages.get("/", dependencies=[Depends(OnceEach())])
async def index(request: Request) -> Response:
    return await asset(request, "index.html")


@pages.get("/page/{name}", dependencies=[Depends(OnceEach())])
async def asset(request: Request, name: str) -> Response:
    """Return a script, a style sheet or a picture of the page."""
    if name not in _ASSETS:
        raise ServiceError(404, unknown("file of the page", name[:40], _ASSETS, BundleError))
    content, headers = _ASSETS[name]
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(None, 304, headers)
    return Response(content, 200, headers)


view = APIRouter(
    prefix="/v1/view",
    tags=["page"],
    dependencies=[Depends(OnceEach())],
    responses={**_PROBLEMS, **_NOT_MODIFIED},
)


@view.get("", response_model=OverviewView)
async def overview(request: Request, query: Annotated[queries.Query, Query()]) -> Response:
    """Say which bundles are in force, what they know, and how they came into force."""
    return await computed(request, service_of(request).overview, query, slow=False)


@view.get("/front", response_model=FrontView)
async def front(request: Request) -> Response:
    """Say how the service fares, what jobs got, what that gains, and what is measured next."""
    return await computed(request, service_of(request).front, slow=False)


@view.get("/production", response_model=ProductionStatus)
async def production(request: Request) -> Response:
    """Say what production jobs proved: node-hours saved, gains, refuted decisions, roll-outs."""
    return await computed(request, service_of(request).in_production, slow=False)


@view.get("/gains", response_model=DecisionGains)
async def gains(request: Request, query: Annotated[queries.PageQuery, Query()]) -> Response:
    """Return what a bundle gains along the message size, and how sure that is."""
    return await answered(request, service_of(request).gains, query)


@view.get("/evidence", response_model=DecisionEvidence)
async def evidence(request: Request, query: Annotated[queries.PageQuery, Query()]) -> Response:
    """Return how good decisions were on what was left out of the fit, and what they rest on."""
    return await answered(request, service_of(request).evidence, query)


@view.get("/changes", response_model=ChangesView)
async def bundle_changes(
    request: Request, query: Annotated[queries.ChangesQuery, Query()]
) -> Response:
    """Return what one bundle decides differently from another."""
    return await answered(request, service_of(request).changes, query)


@view.get("/map", response_model=MapView)
async def decision_map(request: Request, query: Annotated[queries.MapQuery, Query()]) -> Response:
    """Return the decisions of a collective on and around what was measured, and why."""
    return await answered(request, service_of(request).decision_map, query)


@view.get("/predictions", response_model=PredictionView)
async def predictions(
    request: Request, query: Annotated[queries.PredictionsQuery, Query()]
) -> Response:
    """Return the predicted runtimes of all configurations on one instance."""
    return await answered(request, service_of(request).predictions, query)


@view.get("/job", name="job", response_model=JobView)
async def job_view(request: Request, query: Annotated[queries.JobViewQuery, Query()]) -> Response:
    """Return a job's configuration, how it is put into effect, and what to know about it."""
    return await answered(request, service_of(request).job_view, query)


ROUTERS = (health, decisions, configuration, listing, changes, pages, view)
