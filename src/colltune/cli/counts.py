"""Lists of node counts and processes per node as people write them."""

from __future__ import annotations

from colltune.errors import DataError


def parse_counts(text: str | None, flag: str) -> tuple[int, ...] | None:
    """Return the integers of a list such as ``4,16,36``, sorted; None if it was not given.

    Raises
    ------
    DataError
        If `text` is no list of integers from 1 on.
    """
    if text is None:
        return None
    try:
        counts = {int(word) for word in text.split(",") if word.strip()}
    except ValueError:
        raise DataError(f"{flag} {text!r} is not a list of integers such as 4,16,36") from None
    if not counts or min(counts) < 1:
        raise DataError(f"{flag} {text!r} is not a list of counts such as 4,16,36")
    return tuple(sorted(counts))
