"""What of a decision table may be written for Intel MPI.

Neither file can leave a part of a collective to the library: a collective that is named at all is
taken away from the tuning data that the library ships. So one of which a part is to be the
library's, or cannot be written safely, is left to it as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi.choosing import check_intervals, span
from colltune.mpi.intelmpi.grid import SizePart, merged
from colltune.mpi.intelmpi.library import BUILT_IN, INTEL_MPI
from colltune.mpi.intelmpi.releases import LIBRARY, TITLE, catalogue_of

LARGEST_BYTES = (1 << 31) - 1
"""Largest end of messages that the library reads as it is written."""
Sizes = tuple[SizePart, ...]


@dataclass
class Choice:
    """What of one collective may be written.

    ``left`` says why nothing of it may; ``refused`` that this is not for the table's wish alone.
    """

    everywhere: dict[int, Sizes] = field(default_factory=dict)
    by_layout: dict[Shape, Sizes] = field(default_factory=dict)
    left: str = ""
    refused: bool = False
    notes: list[str] = field(default_factory=list)


def chosen(
    table: DecisionTable, release: str, *, builtin_operations_only: bool
) -> tuple[dict[Collective, Choice], tuple[str, ...]]:
    """Return what may be written of each collective, and notes on what may not."""
    if table.library != LIBRARY:
        raise LibraryError(f"a decision table of {table.library} is no {TITLE} configuration")
    catalogue_of(release)
    found: dict[Collective, Choice] = {}
    notes: list[str] = []
    for collective in sorted({c for c, _ in (*table.rules, *table.by_layout)}):
        choice = _choice(table, collective, release, builtin_operations_only)
        notes += choice.notes
        if choice.left and (choice.everywhere or choice.by_layout or choice.refused):
            notes.append(
                f"{collective}: left to the library as a whole, since a file cannot leave a part"
                f" of it: {choice.left}"
            )
        elif choice.everywhere or choice.by_layout:
            found[collective] = choice
    return found, tuple(notes)


def _choice(
    table: DecisionTable, collective: Collective, release: str, builtin_operations_only: bool
) -> Choice:
    choice = Choice()
    for comm_size, shape, intervals in _entries(table, collective):
        where = f"{collective} on {shape or comm_size} processes"
        check_intervals(where, collective, intervals)
        if comm_size < 2:
            choice.notes.append(f"{where}: needs no algorithm")
            continue
        parts: list[SizePart] = []
        for interval in intervals:
            preset, why = _preset(release, interval, comm_size, builtin_operations_only)
            # above the largest end nothing but the built-in logic can be written anyway
            if why and interval.first_bytes <= LARGEST_BYTES:
                choice.left = choice.left or f"{where}, {span(interval)}: {why}"
                choice.refused |= not interval.configuration.is_default
            parts.append(SizePart(interval.last_bytes, preset))
        sizes = _readable(where, merged(parts), choice.notes)
        if all(part.preset == BUILT_IN for part in sizes):
            continue
        if shape is None:
            choice.everywhere[comm_size] = sizes
        else:
            choice.by_layout[shape] = sizes
    return choice


def _entries(
    table: DecisionTable, collective: Collective
) -> Iterator[tuple[int, Shape | None, tuple[Interval, ...]]]:
    rules: Mapping[tuple[Collective, int], tuple[Interval, ...]] = table.rules
    for comm_size in sorted(size for c, size in rules if c is collective):
        yield comm_size, None, rules[collective, comm_size]
    for shape in sorted(shape for c, shape in table.by_layout if c is collective):
        yield shape.nprocs, shape, table.by_layout[collective, shape]


def _preset(
    release: str, interval: Interval, comm_size: int, builtin_operations_only: bool
) -> tuple[int, str]:
    """Return the interval's preset, or 0 and why it is to be, or has to be, the library's."""
    configuration = interval.configuration
    if configuration.is_default:
        return BUILT_IN, "is the library's own decision"
    try:
        preset = INTEL_MPI.presets(release).preset_of(configuration)
    except LibraryError as error:
        return BUILT_IN, str(error)
    why = INTEL_MPI.presets(release).why_unsafe(
        configuration,
        builtin_operations_only=builtin_operations_only,
        nprocs=comm_size,
    )
    runs = INTEL_MPI.presets(release).running_range(configuration, comm_size, 1)
    if why or runs.first_bytes is None:
        return BUILT_IN, why or runs.reason
    return preset, ""


def _readable(where: str, sizes: Sizes, notes: list[str]) -> Sizes:
    """Return the sizes up to the largest end that the library reads, built-in logic above it."""
    kept = [part for part in sizes if part.last is not None and part.last <= LARGEST_BYTES]
    if len(kept) == len(sizes) - 1:
        return sizes
    notes.append(
        f"{where}: the library reads no ends beyond {LARGEST_BYTES} bytes; its built-in logic runs"
        " above that"
    )
    if not kept or kept[-1].last != LARGEST_BYTES:
        kept.append(SizePart(LARGEST_BYTES, sizes[len(kept)].preset))
    return (*kept, SizePart(None, BUILT_IN))
