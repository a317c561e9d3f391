"""Removing bundles that nobody needs, while others add and promote.

Kept is what is in force or on trial, what was in the last events of each slot, and what is young.
Whoever adds or promotes a bundle leaves a file ``work/using-<id>-…`` while doing so; whoever
removes one makes ``work/removing-<id>``, and then looks for such files and at the history once
more. Whoever came first sees nothing of the other and goes on, whoever came second sees it and
gives way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from colltune.files import temporary
from colltune.registry.events import Event, in_force, standing, trials
from colltune.registry.registry import REPORTS, Registry
from colltune.registry.store import MANIFEST, is_abandoned, numbered, numbers

LEAST_AGE_S = 600.0
"""What is younger is never removed, whatever is asked for: it may have been added just now."""
KEPT_REPORTS = 1000
_USING = "using-"
_REMOVING = "removing-"


@dataclass(frozen=True)
class Item:
    """A bundle, or something else in the registry."""

    key: str
    """where it lies in the registry"""
    bundle_id: str | None
    """id of the bundle; null: something else"""
    why: str
    """why it stays or goes"""
    size_bytes: int = 0
    """size on disk"""


@dataclass(frozen=True)
class GarbagePlan:
    """What a collection would keep (bundles) and remove (bundles and leftovers)."""

    kept: tuple[Item, ...]
    doomed: tuple[Item, ...]


class Collection:
    """Finds and removes what nobody needs."""

    def __init__(self, registry: Registry, *, keep_events: int = 5, min_age_s: float) -> None:
        self._registry = registry
        self._store = registry.store
        self._keep_events = keep_events
        self._min_age_s = max(min_age_s, LEAST_AGE_S)

    def plan(self) -> GarbagePlan:
        kept: list[Item] = []
        doomed: list[Item] = []
        needed = self._needed()
        for bundle_id in self._registry.ids():
            why = needed.get(bundle_id) or self._young(bundle_id)
            item = Item(
                _bundle_key(bundle_id),
                bundle_id,
                why or "not needed",
                self._store.size_bytes(_bundle_key(bundle_id)),
            )
            (kept if why else doomed).append(item)
        return GarbagePlan(tuple(kept), (*doomed, *self._leftovers()))

    def remove(self, items: Iterable[Item]) -> tuple[Item, ...]:
        """Remove those of `items` that are still not needed, and return them."""
        return tuple(item for item in items if self._remove(item))

    def _remove(self, item: Item) -> bool:
        if item.bundle_id is not None:
            return self._remove_bundle(item.bundle_id)
        self._store.remove(item.key)
        return True

    def _remove_bundle(self, bundle_id: str) -> bool:
        mark = f"work/{_REMOVING}{bundle_id}"
        made = self._store.create(mark, temporary.mark().encode())
        if not made and not is_abandoned(self._store, mark):
            return False
        try:
            if (
                bundle_id not in self._registry.ids()
                or self._in_use(bundle_id)
                or bundle_id in self._needed()
                or self._young(bundle_id)
            ):
                return False
            self._store.remove(_bundle_key(bundle_id))
            return True
        finally:
            self._store.remove(mark)

    def _in_use(self, bundle_id: str) -> bool:
        users = (
            name
            for name in self._store.names("work", fresh=True)
            if name.startswith(f"{_USING}{bundle_id}-")
        )
        return any(not is_abandoned(self._store, f"work/{name}") for name in users)

    def _needed(self) -> dict[str, str]:
        """Return why bundles are needed, by their ids."""
        why: dict[str, str] = {}
        events = self._registry.fresh_history()
        for slot, event in in_force(events).items():
            for bundle_id in standing(events, slot)[-self._keep_events - 1 :]:
                why[bundle_id] = f"needed to roll back {slot}"
            of_slot = [e for e in events if e.slot == slot]
            for bundle_id in _bundles(of_slot[max(0, len(of_slot) - self._keep_events) :]):
                why.setdefault(bundle_id, f"among the latest events of {slot}")
            why[event.bundle_id] = f"in force in {slot}"
        for slot, event in trials(events).items():
            why[event.bundle_id] = f"on trial in {slot}"
        return why

    def _young(self, bundle_id: str) -> str | None:
        folder = _bundle_key(bundle_id)
        age_s = self._store.age_s(f"{folder}/{MANIFEST}")
        if age_s is None:
            age_s = self._store.age_s(folder)
        if age_s is None or age_s >= self._min_age_s:
            return None
        return "added just now" if age_s < LEAST_AGE_S else "young"

    def _leftovers(self) -> Iterator[Item]:
        marks = (f"work/{name}" for name in self._store.names("work"))
        left = (key for key in marks if is_abandoned(self._store, key))
        for key in (*left, *self._store.leftovers()):
            yield Item(key, None, "left over from an interrupted command")
        for folder in (f"reports/{kind}" for kind in REPORTS):
            for number in numbers(self._store, folder)[:-KEPT_REPORTS]:
                yield Item(numbered(folder, number), None, "an old report")


def _bundle_key(bundle_id: str) -> str:
    return f"bundles/{bundle_id}"


def _bundles(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        yield event.bundle_id
        if event.previous_id is not None:
            yield event.previous_id
