"""The one encoder of what colltune tells programs: records, numbers of numpy, what is not known."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from colltune.domain import Configuration, Shape
from colltune.text import is_record, printed


@dataclass(frozen=True)
class DescribedRecord:
    """A record whose description is made of the docstrings of its fields."""

    __pydantic_config__: ClassVar[dict[str, bool]] = {"use_attribute_docstrings": True}


def encoded(facts: object, indent: int | None = None) -> str:
    """Return `facts` as one JSON document; a number that is none, such as NaN, becomes null."""
    separators = (",", ":") if indent is None else None
    return json.dumps(plain(facts), indent=indent, separators=separators, allow_nan=False)


def digits(value: float) -> float | None:
    """Return `value` with the four digits that are worth sending; None if it is no number."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


def plain(value: Any) -> Any:  # noqa: PLR0911
    """Return `value` as JSON knows it, with whatever it holds; sets are sorted."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Configuration):
        return value.id
    if isinstance(value, Shape | Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(held) for key, held in value.items()}
    if is_record(type(value)):
        return {name: plain(held) for name, held in printed(value).items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return [plain(held) for held in (sorted(value) if isinstance(value, Set) else value)]
