"""What happened to a slot: promotions and rollbacks, in an order that numbers give.

Format history of an event's file
---------------------------------
1. JSON with ``format``, ``format_version`` and the fields of `Event`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from colltune.errors import BundleError
from colltune.files.reading import json_of
from colltune.registry.slots import is_id, is_slot

FORMAT = "colltune-registry-event"
FORMAT_VERSION = 1
LONGEST_TEXT = 10_000
"""Characters of a note or of the name of who did it."""


class Action(StrEnum):
    """What was done."""

    PROMOTE = "promote"
    ROLLBACK = "rollback"


@dataclass(frozen=True)
class Event:
    """A bundle came into force in a slot.

    ``sequence`` orders all events of a registry, from 1 on; ``previous_id`` is the bundle that was
    in force before, None for a slot's first; ``at_utc`` an ISO time, told by the clock of who did
    it; ``by`` who did it.

    ``bundle_id`` is the one in force in ``slot`` from then on, ``note`` what its promoter said.
    """

    sequence: int
    slot: str
    bundle_id: str
    previous_id: str | None
    action: Action
    at_utc: str
    by: str
    note: str = ""


def unnumbered(
    slot: str, bundle_id: str, now: Event | None, action: Action, by: str, note: str
) -> Event:
    """Return an event that follows `now` in `slot` and has no number yet: 0."""
    if max(len(by), len(note)) > LONGEST_TEXT:
        raise BundleError(f"who did it and why may have {LONGEST_TEXT} characters each")
    at_utc = datetime.now(UTC).isoformat(timespec="seconds")
    return Event(0, slot, bundle_id, now.bundle_id if now else None, action, at_utc, by, note)


def as_bytes(event: Event) -> bytes:
    """Return the content of the file of `event`."""
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(event)}
    return (json.dumps(content, indent=1) + "\n").encode()


def parsed(content: bytes, sequence: int, where: str) -> Event:
    """Return the event in the file `where`, the one numbered `sequence`."""
    try:
        found = json_of(content)
        if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
            raise ValueError("it is no event of a registry")
        version = found.pop("format_version", None)
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise BundleError(
                f"{where}: of format {version}, newer than this colltune reads"
                f" ({FORMAT_VERSION}); upgrade colltune"
            )
        event = _event(found)
        if event.sequence != sequence:
            raise ValueError(f"it says that it is event {event.sequence}")
    except (ValueError, TypeError) as error:
        raise BundleError(
            f"{where}: cut short or damaged ({error}); copy it again from where it is whole, or"
            " remove it to go on as if it had not happened"
        ) from error
    return event


def _event(found: dict[str, Any]) -> Event:
    event = Event(**{**found, "action": Action(str(found.get("action")))})
    texts = (event.slot, event.bundle_id, event.at_utc, event.by, event.note)
    if not all(isinstance(text, str) for text in texts) or type(event.sequence) is not int:
        raise ValueError("a field is of another type")
    if not is_slot(event.slot):
        raise ValueError("its slot is none")
    if not all(is_id(i) for i in (event.bundle_id, event.previous_id) if i is not None):
        raise ValueError("an id of a bundle is none")
    return event


def in_force(events: Iterable[Event]) -> dict[str, Event]:
    """Return the latest event of each slot; `events` are in order."""
    return {event.slot: event for event in events}


def standing(events: Iterable[Event], slot: str) -> list[str]:
    """Return the bundles of `slot` that a rollback can go back to, the one in force last.

    A promotion puts one on, a rollback takes one off.
    """
    ids: list[str] = []
    for event in events:
        if event.slot != slot:
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
