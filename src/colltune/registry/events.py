"""What happened to a slot: promotions, rollbacks and trials, in an order that numbers give.

Format history of an event's file
---------------------------------
1. JSON with ``format``, ``format_version`` and the fields of `Event` but ``share``;
2. adds ``share`` and the actions ``step`` and ``stop``. Only the events of a trial are written so:
   a colltune that knows format 1 reads a registry until a trial begins;
3. adds ``cause``. Only events with a cause are written so. Earlier ones have it in their words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from colltune.errors import BundleError, OutputError, say
from colltune.files.reading import json_of
from colltune.registry.names import is_id, is_slot
from colltune.registry.store import RegistryStore, numbered, numbers

FORMAT = "colltune-registry-event"
FORMAT_VERSION = 3
_WITHOUT_CAUSE, _WITHOUT_SHARE = 2, 1
_SERVICE, _WITHDRAWN = "production (service)", "withdrawn by production: "
"""Who withdrew, and how the note began, before events had a cause."""
LONGEST_TEXT = 10_000
"""Characters of a note or of the name of who did it."""


class Action(StrEnum):
    """What was done."""

    PROMOTE = "promote"
    ROLLBACK = "rollback"
    STEP = "step"
    STOP = "stop"

    @property
    def is_of_trial(self) -> bool:
        """Whether the bundle in force stays in force."""
        return self in (Action.STEP, Action.STOP)


class Cause(StrEnum):
    """What the machine did something for, without anybody's request."""

    WITHDRAWAL = "withdrawal"


@dataclass(frozen=True)
class Event:
    """A bundle came into force in a slot, or its trial there went a step on, or was stopped.

    Of a trial ``bundle_id`` is the bundle on trial, and ``previous_id`` the one in force meanwhile.
    """

    sequence: int
    """number of the event, from 1 on, which orders all events of a registry"""
    slot: str
    """library and release"""
    bundle_id: str
    """id of the bundle that came into force, or is on trial"""
    previous_id: str | None
    """id of the one in force before, or meanwhile; null: none was"""
    action: Action
    """promote, rollback, step or stop"""
    at_utc: str
    """ISO time, by the clock of who did it"""
    by: str
    """who did it"""
    note: str = ""
    """why"""
    share: float | None = None
    """share of the jobs that get it on trial, 0 where it was stopped; null: it came into force"""
    cause: Cause | None = None
    """withdrawal where production withdrew decisions; null: somebody asked for it"""


def unnumbered(
    slot: str,
    bundle_id: str,
    now: Event | None,
    action: Action,
    by: str,
    note: str,
    share: float | None = None,
) -> Event:
    """Return an event that follows `now` in `slot` and has no number yet: 0."""
    if max(len(by), len(note)) > LONGEST_TEXT:
        raise say("text-too-long", longest_text=LONGEST_TEXT)
    at_utc = datetime.now(UTC).isoformat(timespec="seconds")
    before = now.bundle_id if now else None
    return Event(0, slot, bundle_id, before, action, at_utc, by, note, share)


def _parsed(content: bytes, sequence: int, where: str) -> Event:
    """Return the event in the file `where`, the one numbered `sequence`."""
    try:
        found = json_of(content)
        if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
            raise ValueError("it is not an event of a registry")
        version = found.pop("format_version", None)
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise say(
                "format-version", BundleError, place=where, version=version, known=FORMAT_VERSION
            )
        cause = found.pop("cause", None)
        event = Event(**{**found, "action": Action(str(found.get("action")))})
        event = replace(event, cause=_former_cause(event) if cause is None else Cause(cause))
        texts = (event.slot, event.bundle_id, event.at_utc, event.by, event.note)
        if not all(isinstance(text, str) for text in texts) or type(event.sequence) is not int:
            raise ValueError("a field has a wrong type")
        if not is_slot(event.slot):
            raise ValueError("its slot is not a slot")
        if not all(is_id(i) for i in (event.bundle_id, event.previous_id) if i is not None):
            raise ValueError("one of its bundle ids is not an id")
        if event.sequence != sequence:
            raise ValueError(f"it says that it is event {event.sequence}")
        if event.action.is_of_trial != _is_share(event.share):
            raise ValueError("its share of the jobs does not fit its action")
    except (ValueError, TypeError) as error:
        raise say("damaged-event", place=where, why=error) from error
    return event


def _former_cause(event: Event) -> Cause | None:
    is_ours = event.by == _SERVICE and str(event.note).startswith(_WITHDRAWN)
    return Cause.WITHDRAWAL if is_ours else None


