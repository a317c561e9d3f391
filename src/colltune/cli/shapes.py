"""Shapes of jobs as people write them."""

from __future__ import annotations

import re

from colltune.domain import Shape
from colltune.errors import DataError

_SHAPE = re.compile(r"([0-9]{1,10})x([0-9]{1,10})", re.IGNORECASE)


def parse_shape(text: str) -> Shape:
    """Return the shape of ``16x32``, 16 nodes of 32 processes.

    Raises
    ------
    DataError
        If `text` is not a shape.
    """
    match = _SHAPE.fullmatch(text.strip())
    if not match:
        raise DataError(f"{text[:40]!r} is not a shape; one looks like 16x32, nodes x ppn")
    return Shape(int(match[1]), int(match[2]))
