"""Names that callers give and that become parts of paths; each is checked before it does."""

from __future__ import annotations

import re
from collections.abc import Iterable

from colltune.domain import Context
from colltune.errors import say

_ID = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(r"[0-9a-f]{4,64}")
_SLOT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,120}")


def slot_of(context: Context) -> str:
    """Return the slot of bundles that were measured in `context`, ``openmpi-4.1.4``."""
    return checked_slot(f"{context.library}-{context.library_version}")


def is_id(name: str) -> bool:
    return _ID.fullmatch(name) is not None


def is_slot(name: str) -> bool:
    return _SLOT.fullmatch(name) is not None


def checked_id(bundle_id: str) -> str:
    if not is_id(bundle_id):
        raise say("not-an-id-of-a-bundle", value=_shown(bundle_id))
    return bundle_id


def checked_prefix(prefix: str) -> str:
    if not _PREFIX.fullmatch(prefix):
        raise say("not-a-prefix", value=_shown(prefix))
    return prefix


def checked_slot(slot: str) -> str:
    if not is_slot(slot):
        raise say("not-a-slot", value=_shown(slot))
    return slot


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 80 else f"{text[:80]}…")


def nearest_release(wanted: str, known: Iterable[str]) -> str | None:
    """Return `wanted` if it is known, else the newest of its series (4.1.x), None if none is."""
    releases = list(known)
    if wanted in releases:
        return wanted
    same = [release for release in releases if _series(release) == _series(wanted)]
    return max(same, key=_numbers, default=None)


def _series(release: str) -> str:
    return release.rpartition(".")[0] or release


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release))