def _is_share(share: object) -> bool:
    if share is None:
        return False
    if type(share) not in (int, float) or not 0.0 <= float(str(share)) <= 1.0:
        raise ValueError("its share is not a number from 0 to 1")
    return True


def in_force(events: Iterable[Event]) -> dict[str, Event]:
    """Return what brought each slot's bundle into force; `events` are in order."""
    return {event.slot: event for event in events if not event.action.is_of_trial}


def trials(events: Iterable[Event]) -> dict[str, Event]:
    """Return the latest step of each slot's trial; a promotion, rollback or stop ends a trial."""
    return _ending_in(Action.STEP, events)


def stopped(events: Iterable[Event]) -> dict[str, Event]:
    """Return the stop of each slot's trial after which nothing else happened there."""
    return _ending_in(Action.STOP, events)


def _ending_in(action: Action, events: Iterable[Event]) -> dict[str, Event]:
    latest = {event.slot: event for event in events}
    return {slot: event for slot, event in latest.items() if event.action is action}


def at(events: Iterable[Event], slot: str, at_utc: str) -> tuple[Event | None, Event | None]:
    """Return what was in force, and what on trial, at `at_utc` (ISO) by the clocks of the events.

    An event whose time is no time counts as past.
    """
    end = time_of(at_utc)
    events = [event for event in events if event.slot == slot]
    past = [e for e in events if end is None or (time_of(e.at_utc) or end) <= end]
    return in_force(past).get(slot), trials(past).get(slot)


def time_of(text: str) -> datetime | None:
    """Return a time (ISO, UTC unless it says otherwise), None for one that is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def standing(events: Iterable[Event], slot: str) -> list[str]:
    """Return the bundles of `slot` that a rollback can go back to, the one in force last.

    A promotion puts one on, a rollback takes one off.
    """
    ids: list[str] = []
    for event in events:
        if event.slot != slot or event.action.is_of_trial:
            continue
        if event.action is Action.PROMOTE:
            ids.append(event.bundle_id)
            continue
        # an event in between may have been removed by hand
        while ids and ids[-1] == event.previous_id:
            ids.pop()
        if not ids or ids[-1] != event.bundle_id:
            ids.append(event.bundle_id)
    return ids


Draft = Callable[[tuple[Event, ...]], Event]
"""Maps what happened so far to what shall happen now, without a number, or to an old event."""


class History:
    """Reads events, each once, and appends them."""

    def __init__(self, store: RegistryStore) -> None:
        self._store = store
        self._known: dict[int, Event] = {}
        self._listed: list[int] = []
        self._in_order: tuple[Event, ...] = ()

    def events(self, *, fresh: bool = False) -> tuple[Event, ...]:
        """Return what happened, the oldest first; `fresh` as for `RegistryStore.names`."""
        listed = numbers(self._store, "history", fresh=fresh)
        self._forget_what_was_replaced()
        if listed != self._listed:
            for number in listed:
                if number not in self._known:
                    self._read(number)
            self._listed = listed
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
            if self._store.create(_key(event.sequence), _content(event)):
                self._known[event.sequence] = event
                break
            self._read(event.sequence)
        if not event.action.is_of_trial:
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
            if content is None or _parsed(content, newest, key) != known:
                self._known, self._listed, self._in_order = {}, [], ()

    def _read(self, sequence: int) -> None:
        if not self._read_if_there(sequence):
            where = f"{self._store.where}/{_key(sequence)}"
            raise say("history-changed", where=where)

    def _read_if_there(self, sequence: int) -> bool:
        key = _key(sequence)
        content = self._store.read(key)
        if content is not None:
            self._known[sequence] = _parsed(content, sequence, f"{self._store.where}/{key}")
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
            raise say(
                "link-not-switched", bundle=event.bundle_id[:12], slot=event.slot, why=error
            ) from error


def _content(event: Event) -> bytes:
    """Return an event's file, in the earliest format that has all of it."""
    facts = asdict(event)
    version = FORMAT_VERSION
    if event.cause is None:
        del facts["cause"]
        version = _WITHOUT_SHARE if event.share is None else _WITHOUT_CAUSE
    if event.share is None:
        del facts["share"]
    content = {"format": FORMAT, "format_version": version, **facts}
    return (json.dumps(content, indent=1) + "\n").encode()


def _key(sequence: int) -> str:
    return numbered("history", sequence)
