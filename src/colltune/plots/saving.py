"""Writes a figure as the kind of picture that its file's name ends with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from colltune.errors import OutputError
from colltune.files import whole

# without dates and random names, the same figure is the same file
_METADATA: dict[str, Mapping[str, None]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
FORMATS = tuple(_METADATA)
"""What pictures can be, by the end of their files' names."""


def picture_format(path: Path) -> str:
    """Return the format that the name of `path` asks for.

    Raises
    ------
    OutputError
        If it ends with none of `FORMATS`.
    """
    found = path.suffix.removeprefix(".").lower()
    if found in FORMATS:
        return found
    known = ", ".join(f".{name}" for name in FORMATS)
    raise OutputError(f"{path}: no kind of picture is called {path.suffix!r}; end it with {known}")


def saved(figure: Figure, path: Path, dpi: int = 130) -> Path:
    """Write `figure` to `path` and return it; `dpi` (dots per inch) is for PNG.

    Raises
    ------
    OutputError
        If the name ends with none of `FORMATS`, or the file cannot be written.
    """
    kind = picture_format(path)
    with mpl.rc_context({"svg.hashsalt": "colltune"}), whole(path) as temporary:
        figure.savefig(temporary, dpi=dpi, format=kind, metadata=dict(_METADATA[kind]))
    return path
