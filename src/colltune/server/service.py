"""What the service answers, without HTTP."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltune import __version__
from colltune.domain import Collective, Instance, Shape
from colltune.errors import DataError, LibraryError, say, unknown
from colltune.json_text import DescribedRecord, encoded
from colltune.models.guard import Guard
from colltune.mpi.formats import FORMATS
from colltune.mpi.programs import Programs
from colltune.page.changes import changes_view
from colltune.page.evidence import decision_evidence
from colltune.page.file import bundle_file, bundle_page, policy_of, production_file
from colltune.page.gains import decision_gains
from colltune.page.maps import map_view, prediction_view
from colltune.page.overview import InForce, overview_view
from colltune.production.arms import Arm, Production
from colltune.production.status import ProductionStatus, status_of
from colltune.registry import Registry, RegistryEntry
from colltune.selector.argmin import ModelSelector, legal_selector
from colltune.selector.configuration import Target, render, selector_for
from colltune.selector.demand import Demand, DemandLog
from colltune.selector.selection_json import SelectedInstance, SelectionTable
from colltune.server import queries
from colltune.server.answers import (
    CONTENT_POLICY,
    Answer,
    GivenArm,
    Lru,
    ResponseDocument,
)
from colltune.server.errors import ServiceError
from colltune.server.front import front_view
from colltune.server.job_counts import CountedRequest, JobCounts, RequestOutcome
from colltune.server.job_page import job_view
from colltune.server.metrics import MULTIPROCESS, Metrics, gauges
from colltune.server.settings import ServiceSettings
from colltune.server.slurm.job_file import (
    MAIN,
    JobDecisions,
    JobSection,
    main_file,
    section_of,
    text_of,
)
from colltune.server.state import BundleFolder, LoadedBundle, Rendering, ServiceState, Source
from colltune.server.watcher import BundleWatcher

if TYPE_CHECKING:
    from colltune.server.production import ProductionJobs

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
_MOST_PINNED = 4
_TIMES_MEASURED, _MOST_UNKNOWN = 16, 1024
_REFUSALS = {404: RequestOutcome.NO_BUNDLE, 503: RequestOutcome.BUSY}
_MOST_REPORTS, _MOST_REPORT_BYTES = 8, 64 << 20


class Service:
    """Answers from the bundles in force.

    Methods that compute take the state that they answer from, so that one answer never comes from
    two of them; they may be called in any thread. What they cannot answer is a `ServiceError` or a
    `ColltuneError`.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.source: Source = (
            BundleFolder(settings.bundle) if settings.bundle else Registry(settings.registry or "")
        )
        self.watcher = BundleWatcher(
            self.source, settings, self.metrics, self.count, self._render_ahead
        )
        self.guard = Guard(caution=settings.caution)
        self.demand = DemandLog(settings.demand) if settings.demand is not None else None
        shared = os.environ.get(MULTIPROCESS)
        self.jobs = JobCounts(settings.demand or (Path(shared) if shared else None))
        self.production = self._production()
        self.started = time.time()
        self._pinned: Lru[str, LoadedBundle] = Lru(_MOST_PINNED, 4 * _MOST_PINNED, lambda _k, _v: 1)
        self._reports: Lru[str, str] = Lru(_MOST_REPORTS, _MOST_REPORT_BYTES, lambda _k, v: len(v))
        self._listed: tuple[float, ResponseDocument] | None = None
        self._counted: tuple[ServiceState, ...] = ()

    def _production(self) -> ProductionJobs | None:
        if self.settings.production is None:
            return None
        # a service without it needs neither the time nor the memory
        from colltune.server.production import ProductionJobs  # noqa: PLC0415

        changed = self.watcher.refresh
        return ProductionJobs(self.settings, self.settings.production, self.metrics, changed)

    @property
    def has_tokens(self) -> bool:
        """Whether jobs can show by a token that they are jobs."""
        return self.settings.tokens is not None

    @property
    def state(self) -> ServiceState:
        return self.watcher.state

    def why_not_ready(self) -> list[str]:
        if self.state.loaded:
            return []
        return self.warnings() or [
            "no bundle has been promoted yet; colltune site bundles promote brings one into force"
        ]

    def warnings(self) -> list[str]:
        return [why for why in (*self.state.problems.values(), self.watcher.unreachable_why) if why]

    def readiness(self) -> dict[str, Any]:
        why_not = self.why_not_ready()
        bundles = {slot: loaded.bundle.id for slot, loaded in self.state.loaded.items()}
        return {
            "ready": not why_not,
            "bundles": bundles,
            "problems": why_not or self.warnings(),
        }

    def count(self, answer: Answer) -> None:
        times, answer.hits = answer.hits, 0
        if times:
            self.metrics.hit.inc(times)
            self._went_out(answer.document, times, by_token=False)

    def settle(self) -> None:
        """Count all answers that went out since the last time; only in the event loop's thread."""
        states = dict.fromkeys((*self._counted, self.state))
        for state in states:
            for answer in state.answers.values():
                self.count(answer)
        # a request that began before a swap ends after it
        self._counted = (self.state,)

    def write_counts(self) -> None:
        """Write to disk what was counted since the last time."""
        self.jobs.flush()
        if self.demand is not None:
            self.demand.flush()
        if self.production is not None:
            self.production.flush()

    def count_first(self, document: ResponseDocument, *, by_token: bool = False) -> None:
        """Count an answer that was not ready, and whether a good token asked for it."""
        self.metrics.miss.inc()
        self._went_out(document, 1, by_token=by_token)

    def metrics_text(self) -> bytes:
        watcher = self.watcher
        looks = (watcher.reachable, watcher.looked_at, watcher.reports, watcher.retrained_at)
        judgement = self.production.judgement if self.production is not None else None
        now = gauges(self.state, *looks, judgement)
        return self.metrics.text(now)

    def _went_out(self, document: ResponseDocument, times: int, *, by_token: bool) -> None:
        self.metrics.answered(document, times)
        if document.asked is not None:
            self._asked(document.asked, times)
        if document.given is not None and self.production is not None:
            self.production.note(document.given)
        # where jobs have no tokens, nothing tells them from others but what they ask for
        is_job = by_token or (document.is_for_job and not self.has_tokens)
        if self.demand is not None and is_job:
            for asked in document.demanded:
                self.demand.note(*asked, times)

    def _asked(self, asked: CountedRequest, times: int = 1) -> None:
        self.jobs.note(asked, times)
        self.metrics.jobs.labels(asked.slot, asked.outcome.name.lower()).inc(times)

    def refused(self, error: ServiceError, arguments: tuple[object, ...]) -> None:
        """Count a request for a job's files that had no answer."""
        outcome = _REFUSALS.get(error.status)
        match arguments:
            case str(library), str(release), queries.ConfigQuery() | queries.JobQuery() as query:
                if outcome is not None:
                    self._asked(_asked(library, release, "", query, outcome))

    def select(self, state: ServiceState, query: queries.SelectQuery) -> ResponseDocument:
        """Return decisions as JSON: one instance's, or all intervals of message sizes."""
        loaded = self.pick(state, query.bundle, query.library, query.release)
        bundle, shape = loaded.bundle, Shape(query.nodes, query.ppn)
        asked = (Collective(query.collective),) if query.collective else bundle.collectives
        programs = self._programs(query)
        selector = legal_selector(bundle, programs, guard=self.guard)
        if query.msize is None:
            content: Any = SelectionTable.of(selector, asked, shape, programs)
            decided = [(i.collective, i.configuration.is_default) for i in content.intervals]
        else:
            instances = [Instance(c, shape, query.msize) for c in asked]
            selections = selector.select_many(instances)
            rows = [*map(SelectedInstance.of, selections)]
            content = rows[0] if query.collective else rows
            decided = [(s.instance.collective, s.configuration.is_default) for s in selections]
        replaced = {c.value for c, is_default in decided if not is_default}
        return ResponseDocument(
            _body(content),
            JSON,
            self._etag(loaded, f"select {query!r}", shape),
            bundle.id,
            kept=tuple(sorted({c.value for c in asked} - replaced)),
            replaced=tuple(sorted(replaced)),
        )

    def configuration(
        self, state: ServiceState, library: str, release: str, query: queries.ConfigQuery
    ) -> ResponseDocument:
        loaded = self.pick(state, query.bundle, library, release)
        shape = Shape(query.nodes, query.ppn)
        target = _target(library, release, query.format, self._programs(query))
        found = loaded.rendering(shape, target, self.guard)
        text = _part(found, query.part, query.folder)
        parts = [end for end in found.rendered.written.texts if end]
        is_json = query.part != ".params" and target.form.name.endswith("-json")
        return ResponseDocument(
            text.encode(),
            JSON if is_json else TEXT,
            self._etag(loaded, f"config {library} {release} {query!r}", shape),
            loaded.bundle.id,
            {
                "X-Colltune-Format": target.form.name,
                "X-Colltune-Programs": str(target.programs),
                "X-Colltune-Release": f"{library} {release}",
                "X-Colltune-Parts": " ".join((*parts, ".params")),
                "X-Colltune-Replaced": " ".join(found.replaced),
            },
            found.kept,
            found.replaced,
            _within(loaded, library, release, [shape]),
            _asked(library, release, loaded.slot, query, found.outcome),
        )

    def job(
        self, state: ServiceState, library: str, release: str, query: queries.JobQuery
    ) -> ResponseDocument:
        loaded, given = self._given(state, library, release, query)
        is_control = given is not None and given.arm == Arm.CONTROL
        target = _target(library, release, query.format, self._programs(query))
        shapes = [Shape(query.nodes, ppn) for ppn in dict.fromkeys(query.ppn)]
        found = [loaded.rendering(shape, target, self.guard) for shape in shapes]
        # where nothing is replaced, a job is better told nothing
        sections = [
            JobSection(shape)
            if is_control or one.is_empty
            else section_of(one.rendered, query.folder)
            for shape, one in zip(shapes, found, strict=True)
        ]
        patterns = target.mpi.user_patterns
        arm = Arm(given.arm) if given else None
        told = JobDecisions(
            loaded.bundle.id, target.mpi.name, release, patterns, tuple(sections), arm
        )
        replaced = {name for one in found for name in one.replaced if not is_control}
        kept = {name for one in found for name in (*one.kept, *one.replaced)}
        outcome = RequestOutcome.CONTROL if is_control else _common(one.outcome for one in found)
        told_arm = {"X-Colltune-Arm": arm.value} if arm else {}
        return ResponseDocument(
            text_of(told).encode(),
            TEXT,
            self._etag(loaded, f"job {library} {release} {query!r} {arm}", shapes[0]),
            loaded.bundle.id,
            {"X-Colltune-Format": target.form.name, **told_arm},
            tuple(sorted(kept - replaced)),
            tuple(sorted(replaced)),
            _within(loaded, library, release, shapes),
            _asked(library, release, loaded.slot, query, outcome),
            given,
            is_for_job=True,
        )

    def _given(
        self, state: ServiceState, library: str, release: str, query: queries.JobQuery
    ) -> tuple[LoadedBundle, GivenArm | None]:
        """Return the bundle for a job, and its arm; who names a bundle gets that and has none."""
        loaded = self.pick(state, query.bundle, library, release)
        if self.production is None or query.job is None or query.bundle is not None:
            return loaded, None
        arm, loaded = self.production.arm(state, loaded, query.job)
        return loaded, GivenArm(query.job, loaded.slot, arm, loaded.bundle.id)

    def _render_ahead(self, state: ServiceState, asked: Demand) -> None:
        loaded = state.pick(asked.library, asked.release)
        target = _target(asked.library, asked.release, None, self._programs())
        loaded.rendering(Shape(asked.nodes, asked.ppn), target, self.guard)

    def bundles(self) -> ResponseDocument:
        """Return all bundles, what is in force and what was, as JSON.

        It is made anew as often as the registry is looked at.
        """
        made = self._listed
        if made is not None and time.monotonic() - made[0] < self.settings.poll_s:
            return made[1]
        loaded = {slot: one.bundle.id for slot, one in self.state.loaded.items()}
        content = {
            "in_force": loaded,
            "bundles": [_entry_json(entry, loaded) for entry in self.source.entries()],
            "history": [asdict(event) for event in self.source.history()],
        }
        document = ResponseDocument(_body(content), JSON)
        self._listed = time.monotonic(), document
        return document

    def report(self, state: ServiceState, prefix: str) -> ResponseDocument:
        """Return the report of a bundle as a page; it is made once."""
        loaded = self.pick(state, prefix)
        bundle = loaded.bundle
        content = self._reports.get(bundle.id)
        if content is None:
            content = bundle_file(bundle, bundle_page(self._selector(loaded)[0], self._programs()))
            self._reports.put(bundle.id, content)
        etag = f'"{bundle.id}-report-{self.settings.programs}-{__version__}"'
        return _html(content, etag, bundle.id)

    def overview(self, query: queries.Query) -> ResponseDocument:
        why_not = self.why_not_ready()
        if why_not:
            raise ServiceError(503, say("not-ready", why="; ".join(why_not)))
        state, events = self.state, self.source.history()
        looked_at = None if query.bundle is None else _in_force(self.pick(state, query.bundle))
        serving = map(_in_force, state.loaded.values())
        body = _body(overview_view(serving, events, self.warnings(), looked_at))
        return ResponseDocument(body, JSON, f'"{hashlib.sha256(body).hexdigest()[:32]}"')

    def front(self) -> ResponseDocument:
        """Return what the page's front shows; made anew each time."""
        stored = self.settings.demand is not None
        view = front_view(self.state, self.watcher, self.jobs.days(), self.started, stored=stored)
        return ResponseDocument(_body(view), JSON)

    def in_production(self) -> ResponseDocument:
        """Return what production jobs proved; made anew each time."""
        return ResponseDocument(_body(self._production_status()), JSON)

    def production_report(self, query: queries.MonthQuery) -> ResponseDocument:
        """Return the report of a month as a page."""
        status = self._production_status()
        try:
            return _html(production_file(status, self.source.history(), query.month))
        except DataError as error:
            raise ServiceError(404, error) from error

    def _production_status(self) -> ProductionStatus:
        if self.production is None:
            return status_of(None, Production(), (), "")
        return self.production.status()

    def gains(self, state: ServiceState, query: queries.PageQuery) -> ResponseDocument:
        loaded = self.pick(state, query.bundle, query.library, query.release)
        found = decision_gains(self._selector(loaded)[0], self._programs())
        return self._view_document(loaded, query, found)

    def evidence(self, state: ServiceState, query: queries.PageQuery) -> ResponseDocument:
        loaded = self.pick(state, query.bundle, query.library, query.release)
        found = decision_evidence(loaded.bundle, programs=self._programs())
        return self._view_document(loaded, query, found)

    def changes(self, state: ServiceState, query: queries.ChangesQuery) -> ResponseDocument:
        new, old = (self.pick(state, one) for one in (query.bundle, query.against))
        return self._view_document(new, query, changes_view(old.bundle, new.bundle, new.slot))

    def decision_map(self, state: ServiceState, query: queries.MapQuery) -> ResponseDocument:
        loaded = self.pick(state, query.bundle, query.library, query.release)
        selector, _ = self._selector(loaded)
        old = None if query.against is None else self.pick(state, query.against).bundle
        view = map_view(selector, loaded.slot, Collective(query.collective), old)
        return self._view_document(loaded, query, view)

    def predictions(self, state: ServiceState, query: queries.PredictionsQuery) -> ResponseDocument:
        loaded = self.pick(state, query.bundle, query.library, query.release)
        selector, target = self._selector(loaded)
        shape = Shape(query.nodes, query.ppn)
        instance = Instance(Collective(query.collective), shape, query.msize)
        view = prediction_view(selector, loaded.slot, instance, target)
        return self._view_document(loaded, query, view)

    def job_view(self, state: ServiceState, query: queries.JobViewQuery) -> ResponseDocument:
        loaded = self.pick(state, query.bundle, query.library, query.release)
        context = loaded.bundle.context
        target = Target.named(
            query.format or context.library,
            query.release or context.library_version,
            programs=self._programs(query),
        )
        selector = selector_for(loaded.bundle, target, guard=self.guard)
        asked = query.model_dump(
            include={"format", "bundle", "programs", "results"}, exclude_none=True
        )
        rendered = render(selector, Shape(query.nodes, query.ppn), target)
        view = job_view(selector, loaded.slot, rendered, asked)
        return self._view_document(loaded, query, view)

    def _programs(self, query: queries.PromisedQuery | None = None) -> Programs:
        """Return for which programs an answer is: those of the job that asks, or all of here."""
        here = Programs.parse(self.settings.programs)
        return here if query is None else Programs.named(query.programs, query.results, {}, here)

    def _selector(self, loaded: LoadedBundle) -> tuple[ModelSelector, Target | None]:
        """Return what decides for the files that are handed out, if any can be written."""
        context, programs = loaded.bundle.context, self._programs()
        try:
            target = Target.named(context.library, context.library_version, programs=programs)
        except LibraryError:
            return ModelSelector(loaded.bundle, guard=self.guard), None
        return selector_for(loaded.bundle, target, guard=self.guard), target

    def _view_document(
        self, loaded: LoadedBundle, query: queries.Query, view: DescribedRecord
    ) -> ResponseDocument:
        etag = self._etag(loaded, f"{type(query).__name__} {query!r}")
        return ResponseDocument(_body(view), JSON, etag, loaded.bundle.id)

    def pick(
        self,
        state: ServiceState,
        prefix: str | None,
        library: str | None = None,
        release: str | None = None,
    ) -> LoadedBundle:
        """Return what is in force for a release, or the bundle that a client insists on."""
        if prefix is None:
            return state.pick(library, release)
        fit = [one for one in state.loaded.values() if one.bundle.id.startswith(prefix)]
        bundle_id = fit[0].bundle.id if len(fit) == 1 else self.source.find(prefix)
        for one in fit:
            if one.bundle.id == bundle_id:
                return one
        pinned = self._pinned.get(bundle_id)
        if pinned is None:
            bundle = self.source.load(bundle_id)
            pinned = LoadedBundle(bundle, bundle.created_utc)
            self._pinned.put(bundle_id, pinned)
        return pinned

    def _etag(self, loaded: LoadedBundle, what: str, shape: Shape | None = None) -> str:
        """Return a tag that covers everything that an answer hangs on."""
        salt = f"{__version__} {self.settings.caution} {self.settings.programs} {what}"
        short = hashlib.sha256(salt.encode()).hexdigest()[:16]
        parts = (loaded.bundle.id, str(shape), short) if shape else (loaded.bundle.id, short)
        return f'"{"-".join(parts)}"'


