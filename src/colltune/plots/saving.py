"""Writes a figure as the kind of picture that its file's name ends with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from colltune.errors import OutputError, unknown
from colltune.files import whole

# without dates and random names, the same figure is the same file
_METADATA: dict[str, Mapping[str, None]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
FORMATS = tuple(_METADATA)
"""What pictures can be, by the end of their files' names."""
_SETTINGS: Any = {"svg.hashsalt": "colltune"}


def picture_format(path: Path) -> str:
    """Return the format that the name of `path` asks for."""
    found = path.suffix.removeprefix(".").lower()
    if found in FORMATS:
        return found
    known = [f".{name}" for name in FORMATS]
    raise unknown("ending of a picture", path.suffix, known, OutputError).of(str(path))


def saved(figure: Figure, path: Path, dpi: int = 130) -> Path:
    """Write `figure` to `path` and return it; `dpi` (dots per inch) is for PNG."""
    kind = picture_format(path)
    with mpl.rc_context(_SETTINGS), whole(path) as temporary:
        figure.savefig(temporary, dpi=dpi, format=kind, metadata=dict(_METADATA[kind]))
    return path
