"""Writes a figure as the kind of picture that its file's name ends with, or into a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from colltune.errors import OutputError
from colltune.files import whole
from colltune.text import printable

# without dates and random names, the same figure is the same file
_METADATA: dict[str, Mapping[str, None]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
FORMATS = tuple(_METADATA)
"""What pictures can be, by the end of their files' names."""
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_SETTINGS: Any = {"svg.hashsalt": "colltune"}
# texts of a page stay texts: they are found, read aloud, and small
_IN_PAGE: Any = {**_SETTINGS, "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
_ONE_AT_A_TIME = Lock()  # matplotlib's settings are those of the process
_SHORTER = tuple(
    (re.compile(pattern, re.DOTALL), short)
    for pattern, short in (
        # what only a file of its own needs
        (r"^.*?(?=<svg)", ""),
        (r' xmlns(:xlink)?="[^"]*"| version="1.1"', ""),
        (r"<defs>\s*<style.*?</style>\s*</defs>", ""),
        # names of groups would be there once for each picture
        (r'(?<=<g) id="[^"]*"', ""),
        (r' transform="rotate\(-0 [^"]*\)"', ""),
        # a hundredth of a point is enough
        (r"(?<=\d\.\d\d)\d+(?=[^<>]*>)", ""),
        (r"\s*\n\s*", " "),
        (r"(?<=>) (?=<)", ""),
    )
)


def picture_format(path: Path) -> str:
    """Return the format that the name of `path` asks for."""
    found = path.suffix.removeprefix(".").lower()
    if found in FORMATS:
        return found
    known = ", ".join(f".{name}" for name in FORMATS)
    raise OutputError(
        f"{path}: {path.suffix or 'no ending'} is not a format of pictures. Use the ending {known}."
    )


def saved(figure: Figure, path: Path, dpi: int = 130) -> Path:
    """Write `figure` to `path` and return it; `dpi` (dots per inch) is for PNG."""
    kind = picture_format(path)
    with mpl.rc_context(_SETTINGS), whole(path) as temporary:
        figure.savefig(temporary, dpi=dpi, format=kind, metadata=dict(_METADATA[kind]))
    return path


def inline_svg(figure: Figure, title: str) -> str:
    """Return `figure` as an element of a page, with a `title` for those who cannot see it."""
    text = StringIO()
    with _ONE_AT_A_TIME, mpl.rc_context(_IN_PAGE):
        figure.savefig(text, format="svg", metadata=_NO_METADATA)
    drawn = text.getvalue()
    for pattern, short in _SHORTER:
        drawn = pattern.sub(short, drawn)
    start = drawn.index(">") + 1
    named = f"<title>{escape(printable(title))}</title>"
    return f'<svg role="img"{drawn[4:start]}{named}{drawn[start:]}'
