"""The events of a registry as its store has them, and ``current/<slot>`` that follows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from colltune.errors import BundleError, OutputError
from colltune.registry.events import Event, as_bytes, in_force, parsed
from colltune.registry.store import Store

Draft = Callable[[tuple[Event, ...]], Event]
"""Maps what happened so far to what shall happen now, without a number, or to an old event."""
_FILE = re.compile(r"(\d{8})\.json")


class History:
    """Reads events, each once, and appends them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, Event] = {}
        self._listed: list[str] = []
        self._in_order: tuple[Event, ...] = ()

    def events(self, *, fresh: bool = False) -> tuple[Event, ...]:
        """Return what happened, the oldest first; `fresh` as for `Store.names`."""
        names = self._store.names("history", fresh=fresh)
        self._forget_what_was_replaced()
        if names != self._listed:
            for match in filter(None, map(_FILE.fullmatch, names)):
                if int(match[1]) not in self._known:
                    self._read(int(match[1]))
            self._listed = names
        # whoever asks by name is told
        late = fresh and self._store.lists_late
        while late and self._read_if_there(max(self._known, default=0) + 1):
            pass
        known = dict(self._known)
        if len(self._in_order) != len(known):
            self._in_order = tuple(known[sequence] for sequence in sorted(known))
        return self._in_order

    def append(self, draft: Draft) -> Event:
        """Append what `draft` makes of the history as it is, however many others append, too."""
        while True:
            events = self.events(fresh=True)
            event = draft(events)
            if event.sequence:
                break
            event = replace(event, sequence=events[-1].sequence + 1 if events else 1)
            if self._store.create(_key(event.sequence), as_bytes(event)):
                self._known[event.sequence] = event
                break
            self._read(event.sequence)
        self._point(event)
        return event

    def repoint(self) -> tuple[str, ...]:
        """Put ``current/<slot>`` right where its promoter did not; return which slots."""
        wrong = [
            event
            for slot, event in in_force(self.events(fresh=True)).items()
            if self._store.pointed(slot) != event.bundle_id
        ]
        for event in wrong:
            self._point(event)
        return tuple(event.slot for event in wrong)

    def _forget_what_was_replaced(self) -> None:
        """Begin anew where another history took the place of the known one, a restored copy say.

        The newest known event tells; whoever asks for it by name gets no late answer.
        """
        newest = max(self._known, default=0)
        if not newest:
            return
        key, known = _key(newest), self._known[newest]
        content = self._store.read(key)
        # one that was damaged since it was read stands as it was
        with suppress(BundleError):
            if content is None or parsed(content, newest, key) != known:
                self._known, self._listed, self._in_order = {}, [], ()

    def _read(self, sequence: int) -> None:
        if not self._read_if_there(sequence):
            where = f"{self._store.where}/{_key(sequence)}"
            raise BundleError(f"{where}: vanished while the history was read; try again")

    def _read_if_there(self, sequence: int) -> bool:
        key = _key(sequence)
        content = self._store.read(key)
        if content is not None:
            self._known[sequence] = parsed(content, sequence, f"{self._store.where}/{key}")
        return content is not None

    def _point(self, event: Event) -> None:
        """Let ``current/<slot>`` stand for what is in force, whoever else does so at once.

        Everybody looks at the history again after switching, so that whoever switches last leaves
        what the history says.
        """
        try:
            while True:
                latest = in_force(self.events(fresh=True))[event.slot]
                self._store.point(event.slot, latest.bundle_id)
                if in_force(self.events(fresh=True))[event.slot] == latest:
                    return
        except OutputError as error:
            raise OutputError(
                f"{event.bundle_id[:12]} is in force in {event.slot}, but the link for people was"
                f" not switched: {error}; then promote it again"
            ) from error


def _key(sequence: int) -> str:
    return f"history/{sequence:08d}.json"
