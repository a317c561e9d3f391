"""What a worker serves at one moment; never changed, but replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from colltune.models.bundle import Bundle
from colltune.registry import slot_of
from colltune.registry.nearest import nearest_release
from colltune.server.answers import Answer
from colltune.server.errors import NotReadyError, NotThereError, UnclearError
from colltune.server.lru import Lru
from colltune.server.rendering import Renderings, renderings
from colltune.server.source import InForce


@dataclass(frozen=True, eq=False)
class Loaded:
    """A bundle in memory, and what was rendered from it by format, release and shape."""

    bundle: Bundle
    in_force: InForce
    renderings: Renderings = field(default_factory=renderings)

    @property
    def slot(self) -> str:
        """The name of the MPI release that it is for."""
        return slot_of(self.bundle.context)


@dataclass(frozen=True, eq=False)
class State:
    """All that is in force.

    ``loaded`` holds a bundle by slot; ``answers`` what was answered by (path, query);
    ``problems`` why a slot keeps an older bundle, or has none.
    """

    loaded: Mapping[str, Loaded]
    answers: Lru[tuple[str, bytes], Answer]
    problems: Mapping[str, str] = field(default_factory=dict)

    def pick(self, library: str | None, release: str | None) -> Loaded:
        """Return what is in force for a library's release, or the nearest of its series."""
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
