"""What the service writes, without HTTP: measurements into a dataset, decisions into the registry.

Every method may take long and is called in a thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import structlog

from colltune.errors import BundleError, OutputError, RegistryConflict
from colltune.registry.events import Event
from colltune.registry.registry import NOTHING, Registry
from colltune.server.errors import ServiceError
from colltune.server.schemas import ContextOf, Stored
from colltune.server.settings import Settings


class Writing:
    """Writes for those who may."""

    def __init__(self, settings: Settings, changed: Callable[[], None]) -> None:
        self._data = settings.data
        self._root = settings.registry
        self._registry = Registry(settings.registry) if settings.registry else None
        self._changed = changed
        self._log = structlog.get_logger("colltune.server.writing")

    def dataset_folder(self) -> Path:
        if self._data is None:
            raise ServiceError(
                403,
                "this service accepts no measurements. Its administrator can start it with --data.",
            )
        return self._data

    def store(self, stream: BinaryIO, path: Path, sha256: str, launch: str, by: str) -> Stored:
        """Add measurements to the dataset, unless the same were sent before."""
        # pandas and Arrow take a lot of memory, which a service that only answers does not need
        from colltune.dataset.received import add_once, read_received  # noqa: PLC0415

        received = read_received(stream, path, "the body", launch)
        facts = {
            **received.facts,
            "received_from": by,
            "received_sha256": sha256,
            "received_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        digest = hashlib.sha256(f"{sha256} {launch}".encode()).hexdigest()
        try:
            file, is_new = add_once(self.dataset_folder(), received.dataset, facts, digest)
        except OutputError as error:
            self._log.error("measurements could not be stored", why=str(error), who=by)
            why = getattr(error.__cause__, "strerror", None) or "an error"
            raise OutputError(f"the service cannot write its dataset now: {why}") from (
                error.__cause__
            )
        rows = len(received.dataset)
        self._log.info("measurements", who=by, rows=rows, file=file.name, new=is_new)
        context = ContextOf(**asdict(received.dataset.context))
        return Stored(new=is_new, rows=rows, file=file.name, sha256=sha256, context=context)

    def promote(self, prefix: str, by: str, note: str, expected: str | None) -> Event:
        registry = self._changeable()
        bundle_id = _found(registry, prefix)
        now = NOTHING if expected == "none" else expected
        try:
            event = registry.promote(bundle_id, by=by, note=note, expected=now)
        except RegistryConflict:
            raise
        except BundleError as error:
            raise ServiceError(422, self._without_root(error)) from error
        return self._done(event, by)

    def rollback(self, prefix: str, by: str, note: str) -> Event:
        registry = self._changeable()
        bundle_id = _found(registry, prefix)
        ways = ((registry.stop, registry.trials()), (registry.rollback, registry.current()))
        found = [
            (undo, slot)
            for undo, of_slots in ways
            for slot, event in of_slots.items()
            if event.bundle_id == bundle_id
        ]
        if not found:
            raise ServiceError(
                409,
                f"the bundle {bundle_id[:12]} is neither in force nor on trial, so it cannot be "
                "rolled back",
            )
        undo, slot = found[0]
        try:
            event = undo(slot, by=by, note=note, expected=bundle_id)
        except RegistryConflict:
            raise
        except BundleError as error:
            raise ServiceError(409, self._without_root(error)) from error
        return self._done(event, by)

    def _changeable(self) -> Registry:
        if self._registry is None:
            raise ServiceError(
                403,
                "this service has one bundle and no registry, so no bundle can be promoted. "
                "Its administrator can start it with --registry.",
            )
        return self._registry

    def _done(self, event: Event, by: str) -> Event:
        self._log.info(
            "in force", slot=event.slot, bundle=event.bundle_id, action=event.action, who=by
        )
        self._changed()
        return event

    def _without_root(self, error: BundleError) -> str:
        """Return a message without the place of the registry, which is nobody's business."""
        return str(error).replace(str(self._root), "registry")


def _found(registry: Registry, prefix: str) -> str:
    """Return the whole id; only a failure of the search is a 404."""
    found = [i for i in registry.ids() if i.startswith(prefix)]
    if not found:
        raise ServiceError(404, f"no bundle {prefix}; see /v1/bundles")
    if len(found) > 1:
        raise ServiceError(
            409, f"the ids of several bundles begin with {prefix}. Give more digits."
        )
    return found[0]
