"""What is written into Intel MPI's files: presets by upper ends of ppn, processes, message size.

Neither file can leave a part of a collective to the library: a collective that is named at all is
taken away from the tuning data that the library ships. So one of which a part is to be the
library's, or cannot be written safely, is left to it as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi.choosing import check_intervals, span
from colltune.mpi.intelmpi.library import BUILT_IN, INTEL_MPI, LIBRARY, TITLE
from colltune.mpi.intelmpi.presets import PresetFile, shown
from colltune.mpi.programs import MOST_PROMISED, Programs
from colltune.mpi.rules import LARGEST_COMM_SIZE, LARGEST_SIZE, Entry, Rule, Rules, end_of
from colltune.mpi.running import Promises

LARGEST_BYTES = (1 << 31) - 1
"""Largest end of messages that the library reads as it is written."""


@dataclass(frozen=True)
class Part:
    """What holds up to an end (None: no end): a preset, or parts by the ends of the next level."""

    last: int | None
    below: Parts | int


Parts = tuple[Part, ...]
Grid = Mapping[Collective, Parts]
"""Parts by processes on a node; in them by processes, in them by message size."""


def merged(parts: Iterable[Part]) -> Parts:
    """Return the parts without those that end where an equal one begins."""
    kept: list[Part] = []
    for part in parts:
        if kept and kept[-1].below == part.below:
            kept.pop()
        kept.append(part)
    return tuple(kept)


@dataclass
class Choice:
    """What of one collective may be written: message sizes by number of processes or layout.

    ``left`` says why nothing of it may; ``refused`` that this is not for the table's wish alone.
    """

    sizes: dict[int | Shape, Parts] = field(default_factory=dict)
    left: str = ""
    refused: bool = False


def chosen(
    table: DecisionTable, release: str, *, programs: Programs
) -> tuple[dict[Collective, dict[int | Shape, Parts]], tuple[str, ...]]:
    """Return what may be written of each collective, and notes on what may not."""
    if table.library != LIBRARY:
        raise LibraryError(f"a decision table of {table.library} cannot be written for {TITLE}")
    INTEL_MPI.catalogue_of(release)
    found: dict[Collective, dict[int | Shape, Parts]] = {}
    notes: list[str] = []
    for collective in sorted({c for c, _ in (*table.rules, *table.by_layout)}):
        choice = _choice(table, collective, release, notes, programs)
        if choice.left and (choice.sizes or choice.refused):
            notes.append(
                f"{collective}: left to the library as a whole, because a file cannot leave a "
                f"part of it to the library: {choice.left}"
            )
        elif choice.sizes:
            found[collective] = choice.sizes
    return found, tuple(notes)


def _choice(
    table: DecisionTable, collective: Collective, release: str, notes: list[str], programs: Programs
) -> Choice:
    choice = Choice()
    for on, comm_size, intervals in _entries(table, collective):
        where = f"{collective} on {on} processes"
        check_intervals(where, collective, intervals)
        if comm_size < 2:
            notes.append(f"{where}: needs no algorithm")
            continue
        parts: list[Part] = []
        for interval in intervals:
            preset, why = _preset(release, interval, comm_size, programs)
            # above the largest end nothing but the built-in logic can be written anyway
            if why and interval.first_bytes <= LARGEST_BYTES:
                choice.left = choice.left or f"{where}, {span(interval)}: {why}"
                choice.refused |= not interval.configuration.is_default
            parts.append(Part(interval.last_bytes, preset))
        sizes = _readable(where, merged(parts), notes)
        if any(part.below != BUILT_IN for part in sizes):
            choice.sizes[on] = sizes
    return choice


def _entries(
    table: DecisionTable, collective: Collective
) -> Iterator[tuple[int | Shape, int, tuple[Interval, ...]]]:
    for comm_size in sorted(size for c, size in table.rules if c is collective):
        yield comm_size, comm_size, table.rules[collective, comm_size]
    for shape in sorted(shape for c, shape in table.by_layout if c is collective):
        yield shape, shape.nprocs, table.by_layout[collective, shape]


def _preset(
    release: str, interval: Interval, comm_size: int, programs: Programs
) -> tuple[int, str]:
    """Return the interval's preset, or 0 and why it is to be, or has to be, the library's."""
    configuration, presets = interval.configuration, INTEL_MPI.presets(release)
    if configuration.is_default:
        return BUILT_IN, "is the library's own decision"
    runs = INTEL_MPI.at(release).runs(configuration, comm_size, Promises(programs))
    if runs.refusal is not None:
        return BUILT_IN, runs.reason
    return presets.preset_of(configuration), ""


def _readable(where: str, sizes: Parts, notes: list[str]) -> Parts:
    """Return the sizes up to the largest end that the library reads, built-in logic above it."""
    kept = [part for part in sizes if part.last is not None and part.last <= LARGEST_BYTES]
    if len(kept) == len(sizes) - 1:
        return sizes
    notes.append(
        f"{where}: the library reads no ends beyond {LARGEST_BYTES} bytes, so its built-in "
        "logic runs above that"
    )
    if not kept or kept[-1].last != LARGEST_BYTES:
        kept.append(replace(sizes[len(kept)], last=LARGEST_BYTES))
    return (*kept, Part(None, BUILT_IN))


def laid_out(entries: Sequence[Entry], preset: Callable[[Rule], int]) -> Parts:
    """Return what entries of a collective say, with the presets that `preset` gives."""

    def sizes(entry: Entry) -> Parts:
        return merged(Part(end_of(rule.last, LARGEST_SIZE), preset(rule)) for rule in entry.rules)

    def on(ppn: int) -> Parts:
        by_end = {e.last_size: e for e in entries if e.first_ppn <= ppn <= e.last_ppn}
        ends = sorted(by_end)
        return merged(Part(end_of(n, LARGEST_COMM_SIZE), sizes(by_end[n])) for n in ends)

    ppns = sorted({one.last_ppn for one in entries})
    return merged(Part(end_of(ppn, LARGEST_COMM_SIZE), on(ppn)) for ppn in ppns)


# from which release on the presets of a collective are others
_NUMBERED_ANEW = {Collective.ALLTOALL: (2021, 18)}


def converted(parsed: Rules, release: str) -> tuple[dict[Collective, Parts], list[str]]:
    """Return what of `parsed` holds for `release`, and notes on the rest.

    Presets are the same within a catalogue's releases. Between releases of 2021 their numbers are
    kept where the collective was not numbered anew, which is told: no document says what they mean.
    """
    if not isinstance(parsed, PresetFile):
        what = f"{parsed.format} is not a configuration file of {TITLE}"
    elif parsed.dropped:
        what = f"Intel MPI {parsed.release} ignores this file: {parsed.dropped}"
    else:
        what = parsed.ends_program
    if what or not isinstance(parsed, PresetFile):
        raise LibraryError(f"{parsed.source}: {what}")
    grid: dict[Collective, Parts] = {}
    notes = list(parsed.not_read)
    series = [INTEL_MPI.catalogue_of(each).series for each in (parsed.release, release)]
    for collective, entries in parsed.entries.items():
        refused: list[str] = []
        laid = laid_out(entries, _translator(collective, parsed.release, release, refused))
        if refused:
            notes.append(refused[0])
            continue
        grid[collective] = laid
        if series[0] != series[1]:
            line = next((rule.line for rule in parsed.rules if rule.collective is collective), 0)
            notes.append(
                f"line {line}: the numbers of {collective} are kept, but no document says "
                f"that they mean the same in {release}. Measure again."
            )
    return grid, notes


def _translator(
    collective: Collective, source: str, target: str, refused: list[str]
) -> Callable[[Rule], int]:
    """Return what gives a rule's preset in the release `target`, and notes why one cannot be."""

    def translated(rule: Rule) -> int:
        preset = INTEL_MPI.presets(source).as_read(collective, rule.numbers.algorithm)
        why = _why_not_same(collective, preset, source, target)
        if not why:
            return preset
        refused.append(
            f"line {rule.line}: {collective} is left to the library as a whole:"
            f" {shown(rule.text)}: {why}"
        )
        return BUILT_IN

    return translated


def _why_not_same(collective: Collective, preset: int, source: str, target: str) -> str:
    """Return why a preset of one release cannot be kept for another; empty if it can."""
    if preset == BUILT_IN:
        return ""
    old, new = _numbers(source), _numbers(target)
    presets = INTEL_MPI.presets(target)
    if presets.preset(collective, preset) is None:
        return f"Intel MPI {target} has no preset {preset}"
    if old[0] != new[0]:
        return f"the presets of {old[0]} and {new[0]} differ"
    anew = _NUMBERED_ANEW.get(collective)
    if anew is not None and (old < anew) != (new < anew):
        return f"its presets were renumbered in {anew[0]}.{anew[1]}"
    configuration = presets.chosen(collective, preset)
    return INTEL_MPI.at(target).runs(configuration, promises=Promises(MOST_PROMISED)).reason


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in (*release.split("."), "0")[:2])