def _target(library: str, release: str, format_name: str | None, programs: Programs) -> Target:
    try:
        found = Target.named(format_name or library, release, programs=programs)
    except LibraryError as error:
        if format_name is None:
            raise ServiceError(404, error) from error
        raise
    if found.form.library != library:
        ours = [f.name for f in FORMATS.values() if f.library == library]
        wrong = unknown("format", format_name or library, ours, LibraryError)
        raise ServiceError(422, wrong.of("query.format"))
    return found


def _within(
    loaded: LoadedBundle, library: str, release: str, shapes: Iterable[Shape]
) -> tuple[tuple[str, str, Shape], ...]:
    """Return what a campaign could be planned for: shapes that the machine may have."""
    known = loaded.bundle.training_shapes
    nodes = _TIMES_MEASURED * max((shape.nodes for shape in known), default=_MOST_UNKNOWN)
    ppn = _TIMES_MEASURED * max((shape.ppn for shape in known), default=_MOST_UNKNOWN)
    return tuple((library, release, s) for s in shapes if s.nodes <= nodes and s.ppn <= ppn)


def _asked(
    library: str,
    release: str,
    slot: str,
    query: queries.ConfigQuery | queries.JobQuery,
    outcome: RequestOutcome,
) -> CountedRequest:
    several = query.ppn if isinstance(query.ppn, tuple) else (query.ppn,)
    ppn = " ".join(map(str, sorted(set(several))))
    return CountedRequest(library, release, slot, query.nodes, ppn, outcome)


