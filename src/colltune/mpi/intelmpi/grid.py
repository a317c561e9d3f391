"""Which preset runs where, as nested upper ends: processes per node, processes, message size.

What both files of Intel MPI say can be laid out so. The first part whose end is not below the
actual value holds; None is no end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from colltune.domain import Collective
from colltune.mpi.file_format import Rule


@dataclass(frozen=True)
class SizePart:
    """A preset for messages up to ``last`` bytes."""

    last: int | None
    preset: int


@dataclass(frozen=True)
class CommPart:
    """What holds for communicators of up to ``last`` processes."""

    last: int | None
    sizes: tuple[SizePart, ...]


@dataclass(frozen=True)
class PpnPart:
    """What holds for communicators with up to ``last`` processes on a node."""

    last: int | None
    comms: tuple[CommPart, ...]


Grid = Mapping[Collective, tuple[PpnPart, ...]]
Ended = TypeVar("Ended", SizePart, CommPart, PpnPart)


@dataclass(frozen=True)
class Leaf:
    """What a file says for one point: a preset by number, and where it stands."""

    rule: Rule
    number: int


class Laid(Protocol):
    """A parsed file of Intel MPI, asked for points and for the ends that it names.

    Ends are ascending and finite; sizes are bytes.
    """

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """All collectives for which the file decides."""
        ...

    def leaf(self, collective: Collective, ppn: int, comm_size: int, msize: int) -> Leaf | None:
        """Return what holds there; None if the file does not decide."""
        ...

    def ppn_ends(self, collective: Collective) -> tuple[int, ...]:
        """Return up to which numbers of processes per node a part holds."""
        ...

    def comm_ends(self, collective: Collective, ppn: int) -> tuple[int, ...]:
        """Return up to which communicator sizes a part holds."""
        ...

    def size_ends(self, collective: Collective, ppn: int, comm_size: int) -> tuple[int, ...]:
        """Return up to which message sizes a part holds."""
        ...


def merged(parts: Iterable[Ended]) -> tuple[Ended, ...]:
    """Return the parts without those that end where an equal one begins."""
    kept: list[Ended] = []
    for part in parts:
        if kept and replace(kept[-1], last=part.last) == part:
            kept.pop()
        kept.append(part)
    return tuple(kept)


def laid_out(
    laid: Laid, collective: Collective, preset: Callable[[Leaf], int]
) -> tuple[PpnPart, ...]:
    """Return everything that a file says for a collective, with the presets that `preset` gives."""

    def sizes(ppn: int, comm_size: int) -> tuple[SizePart, ...]:
        ends = laid.size_ends(collective, ppn, comm_size)
        found = ((end, laid.leaf(collective, ppn, comm_size, at)) for end, at in _points(ends))
        return merged(SizePart(end, preset(leaf) if leaf else 0) for end, leaf in found)

    def comms(ppn: int) -> tuple[CommPart, ...]:
        ends = laid.comm_ends(collective, ppn)
        return merged(CommPart(end, sizes(ppn, at)) for end, at in _points(ends))

    return merged(PpnPart(end, comms(at)) for end, at in _points(laid.ppn_ends(collective)))


def _points(ends: tuple[int, ...]) -> list[tuple[int | None, int]]:
    """Return each end, and one beyond the last, with a value for which the part holds."""
    beyond = ends[-1] + 1 if ends else 1
    return [*((end, end) for end in ends), (None, beyond)]
