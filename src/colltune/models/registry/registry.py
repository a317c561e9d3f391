"""The registry itself: adding bundles, bringing them into force, going back."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from colltune.domain import Collective
from colltune.errors import BundleError, OutputError, RegistryConflict
from colltune.models.bundle import Bundle, load
from colltune.models.registry import bundle_folder, reports
from colltune.models.registry.bundle_folder import Entry
from colltune.models.registry.events import (
    LONGEST_TEXT,
    Action,
    Event,
    as_bytes,
    in_force,
    parsed,
    standing,
)
from colltune.models.registry.folder_store import FolderStore
from colltune.models.registry.slots import checked_id, checked_prefix, checked_slot, is_id, slot_of
from colltune.models.registry.store import Store

NOTHING = ""
"""As what is expected to be in force: no bundle at all."""
_EVENT = re.compile(r"(\d{8})\.json")
_LIST = "`colltune bundles list` shows them"
Draft = Callable[[tuple[Event, ...]], Event]


class Registry:
    """The bundles of one machine; see `colltune.models.registry`.

    An instance remembers the events that it has read, so that asking it again and again what is in
    force costs a listing of one folder. It may be used by several threads.

    Parameters
    ----------
    root
        The registry's folder, or the URL of an object store, ``s3://bucket/prefix``.
    """

    def __init__(self, root: str | Path) -> None:
        self.store: Store = _store(root)
        self._known: dict[int, Event] = {}

    def __str__(self) -> str:
        return self.store.where

    def add(self, bundle: Bundle | Path) -> str:
        """Put a bundle, or the one in a folder, into the registry and return its id.

        One that is there stays; if it is damaged, it is replaced.

        Raises
        ------
        BundleError
            If it is not whole, or its release makes no name of a slot.
        RegistryConflict
            If it is being removed at this moment.
        OutputError
            If it cannot be written.
        """
        whole, files = bundle_folder.checked(bundle)
        slot_of(whole.context)
        folder = _folder(whole.id)
        with self._using(whole.id):
            if not self._is_whole(whole.id):
                self.store.remove_folder(folder)
                self.store.put_folder(folder, files, bundle_folder.MANIFEST)
            else:
                self.store.touch(f"{folder}/{bundle_folder.MANIFEST}")
        return whole.id

    def _is_whole(self, bundle_id: str) -> bool:
        try:
            self.load(bundle_id)
        except BundleError:
            return False
        return True

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all bundles, sorted, damaged ones included."""
        return tuple(name for name in self.store.names("bundles") if is_id(name))

    def entries(self) -> tuple[Entry, ...]:
        """Return all bundles that can be read, the oldest first; `entry` says why others cannot."""
        found = []
        for bundle_id in self.ids():
            try:
                found.append(self.entry(bundle_id))
            except BundleError:
                continue
        return tuple(sorted(found, key=lambda e: (e.created_utc, e.id)))

    def entry(self, bundle_id: str) -> Entry:
        """Return what there is to be told of one bundle; only its manifest is read.

        Raises
        ------
        BundleError
            If it is not there, damaged, or of a newer format.
        """
        bundle = self.load(bundle_id, ())
        return Entry(
            bundle.id,
            bundle.context,
            bundle.collectives,
            bundle.objective,
            bundle.created_utc,
            self.store.size_bytes(_folder(bundle.id)),
            slot_of(bundle.context),
        )

    def find(self, prefix: str) -> str:
        """Return the id that begins with `prefix` (at least 4 digits).

        Raises
        ------
        BundleError
            If none does, or several do.
        """
        found = [i for i in self.ids() if i.startswith(checked_prefix(prefix))]
        if not found:
            raise BundleError(f"{self}: no bundle's id begins with {prefix}; {_LIST}")
        if len(found) > 1:
            raise BundleError(
                f"{self}: the ids of {len(found)} bundles begin with {prefix}; give more digits"
            )
        return found[0]

    def path(self, bundle_id: str) -> Path:
        """Return a local folder with the bundle: its own, or a copy of an object store's.

        Raises
        ------
        BundleError
            If it is not there, or not a plain folder of plain files.
        """
        return self.store.local(_folder(checked_id(bundle_id)))

    def load(self, bundle_id: str, collectives: Collection[Collective] | None = None) -> Bundle:
        """Read a bundle (only the models of `collectives`, by default all) and check its hashes.

        Raises
        ------
        BundleError
            If it is not there, damaged, of a newer format, or not what its name says.
        """
        try:
            return self._loaded(bundle_id, collectives)
        except BundleError:
            if not self.store.forget_local(_folder(checked_id(bundle_id))):
                raise
        return self._loaded(bundle_id, collectives)

    def _loaded(self, bundle_id: str, collectives: Collection[Collective] | None) -> Bundle:
        path = self.path(bundle_id)
        bundle = load(path, collectives)
        if bundle.id != bundle_id:
            raise BundleError(
                f"{path}: holds the bundle {bundle.id}, which is not what its name says; remove it"
            )
        return bundle

    def history(self, slot: str | None = None) -> tuple[Event, ...]:
        """Return what happened, to one slot or to all, the oldest first.

        Raises
        ------
        BundleError
            If it cannot be read.
        """
        if slot is not None:
            checked_slot(slot)
        return tuple(e for e in self._events() if slot in (None, e.slot))

    def current(self) -> dict[str, Event]:
        """Return what is in force: of each slot its latest event.

        Raises
        ------
        BundleError
            If the history cannot be read; what was in force before goes on being so.
        """
        return in_force(self._events())

    def promote(
        self, bundle_id: str, *, by: str, note: str = "", expected: str | None = None
    ) -> Event:
        """Bring a bundle into force in its slot, after checking all of it; return the event.

        If it is in force already, nothing happens and the event that brought it is returned.

        Parameters
        ----------
        bundle_id
            Which.
        by, note
            Who does it and why, for the history.
        expected
            The id of the bundle that must be in force now, `NOTHING` for none; by default any.

        Raises
        ------
        BundleError
            If the bundle is not there, damaged, or the history cannot be read.
        RegistryConflict
            If another bundle is in force than expected; nothing was done.
        OutputError
            If it cannot be written.
        """
        if expected not in (None, NOTHING):
            checked_id(expected or "")
        self.path(bundle_id)
        with self._using(bundle_id):
            slot = slot_of(self.load(bundle_id).context)

            def draft(events: tuple[Event, ...]) -> Event:
                now = in_force(events).get(slot)
                _refuse_other(slot, now, expected)
                if now is not None and now.bundle_id == bundle_id:
                    return now
                return _event(slot, bundle_id, now, Action.PROMOTE, by, note)

            return self._happen(draft)

    def rollback(self, slot: str, *, by: str, note: str = "", expected: str | None = None) -> Event:
        """Bring back what was in force before the latest event that is not itself undone.

        Parameters
        ----------
        slot
            Where.
        by, note, expected
            As for `promote`. If somebody else changes the slot in the meantime, that is a conflict,
            too, so that two who undo the same promotion do not undo two.

        Raises
        ------
        BundleError, RegistryConflict, OutputError
            As `promote`; `BundleError` also if there is nothing to go back to.
        """
        seen = in_force(self._events(fresh=True)).get(checked_slot(slot))
        if seen is None:
            raise BundleError(f"{self}: nothing is in force in {slot}, so nothing to roll back")
        _refuse_other(slot, seen, expected)
        before = standing(self._events(), slot)[:-1]
        if not before:
            raise BundleError(
                f"{self}: {seen.bundle_id[:12]} is the first in {slot}; nothing was in force before"
            )
        with self._using(before[-1]):
            self.load(before[-1])

            def draft(events: tuple[Event, ...]) -> Event:
                now = in_force(events).get(slot)
                if now != seen:
                    _refuse_other(slot, now, seen.bundle_id)
                    raise RegistryConflict(f"{slot}: somebody else changed it; look and try again")
                return _event(slot, before[-1], seen, Action.ROLLBACK, by, note)

            return self._happen(draft)

    def put_report(self, kind: str, content: Mapping[str, Any]) -> None:
        """Keep a report of one of `reports.KINDS`; `content` is JSON-able.

        Raises
        ------
        BundleError
            If there is no such kind, or it is not JSON-able.
        OutputError
            If it cannot be written.
        """
        reports.put(self.store, kind, content)

    def latest_report(self, kind: str) -> dict[str, Any] | None:
        """Return the latest report of a kind that can be read, None if there is none.

        Raises
        ------
        BundleError
            If there is no such kind, or the folder cannot be read.
        """
        return reports.latest(self.store, kind)

    def _events(self, *, fresh: bool = False) -> tuple[Event, ...]:
        for name in self.store.names("history", fresh=fresh):
            match = _EVENT.fullmatch(name)
            if match and int(match[1]) not in self._known:
                self._read_event(int(match[1]))
        known = dict(self._known)
        return tuple(known[sequence] for sequence in sorted(known))

    def _read_event(self, sequence: int) -> None:
        key = _event_key(sequence)
        content = self.store.read(key)
        where = f"{self}/{key}"
        if content is None:
            raise BundleError(f"{where}: vanished while the history was read; try again")
        self._known[sequence] = parsed(content, sequence, where)

    def _happen(self, draft: Draft) -> Event:
        """Append what `draft` makes of the history as it is, however many others append, too."""
        while True:
            events = self._events(fresh=True)
            event = draft(events)
            if event.sequence:
                break
            event = replace(event, sequence=events[-1].sequence + 1 if events else 1)
            key = _event_key(event.sequence)
            if self.store.create(key, as_bytes(event)):
                self._known[event.sequence] = event
                break
            self._read_event(event.sequence)
        self._point(event)
        return event

    def _point(self, event: Event) -> None:
        """Let ``current/<slot>`` stand for what is in force, whoever else does so at once.

        Everybody looks at the history again after switching, so that whoever switches last leaves
        what the history says.
        """
        try:
            while True:
                latest = in_force(self._events(fresh=True))[event.slot]
                self.store.point(event.slot, latest.bundle_id)
                if in_force(self._events(fresh=True))[event.slot] == latest:
                    return
        except OutputError as error:
            raise OutputError(
                f"{event.bundle_id[:12]} is in force in {event.slot}, but the link for people was"
                f" not switched: {error}; then promote it again"
            ) from error

    @contextmanager
    def _using(self, bundle_id: str) -> Iterator[None]:
        """Keep a bundle from being removed; see `colltune.models.registry.garbage`."""
        key = f"work/using-{bundle_id}-{secrets.token_hex(6)}"
        self.store.create(key, b"")
        try:
            if f"removing-{bundle_id}" in self.store.names("work", fresh=True):
                raise RegistryConflict(
                    f"{self}: the bundle {bundle_id[:12]} is being removed; add it again in a while"
                )
            yield
        finally:
            self.store.remove(key)


def _store(root: str | Path) -> Store:
    return FolderStore(Path(root))


def _folder(bundle_id: str) -> str:
    return f"bundles/{bundle_id}"


def _event_key(sequence: int) -> str:
    return f"history/{sequence:08d}.json"


def _refuse_other(slot: str, now: Event | None, expected: str | None) -> None:
    found = NOTHING if now is None else now.bundle_id
    if expected not in (None, found):
        there = f"{found[:12]} by {now.by}" if now else "nothing"
        raise RegistryConflict(
            f"{slot}: {expected or 'nothing'} was expected to be in force, but it is {there};"
            " nothing was done"
        )


def _event(
    slot: str, bundle_id: str, now: Event | None, action: Action, by: str, note: str
) -> Event:
    """Return an event that has no number yet."""
    if max(len(by), len(note)) > LONGEST_TEXT:
        raise BundleError(f"who did it and why may have {LONGEST_TEXT} characters each")
    at_utc = datetime.now(UTC).isoformat(timespec="seconds")
    return Event(0, slot, bundle_id, now.bundle_id if now else None, action, at_utc, by, note)
