"""Where a service's bundles come from: a registry, or one bundle's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colltune.domain import Context
from colltune.errors import BundleError
from colltune.files.reading import json_of
from colltune.models.bundle import Bundle, load
from colltune.registry import Action, Entry, Event, Registry, slot_of
from colltune.server.settings import Settings


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
            # says what is wrong better than could be said here
            bundle = load(self._path)
            slot, bundle_id, created_utc = slot_of(bundle.context), bundle.id, bundle.created_utc
        return {slot: Event(0, slot, bundle_id, None, Action.PROMOTE, created_utc, "")}

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
        size = sum(f.stat().st_size for f in self._path.iterdir() if f.is_file())
        return (Entry.of(load(self._path, ()), size),)

    def history(self) -> tuple[Event, ...]:
        return ()

    def latest_report(self, kind: str) -> dict[str, Any] | None:
        """Return None: there is nowhere to report to."""
        del kind
        return None


Source = Registry | BundleFolder


def source(settings: Settings) -> Source:
    if settings.bundle is not None:
        return BundleFolder(settings.bundle)
    assert settings.registry is not None
    return Registry(settings.registry)
