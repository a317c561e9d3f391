"""Which preset runs where, as nested upper ends: processes per node, processes, message size.

What both files of Intel MPI say can be laid out so. The first part whose end is not below the
actual value holds; None is no end.

A preset is a number that each release fills as it likes. Within a catalogue's releases numbers are
the same; between releases of 2021 they are kept where the collective has not been numbered anew,
which is told, since no document says that they still mean the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi.file_format import ParsedFile, Rule
from colltune.mpi.intelmpi.library import BUILT_IN, INTEL_MPI
from colltune.mpi.intelmpi.releases import TITLE, catalogue_of

_WORD = 1 << 32


def shown(text: str) -> str:
    """Return words of a file as messages show them: quoted, and not too long."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def as_word(digits: str) -> int:
    """Return what the library makes of a number: limited to 64 bits, it keeps 32 of them."""
    # more digits than any number that is limited has
    number = int(digits[:40])
    limited = max(-(1 << 63), min((1 << 63) - 1, number))
    return (limited + _WORD // 2) % _WORD - _WORD // 2


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


class Laid(ABC):
    """A parsed file of Intel MPI, asked for points and for the ends that it names.

    Ends are ascending and finite; sizes are bytes. ``not_read`` are notes on what the release
    itself does not take, ``ends_program`` tells why programs end at their start.
    """

    @property
    def not_read(self) -> tuple[str, ...]:
        return ()

    @property
    def ends_program(self) -> str:
        return ""

    @property
    @abstractmethod
    def collectives(self) -> tuple[Collective, ...]: ...

    @abstractmethod
    def leaf(self, collective: Collective, ppn: int, comm_size: int, msize: int) -> Leaf | None:
        """Return what holds there; None if the file does not decide."""

    @abstractmethod
    def ppn_ends(self, collective: Collective) -> tuple[int, ...]:
        """Return up to which numbers of processes per node a part holds."""

    @abstractmethod
    def comm_ends(self, collective: Collective, ppn: int) -> tuple[int, ...]:
        """Return up to which communicator sizes a part holds."""

    @abstractmethod
    def size_ends(self, collective: Collective, ppn: int, comm_size: int) -> tuple[int, ...]:
        """Return up to which message sizes a part holds."""

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        ppn = -(-comm_size // nodes)
        return (0, *(end + 1 for end in self.size_ends(collective, ppn, comm_size)))


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


_NUMBERED_ANEW = {Collective.ALLTOALL: (2021, 18)}
"""From which release on the presets of a collective are others."""


@dataclass
class _Refusal:
    """The first leaf of a collective that cannot be kept, and why."""

    line: int = 0
    why: str = ""


def converted(parsed: ParsedFile, release: str) -> tuple[Grid, list[str]]:
    """Return what of `parsed` holds for `release`, and notes on the rest."""
    if not isinstance(parsed, Laid):
        raise LibraryError(
            f"{parsed.source}: no configuration file of {TITLE}, but {parsed.format}"
        )
    if parsed.dropped:
        raise LibraryError(
            f"{parsed.source}: Intel MPI {parsed.release} ignores this file: {parsed.dropped}"
        )
    if parsed.ends_program:
        raise LibraryError(f"{parsed.source}: {parsed.ends_program}")
    grid: dict[Collective, tuple[PpnPart, ...]] = {}
    notes = list(parsed.not_read)
    for collective in parsed.collectives:
        refusal = _Refusal()
        laid = laid_out(parsed, collective, _translator(parsed.release, release, refusal))
        if refusal.why:
            notes.append(
                f"line {refusal.line}: {collective} is left to the library as a whole:"
                f" {refusal.why}"
            )
            continue
        grid[collective] = laid
        line = next((rule.line for rule in parsed.rules if rule.collective is collective), 0)
        if catalogue_of(parsed.release).series != catalogue_of(release).series:
            notes.append(
                f"line {line}: the numbers of {collective} are kept, but no"
                f" document says that they mean the same in {release}: measure again"
            )
    return grid, notes


def why_not_same(collective: Collective, preset: int, source: str, target: str) -> str:
    """Return why a preset of one release cannot be kept for another; empty if it can."""
    if preset == BUILT_IN:
        return ""
    old, new = _numbers(source), _numbers(target)
    if INTEL_MPI.presets(target).preset(collective, preset) is None:
        return f"Intel MPI {target} has no preset {preset}"
    if old[0] != new[0]:
        return f"the presets of {old[0]} and {new[0]} are not the same"
    anew = _NUMBERED_ANEW.get(collective)
    if anew is not None and (old < anew) != (new < anew):
        return f"its presets were numbered anew in {anew[0]}.{anew[1]}"
    configuration = INTEL_MPI.presets(target).chosen(collective, preset)
    return INTEL_MPI.presets(target).why_unsafe(configuration, builtin_operations_only=False)


def _translator(source: str, target: str, refusal: _Refusal) -> Callable[[Leaf], int]:
    def translated(leaf: Leaf) -> int:
        collective = leaf.rule.collective
        preset = INTEL_MPI.presets(source).as_read(collective, leaf.number)
        why = why_not_same(collective, preset, source, target)
        if why and not refusal.why:
            refusal.line, refusal.why = leaf.rule.line, f"{shown(leaf.rule.text)}: {why}"
        return BUILT_IN if why else preset

    return translated


def _numbers(release: str) -> tuple[int, int]:
    year, _, update = release.partition(".")
    return int(year), int(update.partition(".")[0] or 0)
