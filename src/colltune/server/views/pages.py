"""What the web page asks the service for, as documents to be kept per bundle."""

from __future__ import annotations

import hashlib

from colltune import __version__
from colltune.domain import Collective, Instance, Shape
from colltune.errors import LibraryError
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Target, render, selector_for
from colltune.server.answers import Document
from colltune.server.errors import NotReadyError
from colltune.server.service import JSON, Service
from colltune.server.state import Loaded, State
from colltune.server.views.decisions import map_view
from colltune.server.views.job import job_view
from colltune.server.views.overview import overview_view
from colltune.server.views.predictions import prediction_view
from colltune.server.views.schemas import (
    JobViewQuery,
    MapQuery,
    OverviewQuery,
    PageQuery,
    PredictionsQuery,
    View,
)


class Pages:
    """Makes the page's documents; see `Service` for states and threads."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def overview(self, query: OverviewQuery) -> Document:
        """Return what is in force, and how it came there."""
        why_not = self._service.why_not_ready()
        if why_not:
            raise NotReadyError("; ".join(why_not))
        in_force = self._service.state.loaded.values()
        events = self._service.source.history()
        prefix, state = query.bundle, self._service.state
        looked_at = None if prefix is None else self._service.pick(state, prefix, None, None)
        view = overview_view(in_force, events, self._service.warnings(), looked_at)
        body = _body(view)
        return Document(body, JSON, f'"{hashlib.sha256(body).hexdigest()[:32]}"')

    def decision_map(self, state: State, query: MapQuery) -> Document:
        """Return a collective's decision map."""
        loaded = self._pick(state, query)
        selector, _ = self._selector(loaded)
        return self._document(
            loaded, query, map_view(selector, loaded.slot, Collective(query.collective))
        )

    def predictions(self, state: State, query: PredictionsQuery) -> Document:
        """Return what is predicted for one instance; raises as `decision_map`."""
        loaded = self._pick(state, query)
        selector, target = self._selector(loaded)
        shape = Shape(query.nodes, query.ppn)
        instance = Instance(Collective(query.collective), shape, query.msize)
        return self._document(
            loaded, query, prediction_view(selector, loaded.slot, instance, target)
        )

    def job(self, state: State, query: JobViewQuery) -> Document:
        """Return a job's configuration and what to know about it."""
        loaded = self._pick(state, query)
        context = loaded.bundle.context
        target = Target.named(
            query.format or context.library, query.release or context.library_version
        )
        selector = selector_for(loaded.bundle, target, guard=self._service.guard)
        asked = query.model_dump(include={"format", "bundle"}, exclude_none=True)
        rendered = render(selector, Shape(query.nodes, query.ppn), target)
        return self._document(loaded, query, job_view(selector, loaded.slot, rendered, asked))

    def _pick(self, state: State, query: PageQuery) -> Loaded:
        return self._service.pick(state, query.bundle, query.library, query.release)

    def _selector(self, loaded: Loaded) -> tuple[ModelSelector, Target | None]:
        """Return what decides for the files that are handed out, if any can be written."""
        context = loaded.bundle.context
        try:
            target = Target.named(context.library, context.library_version)
        except LibraryError:
            return ModelSelector(loaded.bundle, guard=self._service.guard), None
        return selector_for(loaded.bundle, target, guard=self._service.guard), target

    def _document(self, loaded: Loaded, query: PageQuery, view: View) -> Document:
        salt = f"{__version__} {self._service.settings.caution} {type(query).__name__} {query!r}"
        short = hashlib.sha256(salt.encode()).hexdigest()[:16]
        return Document(_body(view), JSON, f'"{loaded.bundle.id}-{short}"', loaded.bundle.id)


def _body(view: View) -> bytes:
    return view.model_dump_json().encode() + b"\n"
