"""What the service writes into the registry, without HTTP.

Every method may take long and is called in a thread.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from colltune.errors import BundleError, RegistryConflict
from colltune.registry.events import Event
from colltune.registry.registry import NOTHING, Registry
from colltune.server.errors import ServiceError
from colltune.server.settings import Settings


class Writing:
    """Writes for those who may."""

    def __init__(self, settings: Settings, changed: Callable[[], None]) -> None:
        self._root = settings.registry
        self._registry = Registry(settings.registry) if settings.registry else None
        self._changed = changed
        self._log = structlog.get_logger("colltune.server.writing")

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
