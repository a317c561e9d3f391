"""What a worker serves at one moment: never changed, but replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.models.bundle import Bundle
from colltune.models.guard import Guard
from colltune.registry import slot_of
from colltune.registry.names import nearest_release
from colltune.selector.configuration import Rendered, Target, render, selector_for
from colltune.server.answers import Answers, Lru
from colltune.server.errors import NotReadyError, NotThereError, UnclearError

_MOST_RENDERINGS, _MOST_BYTES = 1024, 32 << 20
_OVERHEAD_BYTES = 2048


@dataclass(frozen=True)
class Rendering:
    """A configuration, without the table that it was made of, which is large.

    ``kept`` and ``replaced`` are the collectives whose default is kept for all messages on the
    communicator of the whole job, or replaced for some; ``is_empty`` tells that nothing at all is
    replaced, so that a job is better told nothing.
    """

    rendered: Rendered
    kept: tuple[str, ...]
    replaced: tuple[str, ...]
    is_empty: bool


Renderings = Lru[tuple[str, str, str], Rendering]
"""By format, release and shape."""


def _renderings() -> Renderings:
    return Lru(_MOST_RENDERINGS, _MOST_BYTES, _rendering_bytes)


def _rendering_bytes(_key: object, found: Rendering) -> int:
    return _OVERHEAD_BYTES + sum(map(len, found.rendered.written.texts.values()))


@dataclass(frozen=True, eq=False)
class Loaded:
    """A bundle in memory, since when it is in force (ISO time), and what was rendered from it."""

    bundle: Bundle
    since_utc: str
    renderings: Renderings = field(default_factory=_renderings)

    @property
    def slot(self) -> str:
        """The name of the MPI release that it is for."""
        return slot_of(self.bundle.context)

    def rendering(self, shape: Shape, target: Target, guard: Guard) -> Rendering:
        """Return the configuration of a job of `shape`, rendered now or kept from before."""
        key = (target.form.name, target.release, str(shape))
        found = self.renderings.get(key)
        if found is None:
            # a selector remembers every shape that it was asked for, so each gets its own
            selector = selector_for(self.bundle, target, guard=guard)
            found = _slim(render(selector, shape, target))
            self.renderings.put(key, found)
        return found


def _slim(rendered: Rendered) -> Rendering:
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
    )


def is_any_replaced(rules: Iterable[Iterable[Interval]]) -> bool:
    """Tell whether any interval uses something else than the library's default."""
    return any(not one.configuration.is_default for intervals in rules for one in intervals)


@dataclass(frozen=True, eq=False)
class State:
    """All that is in force.

    ``loaded`` holds a bundle by slot; ``problems`` why a slot keeps an older bundle, or has none.
    """

    loaded: Mapping[str, Loaded]
    answers: Answers
    problems: Mapping[str, str] = field(default_factory=dict)

    def pick(self, library: str | None, release: str | None) -> Loaded:
        """Return what is in force for a library's release, or the nearest of its series.

        Where the client named neither, there must be one only.
        """
        if not self.loaded:
            raise NotReadyError("no bundle is loaded yet; see /health/ready")
        known = ", ".join(sorted(self.loaded))
        found = self._near(library, release)
        if not found:
            asked = " ".join(filter(None, (library, release)))
            raise NotThereError(f"no bundle for {asked}; there are bundles for {known}")
        if len({name for name, _ in found}) > 1:
            raise UnclearError(f"name library and release; there are bundles for {known}")
        if len(found) > 1:
            raise UnclearError(f"name a release; there are bundles for {known}")
        (only,) = found.values()
        return only

    def _near(self, library: str | None, release: str | None) -> dict[tuple[str, str], Loaded]:
        """Return, by library and release, what stands for the release asked for in each library."""
        contexts = [(loaded.bundle.context, loaded) for loaded in self.loaded.values()]
        known = {(c.library, c.library_version): loaded for c, loaded in contexts}
        return {
            (name, version): loaded
            for (name, version), loaded in known.items()
            if library in (None, name)
            and (
                release is None
                or version == nearest_release(release, [v for n, v in known if n == name])
            )
        }
