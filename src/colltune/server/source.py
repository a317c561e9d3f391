"""Where a service's bundles come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from colltune.domain import Context
from colltune.errors import BundleError
from colltune.models.bundle import Bundle, load


class InForce(NamedTuple):
    """Which bundle is in force, and since when (ISO time)."""

    bundle_id: str
    since_utc: str


class Listed(NamedTuple):
    """A bundle that can be asked for."""

    id: str
    slot: str
    context: Context
    collectives: tuple[str, ...]
    objective: str
    created_utc: str
    size_bytes: int


class Source(Protocol):
    """What a service reads; every method raises `BundleError` or `OSError`."""

    def current(self) -> Mapping[str, InForce]:
        """Return what is in force in each slot; cheap."""
        ...

    def load(self, bundle_id: str) -> Bundle:
        """Return a bundle, all of it checked against its hashes."""
        ...

    def find(self, prefix: str) -> str:
        """Return the whole id of the one bundle whose id begins so."""
        ...

    def listed(self) -> tuple[Listed, ...]:
        """Return all bundles."""
        ...

    def report(self, kind: str) -> dict[str, Any] | None:
        """Return what was last reported of a kind, if anything."""
        ...


def slot_of(context: Context) -> str:
    """Return the name of the place that bundles of one MPI release take in turn."""
    return f"{context.library}-{context.library_version}"


class BundleFolder:
    """One bundle's folder; a bundle that is put in its place is taken up.

    Parameters
    ----------
    path
        The folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def current(self) -> Mapping[str, InForce]:
        """See `Source.current`."""
        manifest = self._path / "manifest.json"
        try:
            told = json.loads(manifest.read_bytes())
            context = Context(**told["context"])
            return {slot_of(context): InForce(str(told["id"]), str(told["created_utc"]))}
        except (OSError, ValueError, KeyError, TypeError):
            # says what is wrong better than could be said here
            bundle = load(self._path)
            return {slot_of(bundle.context): InForce(bundle.id, bundle.created_utc)}

    def load(self, bundle_id: str) -> Bundle:
        """See `Source.load`."""
        bundle = load(self._path)
        if bundle.id != bundle_id:
            raise BundleError(f"{self._path}: holds the bundle {bundle.id}, not {bundle_id}")
        return bundle

    def find(self, prefix: str) -> str:
        """See `Source.find`."""
        for in_force in self.current().values():
            if in_force.bundle_id.startswith(prefix):
                return in_force.bundle_id
        raise BundleError(f"no bundle {prefix}; this service has one bundle and no registry")

    def listed(self) -> tuple[Listed, ...]:
        """See `Source.listed`."""
        bundle = load(self._path)
        size = sum(f.stat().st_size for f in self._path.iterdir() if f.is_file())
        names = tuple(c.value for c in bundle.collectives)
        slot = slot_of(bundle.context)
        facts = (bundle.context, names, bundle.objective, bundle.created_utc, size)
        return (Listed(bundle.id, slot, *facts),)

    def report(self, kind: str) -> dict[str, Any] | None:
        """Return None: there is nowhere to report to."""
        return None