def _common(outcomes: Iterable[RequestOutcome]) -> RequestOutcome:
    """Return what a request got whose job may run on any of several shapes."""
    return min(outcomes, key=list(RequestOutcome).index)


def _part(found: Rendering, part: str | None, folder: str | None) -> str:
    texts = found.rendered.written.texts
    if part is None:
        return texts[""]
    if part in texts:
        return texts[part]
    if part != ".params":
        known = (*filter(None, texts), ".params")
        raise ServiceError(404, unknown("file of this configuration", part, known, LibraryError))
    if folder is None:
        give = f"the folder in which the file {MAIN} is, which {part} names"
        raise ServiceError(422, say("missing", what="query.folder", give=give))
    variables = found.rendered.environment(main_file(folder, found.rendered.table.shape))
    return found.rendered.parameter_text(variables)


def _entry_json(entry: RegistryEntry, loaded: Mapping[str, str]) -> dict[str, Any]:
    names = [collective.value for collective in entry.collectives]
    told = asdict(entry) | {"collectives": names}
    return told | {"in_force": loaded.get(entry.slot) == entry.id}


def _body(content: object) -> bytes:
    return f"{encoded(content)}\n".encode()


def _in_force(loaded: LoadedBundle) -> InForce:
    return InForce(loaded.slot, loaded.bundle, loaded.since_utc)


def _html(content: str, etag: str = "", bundle_id: str = "") -> ResponseDocument:
    """Return a page with its facts in it; it may run its own script alone, and load nothing."""
    policy = f"{policy_of(content)}; frame-ancestors 'none'"
    return ResponseDocument(content.encode(), HTML, etag, bundle_id, {CONTENT_POLICY: policy})
