"""Numbers and foreign text for people; texts with lines to fill in; what is printed of records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from colltune.errors import DataError, say

if TYPE_CHECKING:
    # type checkers know no subclass of it
    computed = property
else:

    class computed(property):  # noqa: N801 -- a decorator
        """A property that is printed like a field."""


UNPRINTED = MappingProxyType({"printed": False})
"""Metadata of a dataclass's field that is not printed."""

_SIZE = re.compile(r"(?P<number>[0-9]{1,19})\s*(?P<unit>[KMG]?)(?:i?B)?", re.IGNORECASE)
_SHIFT = {"": 0, "K": 10, "M": 20, "G": 30}


def printable(text: str) -> str:
    """Return `text`, which may quote any file, such that no terminal does anything but show it."""
    shown = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)


def parse_bytes(text: str) -> int:
    """Return the bytes of ``65536``, ``64k``, ``64KiB`` or ``1M``.

    k, M and G are powers of 1024, with or without ``B`` or ``iB``, as in OSU's and Intel's
    benchmarks.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise say(
            "malformed", DataError, value=text[:40], what="a size", like="65536, 64k, 64KiB or 1M"
        )
    return int(match["number"]) << _SHIFT[match["unit"].upper()]


def bytes_text(n: int, *, rounded: bool = False) -> str:
    """Return a size for people: ``64 B``, ``4 KiB``, ``1000 KiB``; `rounded`: ``1.25 MiB``."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if n >= 1 << shift and (rounded or n % (1 << shift) == 0):
            return f"{n / (1 << shift):.4g} {unit}" if rounded else f"{n >> shift} {unit}"
    return f"{n} B"


def range_text(first_bytes: int, last_bytes: int | None) -> str:
    """Return a range of message sizes for people.

    ``1 KiB .. <4 KiB``, ``741455 B .. 2 MiB``, ``from 1 MiB``, ``above 2 MiB``.
    """
    if first_bytes == last_bytes:
        return bytes_text(first_bytes)
    excluded = first_bytes > 1 and first_bytes % 1024 == 1
    first = bytes_text(first_bytes - excluded)
    if last_bytes is None:
        return f"{'above' if excluded else 'from'} {first}"
    whole = last_bytes % 1024 == 1023
    return f"{'>' * excluded}{first} .. {'<' * whole}{bytes_text(last_bytes + whole)}"


def time_text(seconds: float) -> str:
    """Return a runtime for people, with three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def number_text(value: float) -> str:
    """Return a number for people: ``1,412``, ``12``, ``3.4`` or ``0.062``."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def node_hours_text(hours: float, lower: float, upper: float) -> str:
    """Return node-hours with their interval: ``412 node-hours (380 to 450)``."""
    return f"{number_text(hours)} node-hours ({number_text(lower)} to {number_text(upper)})"


def counted(n: float, what: str, plural: str = "s") -> str:
    """Return a number of things: ``1 node``, ``4 nodes``."""
    number = f"{n:.0f}" if float(n).is_integer() else f"{n:g}"
    return f"{number} {what}{'' if n == 1 else plural}"


def filled(text: str, settings: Mapping[str, str]) -> str:
    """Return `text` with the lines ``key=…`` of `settings` saying these values."""
    lines = []
    for line in text.splitlines():
        key = next((key for key in settings if line.startswith(f"{key}=")), None)
        lines.append(line if key is None else f"{key}={settings[key]}")
    return "\n".join(lines) + "\n"


def is_record(kind: Any) -> bool:
    """Tell whether a class is a dataclass or a named tuple, whose fields are printed by name."""
    return is_dataclass(kind) or hasattr(kind, "_fields")


def printed(record: Any) -> dict[str, Any]:
    """Return the values of a record that are printed, by name."""
    kind: Any = type(record)
    return {name: getattr(record, name) for name in printed_names(kind)}


@cache
def printed_names(record: Any) -> tuple[str, ...]:
    """Return the names of what is printed of a class of records."""
    if is_dataclass(record):
        own = [each.name for each in fields(record) if each.metadata != UNPRINTED]
    else:
        own = record._fields
    further = (
        name
        for part in reversed(record.__mro__)
        for name, value in vars(part).items()
        if isinstance(value, computed)
    )
    return (*own, *further)
