"""Text in pictures: names that any file may have brought, and numbers with units."""

from __future__ import annotations

from functools import cache

from matplotlib.font_manager import FontProperties, findfont, get_font

from colltune.text import bytes_text, printable, time_text

_LONGEST = 26


def plain(text: str) -> str:
    """Return `text`, which may quote any file, such that nothing in it is taken for a formula.

    What the font cannot show is written by its number, so that it stays readable.
    """
    shown = "".join(c if _has_glyph(c) else ascii(c)[1:-1] for c in printable(text))
    return shown.replace("$", r"\$")


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return `text` as `plain` has it, in at most `longest` signs, its middle left out."""
    if len(text) <= longest:
        return plain(text)
    end = longest // 3
    return plain(f"{text[: longest - end - 1]}…{text[-end:]}")


def size_text(msize_bytes: int) -> str:
    """Return a message size with its unit: ``64 B``, ``4 KiB``."""
    text = bytes_text(msize_bytes)
    return f"{text} B" if text.isdigit() else text


def runtime_text(time_s: float) -> str:
    """Return a runtime with its unit: ``20 µs``, ``1.5 ms``."""
    if 0 < time_s < 1e-6:
        return f"{time_s / 1e-9:.3g} ns"
    return time_text(time_s).replace("us", "µs")


@cache
def _has_glyph(character: str) -> bool:
    font = get_font(findfont(FontProperties()))
    return bool(font.get_char_index(ord(character)))
