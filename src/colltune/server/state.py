"""What a worker serves at one moment; never changed, but replaced as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from colltune.models.bundle import Bundle
from colltune.models.registry import slot_of
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
        """Return what is in force for a library's release, or the nearest of its series.

        Parameters
        ----------
        library, release
            None where the client did not say; then there must be one only.

        Raises
        ------
        NotThereError
            If there is nothing for it.
        UnclearError
            If there are several.
        NotReadyError
            If there is nothing at all yet.
        """
        if not self.loaded:
            raise NotReadyError("no bundle is loaded yet; see /health/ready")
        if library is not None and release is not None:
            exact = self.loaded.get(f"{library}-{release}")
            if exact is not None:
                return exact
        fit = [
            loaded
            for loaded in self.loaded.values()
            if library in (None, loaded.bundle.context.library)
            and (release is None or _same_series(release, loaded.bundle.context.library_version))
        ]
        known = ", ".join(sorted(self.loaded))
        if not fit:
            asked = " ".join(filter(None, (library, release)))
            raise NotThereError(f"no bundle for {asked}; there are bundles for {known}")
        if len({loaded.bundle.context.library for loaded in fit}) > 1:
            raise UnclearError(f"name library and release; there are bundles for {known}")
        if release is None and len(fit) > 1:
            raise UnclearError(f"name a release; there are bundles for {known}")
        return max(fit, key=lambda loaded: _numbers(loaded.bundle.context.library_version))


def _same_series(one: str, other: str) -> bool:
    return _series(one) == _series(other)


def _series(release: str) -> str:
    return release.rpartition(".")[0] or release


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"[0-9]+", release))
