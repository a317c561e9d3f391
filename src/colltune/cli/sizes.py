"""Message sizes as people write them."""

from __future__ import annotations

import re

from colltune.errors import DataError

_SIZE = re.compile(r"(?P<number>[0-9]{1,19})\s*(?P<unit>[KMG]?)(?:i?B)?", re.IGNORECASE)
_SCALE = {"": 0, "K": 10, "M": 20, "G": 30}


def parse_size(text: str) -> int:
    """Return the bytes of ``65536``, ``64K``, ``64 KiB`` or ``1M``; K, M, G are powers of 1024.

    Raises
    ------
    DataError
        If `text` is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise DataError(f"{text[:40]!r} is not a message size; one looks like 65536, 64K or 1M")
    return int(match["number"]) << _SCALE[match["unit"].upper()]
