"""What a worker serves at one moment, and where it comes from: a registry, or one bundle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Context, Shape
from colltune.errors import BundleError, say, unknown
from colltune.files.reading import json_of
from colltune.models.bundle import Bundle, load
from colltune.models.guard import Guard
from colltune.registry import Action, Event, Registry, RegistryEntry, slot_of
from colltune.registry.names import nearest_release
from colltune.selector.configuration import Rendered, Target, render, selector_for
from colltune.server.answers import Answers, Lru
from colltune.server.errors import ServiceError
from colltune.server.job_counts import RequestOutcome

_MOST_RENDERINGS, _MOST_BYTES = 1024, 32 << 20
_OVERHEAD_BYTES = 2048


@dataclass(frozen=True)
class Rendering:
    """A configuration, without the table that it was made of, which is large.

    ``kept`` and ``replaced`` are the collectives whose default is kept for all messages on the
    communicator of the whole job, or replaced for some; ``is_empty`` tells that nothing at all is
    replaced, so that a job is better told nothing; ``outcome`` is tuned, or why ``replaced`` is
    empty.
    """

    rendered: Rendered
    kept: tuple[str, ...]
    replaced: tuple[str, ...]
    is_empty: bool
    outcome: RequestOutcome


@dataclass(frozen=True, eq=False)
class LoadedBundle:
    """A bundle in memory, since when it is in force (ISO time), and what was rendered from it."""

    bundle: Bundle
    since_utc: str
    renderings: Lru[tuple[str, str, str, str], Rendering] = field(
        default_factory=lambda: Lru(_MOST_RENDERINGS, _MOST_BYTES, _rendering_bytes)
    )

    @property
    def slot(self) -> str:
        return slot_of(self.bundle.context)

    def rendering(self, shape: Shape, target: Target, guard: Guard) -> Rendering:
        """Return the configuration of a job of `shape`, rendered now or kept from before."""
        key = (target.form.name, target.release, str(target.programs), str(shape))
        found = self.renderings.get(key)
        if found is None:
            # a selector remembers every shape that it was asked for, so each gets its own
            selector = selector_for(self.bundle, target, guard=guard)
            found = _slim(self.bundle, render(selector, shape, target))
            self.renderings.put(key, found)
        return found


def _rendering_bytes(_key: object, found: Rendering) -> int:
    return _OVERHEAD_BYTES + sum(map(len, found.rendered.written.texts.values()))


def _slim(bundle: Bundle, rendered: Rendered) -> Rendering:
    table = rendered.table
    of_job = {c: table.rules.get((c, table.shape.nprocs), ()) for c in Collective}
    replaced = {collective for collective in Collective if is_any_replaced([of_job[collective]])}
    asked = {collective for collective, _ in table.rules}
    without_rules = DecisionTable(table.library, table.shape, {})
    return Rendering(
        replace(rendered, table=without_rules),
        tuple(sorted(c.value for c in asked - replaced)),
        tuple(sorted(c.value for c in replaced)),
        not is_any_replaced((*table.rules.values(), *table.by_layout.values())),
        RequestOutcome.TUNED if replaced else _why_default(bundle, table.shape),
    )


def _why_default(bundle: Bundle, shape: Shape) -> RequestOutcome:
    if shape.nprocs == 1:
        return RequestOutcome.ALONE
    outside = all(model.coverage.is_outside(shape) for model in bundle.models)
    return RequestOutcome.OUTSIDE if outside else RequestOutcome.UNSURE


def is_any_replaced(rules: Iterable[Iterable[Interval]]) -> bool:
    return any(not one.configuration.is_default for intervals in rules for one in intervals)


class Trial(NamedTuple):
    """A bundle beside the one in force, and the share of jobs that get it."""

    loaded: LoadedBundle
    share: float


@dataclass(frozen=True, eq=False)
class ServiceState:
    """All that is in force.

    ``loaded`` holds a bundle by slot; ``problems`` why a slot keeps an older bundle, or has none;
    ``trials`` the bundles on trial where production is recorded.
    """

    loaded: Mapping[str, LoadedBundle]
    answers: Answers
    problems: Mapping[str, str] = field(default_factory=dict)
    trials: Mapping[str, Trial] = field(default_factory=dict)

    def pick(self, library: str | None, release: str | None) -> LoadedBundle:
        """Return what is in force for a library's release, or the nearest of its series.

        Where the client named neither, there must be one only.
        """
        if not self.loaded:
            raise ServiceError(503, say("not-ready", why="no bundle is loaded"))
        contexts = [(loaded.bundle.context, loaded) for loaded in self.loaded.values()]
        known = {(c.library, c.library_version): loaded for c, loaded in contexts}
        found = {
            (name, version): loaded
            for (name, version), loaded in known.items()
            if library in (None, name)
            and (
                release is None
                or version == nearest_release(release, [v for n, v in known if n == name])
            )
        }
        if not found:
            asked = " ".join(filter(None, (library, release)))
            raise ServiceError(404, unknown("bundle for", asked, sorted(self.loaded), BundleError))
        if len(found) > 1:
            several = len({name for name, _ in found}) > 1
            what = "library and release" if several else "a release"
            there = f"bundles for {', '.join(sorted(self.loaded))}"
            why = say("choose-one", where="this service", known=there, option=what)
            raise ServiceError(422, why)
        (only,) = found.values()
        return only


class BundleFolder:
    """One bundle's folder, asked like a `Registry`; a bundle put in its place is taken up."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def current(self) -> dict[str, Event]:
        manifest = self._path / "manifest.json"
        try:
            told = json_of(manifest.read_bytes())
            slot = slot_of(Context(**told["context"]))
            bundle_id, created_utc = str(told["id"]), str(told["created_utc"])
        except (OSError, ValueError, KeyError, TypeError):
            # it says what is wrong
            bundle = load(self._path)
            slot, bundle_id, created_utc = slot_of(bundle.context), bundle.id, bundle.created_utc
        return {slot: Event(0, slot, bundle_id, None, Action.PROMOTE, created_utc, "")}

    def trials(self) -> dict[str, Event]:
        return {}

    def load(self, bundle_id: str) -> Bundle:
        bundle = load(self._path)
        if bundle.id != bundle_id:
            raise say("content-of-another-id", file=self._path)
        return bundle

    def find(self, prefix: str) -> str:
        for in_force in self.current().values():
            if in_force.bundle_id.startswith(prefix):
                return in_force.bundle_id
        raise say("no-bundle-begins", registry="this service", prefix=prefix)

    def entries(self) -> tuple[RegistryEntry, ...]:
        size = sum(f.stat().st_size for f in self._path.iterdir() if f.is_file())
        return (RegistryEntry.of(load(self._path, ()), size),)

    def history(self) -> tuple[Event, ...]:
        return ()

    def dated_report(self, kind: str) -> tuple[str, dict[str, Any]] | None:
        del kind
        return None

    def retraining_age_s(self) -> float | None:
        return None


Source = Registry | BundleFolder
