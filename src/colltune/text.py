"""Numbers and foreign text for people."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return `text`, which may quote any file, such that no terminal does anything but show it."""
    shown = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)


def bytes_text(n: int) -> str:
    """Return a message size for people: ``64``, ``4 KiB``, ``1 MiB``."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size and n % size == 0:
            return f"{n // size} {unit}"
    return str(n)


def time_text(seconds: float) -> str:
    """Return a runtime for people, with three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def counted(n: float, what: str, plural: str = "s") -> str:
    """Return a number of things: ``1 node``, ``4 nodes``."""
    return f"{n:g} {what}{'' if n == 1 else plural}"
