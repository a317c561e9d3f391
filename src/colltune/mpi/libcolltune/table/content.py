"""What a decision table of libcolltune holds, and how it is spelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from colltune.domain import Collective, Configuration, Shape

VERSION = 1
HEAD = "colltune-table"
LIBRARY_CHOICE = 0
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_64_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Entry:
    """A configuration of a table: its number, and the control variables if it is steered."""

    number: int
    configuration: Configuration
    settings: tuple[tuple[str, str], ...] = ()
    line: int = 0


@dataclass(frozen=True)
class Step:
    """From ``first_bytes`` on, the configuration of that number; 0 is the library's own choice."""

    first_bytes: int
    number: int
    line: int = 0


@dataclass(frozen=True)
class RuleBlock:
    """The steps for communicators of ``comm_size`` processes, or only for those in a ``layout``."""

    collective: Collective
    comm_size: int
    steps: tuple[Step, ...]
    layout: Shape | None = None
    line: int = 0

    @property
    def where(self) -> str:
        """Which communicators, as the table spells it."""
        return f"layout {self.layout}" if self.layout else f"size {self.comm_size}"

    @property
    def key(self) -> tuple[Collective, int | Shape]:
        """Collective and communicator, of which a table has one block at most."""
        return self.collective, self.layout or self.comm_size


@dataclass(frozen=True)
class Content:
    library: str
    release: str
    shape: Shape
    unless: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    entries: Mapping[int, Entry] = field(default_factory=dict)
    blocks: tuple[RuleBlock, ...] = ()


def rendered(content: Content) -> str:
    """Return the text of a table, with its checksum."""
    body = "".join(f"{line}\n" for line in _lines(content))
    return f"{body}end {checksum(body.encode()):016x}\n"


def _lines(content: Content) -> Iterator[str]:
    yield f"{HEAD} {VERSION}"
    yield f"library {content.library} {content.release}"
    yield f"shape {content.shape}"
    yield from (f"unless {pattern}" for pattern in content.unless)
    yield from (f"but {pattern}" for pattern in content.but)
    for entry in content.entries.values():
        settings = "".join(f" {name}={value}" for name, value in entry.settings)
        yield f"configuration {entry.number} {entry.configuration.id}{settings}"
    for block in content.blocks:
        yield f"rules {block.collective} {block.where}"
        yield from (f"{step.first_bytes} {step.number}" for step in block.steps)


def checksum(content: bytes) -> int:
    """Return the FNV-1a hash of `content`, 64 bits."""
    found = _FNV_OFFSET
    for byte in content:
        found = (found ^ byte) * _FNV_PRIME & _64_BITS
    return found
