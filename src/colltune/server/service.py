"""What the service answers, without HTTP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from colltune import __version__
from colltune.domain import Collective, Instance, Shape
from colltune.errors import BundleError
from colltune.selector.argmin import ModelSelector
from colltune.selector.guard import Guard
from colltune.selector.selection_json import selection_json, tables, tables_json
from colltune.server.answers import Document
from colltune.server.errors import NotThereError, UnclearError
from colltune.server.metrics import Metrics
from colltune.server.schemas import SelectQuery
from colltune.server.settings import Settings
from colltune.server.source import BundleFolder, Source
from colltune.server.state import Loaded, State
from colltune.server.watcher import Watcher

JSON = "application/json"


class Service:
    """Answers from the bundles in force.

    Methods that compute take the state that they answer from, so that one answer never comes from
    two of them; they may be called in any thread.

    Parameters
    ----------
    settings
        What it was told.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.source = _source(settings)
        self.watcher = Watcher(self.source, settings, self.metrics)
        self.guard = Guard(caution=settings.caution)

    @property
    def state(self) -> State:
        """What is in force now."""
        return self.watcher.state

    def why_not_ready(self) -> list[str]:
        """Return why nothing can be answered; nothing if it can."""
        if self.state.loaded:
            return []
        reasons = [*self.state.problems.values(), self.watcher.unreachable_why]
        return [why for why in reasons if why] or ["no bundle has been promoted yet"]

    def warnings(self) -> list[str]:
        """Return what is wrong although requests are answered."""
        return [why for why in (*self.state.problems.values(), self.watcher.unreachable_why) if why]

    def select(self, state: State, query: SelectQuery) -> Document:
        """Return decisions as JSON: one instance's, or all intervals of message sizes.

        Raises
        ------
        ServiceError, BundleError
            If there is no bundle for it, or it has no models of the collective.
        """
        loaded = self._loaded(state, query.bundle, query.library, query.release)
        bundle, shape = loaded.bundle, Shape(query.nodes, query.ppn)
        asked = (Collective(query.collective),) if query.collective else bundle.collectives
        selector = ModelSelector(bundle, guard=self.guard)
        if query.msize is None:
            found = tables(selector, asked, shape)
            content: Any = tables_json(bundle, shape, found)
            decided = [(c, i.configuration.is_default) for c, i in found]
        else:
            instances = [Instance(c, shape, query.msize) for c in asked]
            selections = selector.select_many(instances)
            rows = [selection_json(selection) for selection in selections]
            content = rows[0] if query.collective else rows
            decided = [(s.instance.collective, s.configuration.is_default) for s in selections]
        body = json.dumps(content, allow_nan=False).encode() + b"\n"
        return self._document(loaded, shape, body, JSON, str(query), decided)

    def _loaded(
        self, state: State, prefix: str | None, library: str | None, release: str | None
    ) -> Loaded:
        """Return what is in force for a release, or the bundle that a client insists on."""
        if prefix is None:
            return state.pick(library, release)
        fit = [one for one in state.loaded.values() if one.bundle.id.startswith(prefix)]
        if len(fit) > 1:
            raise UnclearError(f"several bundles' ids begin with {prefix}; give more of it")
        if not fit:
            raise NotThereError(f"no bundle {prefix}; see /v1/bundles")
        return fit[0]

    def _document(
        self,
        loaded: Loaded,
        shape: Shape,
        body: bytes,
        media_type: str,
        rest: str,
        decided: Iterable[tuple[Collective, bool]],
    ) -> Document:
        """Return a document whose tag covers everything that its text hangs on."""
        all_default: dict[str, bool] = {}
        for collective, is_default in decided:
            all_default[collective.value] = all_default.get(collective.value, True) and is_default
        salt = f"{__version__} {self.settings.caution} {media_type} {rest}"
        short = hashlib.sha256(salt.encode()).hexdigest()[:16]
        return Document(
            body,
            media_type,
            f'"{loaded.bundle.id}-{shape}-{short}"',
            {"X-Colltune-Bundle": loaded.bundle.id, "X-Colltune-Slot": loaded.slot},
            tuple(name for name, kept in all_default.items() if kept),
            tuple(name for name, kept in all_default.items() if not kept),
        )


def _source(settings: Settings) -> Source:
    if settings.bundle is not None:
        return BundleFolder(settings.bundle)
    raise BundleError("registries are not known yet; give a bundle")
