"""Where a service's bundles come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from colltune.domain import Context
from colltune.errors import BundleError
from colltune.files.reading import json_of
from colltune.models.bundle import Bundle, load
from colltune.registry import Entry, Event, Registry, slot_of
from colltune.server.settings import Settings


class InForce(NamedTuple):
    """Which bundle is in force, and since when (ISO time)."""

    bundle_id: str
    since_utc: str


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

    def entries(self) -> tuple[Entry, ...]:
        """Return all bundles."""
        ...

    def history(self) -> tuple[Event, ...]:
        """Return what was promoted and rolled back, the oldest first."""
        ...

    def report(self, kind: str) -> dict[str, Any] | None:
        """Return what was last reported of a kind, if anything."""
        ...


class BundleFolder:
    """One bundle's folder; a bundle that is put in its place is taken up."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def current(self) -> Mapping[str, InForce]:
        manifest = self._path / "manifest.json"
        try:
            told = json_of(manifest.read_bytes())
            context = Context(**told["context"])
            return {slot_of(context): InForce(str(told["id"]), str(told["created_utc"]))}
        except (OSError, ValueError, KeyError, TypeError):
            # says what is wrong better than could be said here
            bundle = load(self._path)
            return {slot_of(bundle.context): InForce(bundle.id, bundle.created_utc)}

    def load(self, bundle_id: str) -> Bundle:
        bundle = load(self._path)
        if bundle.id != bundle_id:
            raise BundleError(f"{self._path}: holds the bundle {bundle.id}, not {bundle_id}")
        return bundle

    def find(self, prefix: str) -> str:
        for in_force in self.current().values():
            if in_force.bundle_id.startswith(prefix):
                return in_force.bundle_id
        raise BundleError(f"no bundle {prefix}; this service has one bundle and no registry")

    def entries(self) -> tuple[Entry, ...]:
        bundle = load(self._path, ())
        size = sum(f.stat().st_size for f in self._path.iterdir() if f.is_file())
        facts = (bundle.context, bundle.collectives, bundle.objective, bundle.created_utc)
        return (Entry(bundle.id, *facts, size, slot_of(bundle.context)),)

    def history(self) -> tuple[Event, ...]:
        return ()

    def report(self, kind: str) -> dict[str, Any] | None:
        """Return None: there is nowhere to report to."""
        return None


class BundleRegistry:
    """The bundles that are promoted in a registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def current(self) -> Mapping[str, InForce]:
        found = self._registry.current()
        return {slot: InForce(event.bundle_id, event.at_utc) for slot, event in found.items()}

    def load(self, bundle_id: str) -> Bundle:
        return self._registry.load(bundle_id)

    def find(self, prefix: str) -> str:
        return self._registry.find(prefix)

    def entries(self) -> tuple[Entry, ...]:
        return self._registry.entries()

    def history(self) -> tuple[Event, ...]:
        return self._registry.history()

    def report(self, kind: str) -> dict[str, Any] | None:
        return self._registry.latest_report(kind)


def source(settings: Settings) -> Source:
    """Return where the bundles of a service come from."""
    if settings.bundle is not None:
        return BundleFolder(settings.bundle)
    assert settings.registry is not None
    return BundleRegistry(Registry(settings.registry))
