"""Names that callers give and that become parts of paths; each is checked before it does."""

from __future__ import annotations

import re

from colltune.domain import Context
from colltune.errors import BundleError

_ID = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(r"[0-9a-f]{4,64}")
_SLOT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,120}")


def slot_of(context: Context) -> str:
    """Return the slot of bundles that were measured in `context`, ``openmpi-4.1.4``."""
    return checked_slot(f"{context.library}-{context.library_version}")


def is_id(name: str) -> bool:
    """Tell whether `name` can be the id of a bundle."""
    return _ID.fullmatch(name) is not None


def is_slot(name: str) -> bool:
    """Tell whether `name` can be a slot."""
    return _SLOT.fullmatch(name) is not None


def checked_id(bundle_id: str) -> str:
    """Return `bundle_id`, or raise `BundleError` if it is none."""
    if not is_id(bundle_id):
        raise BundleError(f"{_shown(bundle_id)} is not a bundle's id: 64 digits of 0-9 and a-f")
    return bundle_id


def checked_prefix(prefix: str) -> str:
    """Return `prefix`, or raise `BundleError` if no id can begin with it."""
    if not _PREFIX.fullmatch(prefix):
        raise BundleError(
            f"{_shown(prefix)} is not the beginning of a bundle's id: 4 to 64 digits of 0-9 and a-f"
        )
    return prefix


def checked_slot(slot: str) -> str:
    """Return `slot`, or raise `BundleError` if it is none."""
    if not is_slot(slot):
        raise BundleError(
            f"{_shown(slot)} cannot name a slot: a library and its release, such as openmpi-4.1.4,"
            " of letters, digits and . _ + -"
        )
    return slot


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 80 else f"{text[:80]}…")
