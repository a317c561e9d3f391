"""What is to be measured: a campaign, read from a TOML file whose every key is checked.

Keys
----
``[machine] name``
    Name stored with the measurements; default: this host's name.
``[library] name``
    MPI library, a key of ``colltune.mpi.LIBRARIES``; default ``openmpi``.
``[space] collectives``
    List of collectives; ``nodes``, ``ppn``: lists of integers (``ppn`` absent: one process per
    usable core, at least 4); ``msizes_bytes``: list of message sizes as the caller passes them.
``[space] only``, ``skip``
    Globs over configuration ids; ``segsizes_bytes``, ``fanouts``: parameter values to try.
``[budget] total_s``
    Hard wall time of the campaign; ``max_reps``, ``cell_s``: limits per cell, launch and round.
``[budget] max_buffer_bytes``
    Cells whose buffers would be larger on any rank are left out.
"""

from __future__ import annotations

import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from colltune.domain import Collective, Shape, parse_collective
from colltune.errors import CampaignError, DataError
from colltune.provenance import usable_cores

_LEAST_PPN = 4
_KEYS: dict[str, dict[str, type]] = {
    "machine": {"name": str},
    "library": {"name": str},
    "space": {
        "collectives": list,
        "nodes": list,
        "ppn": list,
        "msizes_bytes": list,
        "only": list,
        "skip": list,
        "segsizes_bytes": list,
        "fanouts": list,
    },
    "budget": {"total_s": float, "max_reps": int, "cell_s": float, "max_buffer_bytes": int},
}


@dataclass(frozen=True)
class Campaign:
    """A measuring campaign; see the module's text for the meaning and unit of each field."""

    collectives: tuple[Collective, ...]
    msizes_bytes: tuple[int, ...]
    machine: str = field(default_factory=socket.gethostname)
    library: str = "openmpi"
    nodes: tuple[int, ...] = (1,)
    ppn: tuple[int, ...] = field(default_factory=lambda: (max(_LEAST_PPN, usable_cores()),))
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    segsizes_bytes: tuple[int, ...] | None = None
    fanouts: tuple[int, ...] | None = None
    total_s: float = 90.0
    max_reps: int = 500
    cell_s: float = 0.05
    max_buffer_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        for name in ("collectives", "msizes_bytes", "nodes", "ppn"):
            if not getattr(self, name):
                raise CampaignError(f"campaign: {name} is empty; give at least one value")
        for name in ("nodes", "ppn", "fanouts"):
            if any(value < 1 for value in getattr(self, name) or ()):
                raise CampaignError(f"campaign: {name} must be at least 1")
        for name in ("msizes_bytes", "segsizes_bytes"):
            if any(value < 0 for value in getattr(self, name) or ()):
                raise CampaignError(f"campaign: {name} must not be negative")
        for name in ("total_s", "max_reps", "cell_s", "max_buffer_bytes"):
            if not getattr(self, name) > 0:
                raise CampaignError(f"campaign: {name} must be positive")

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Every combination of nodes and ppn."""
        return tuple(Shape(n, p) for n in self.nodes for p in self.ppn)

    def changed(self, **changes: Any) -> Campaign:
        """Return a copy with the given fields replaced; None keeps a field."""
        return replace(self, **{k: v for k, v in changes.items() if v is not None})


def laptop() -> Campaign:
    """Return the campaign of `colltune tune`: three collectives on this very machine."""
    file = resources.files("colltune.bench") / "laptop.toml"
    return parse(file.read_text(encoding="utf-8"), "laptop.toml")


def load(path: Path) -> Campaign:
    """Read a campaign file.

    Raises
    ------
    CampaignError
        Naming the file and the line or key that is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CampaignError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path))


def parse(text: str, source: str) -> Campaign:
    """Return the campaign in TOML `text`; `source` names it in errors."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CampaignError(f"{source}: not valid TOML: {error}") from error
    values: dict[str, Any] = {}
    for table_name, table in tables.items():
        for key, value in _checked_table(table_name, table, source).items():
            target = {"name": table_name}.get(key, key)
            values[target] = tuple(value) if isinstance(value, list) else value
    for needed in ("collectives", "msizes_bytes"):
        if needed not in values:
            raise CampaignError(f"{source}: key space.{needed} is missing")
    try:
        values["collectives"] = tuple(parse_collective(str(c)) for c in values["collectives"])
        return Campaign(**values)
    except (DataError, CampaignError) as error:
        raise CampaignError(f"{source}: {error}") from None


def _checked_table(name: str, table: object, source: str) -> Mapping[str, Any]:
    if name not in _KEYS or not isinstance(table, dict):
        raise CampaignError(f"{source}: unknown table [{name}]; known: {', '.join(_KEYS)}")
    for key, value in table.items():
        if key not in _KEYS[name]:
            known = ", ".join(_KEYS[name])
            raise CampaignError(f"{source}: unknown key {name}.{key}; known in [{name}]: {known}")
        if not _fits(key, value, _KEYS[name][key]):
            wanted = _KEYS[name][key].__name__
            raise CampaignError(f"{source}: key {name}.{key} = {value!r} must be a {wanted}")
    return table


def _fits(key: str, value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return False
    if kind is float:
        return isinstance(value, int | float)
    if isinstance(value, list):
        item = str if key in ("collectives", "only", "skip") else int
        return kind is list and all(isinstance(v, item) and not isinstance(v, bool) for v in value)
    return isinstance(value, kind)
