"""What is written into Intel MPI's files: presets by upper ends of ppn, processes, message size.

Neither file can leave a part of a collective to the library: a collective that is named at all is
taken away from the tuning data that the library ships. So one of which a part is to be the
library's, or cannot be written safely, is left to it as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.errors import say
from colltune.mpi.choosing import Chooser, left, span
from colltune.mpi.file_format import Note
from colltune.mpi.intelmpi.library import BUILT_IN, INTEL_MPI, LIBRARY, TITLE
from colltune.mpi.intelmpi.presets import PresetFile, shown
from colltune.mpi.programs import MOST_PROMISED
from colltune.mpi.release import Release
from colltune.mpi.rules import LARGEST_COMM_SIZE, Entry, Layout, Numbers, Rule, Rules
from colltune.mpi.running import Promises, RunningRange

LARGEST_BYTES = (1 << 31) - 1
"""Largest end of messages that the library reads as it is written."""


class PresetChooser(Chooser):
    """Chooses presets, which stand as numbers in rules; a collective as a whole or not at all."""

    def __init__(self, release: str, promises: Promises) -> None:
        bound = Release(INTEL_MPI, INTEL_MPI.presets(release), one_rule=frozenset())
        super().__init__(bound, "", promises)
        self.presets = INTEL_MPI.presets(release)
        self._left: dict[Collective, str] = {}
        self._refused: set[Collective] = set()

    def runs(self, on: int | Shape, interval: Interval) -> RunningRange:
        size = on.nprocs if isinstance(on, Shape) else on
        runs = self.bound.runs(interval.configuration, size, self.promises)
        return runs if runs.refusal is not None else replace(runs, first_bytes=0)

    def leave(self, where: str, interval: Interval, why: str) -> None:
        # above the largest end nothing but the built-in logic can be written anyway
        if interval.first_bytes <= LARGEST_BYTES:
            collective = interval.configuration.collective
            what = why or "is the library's own decision"
            self._left.setdefault(collective, f"{where}, {span(interval)}: {what}")
            if why:
                self._refused.add(collective)

    def chosen(self, table: DecisionTable) -> dict[Collective, list[Entry]]:
        """Return what may be written of each collective."""
        found: dict[Collective, list[Entry]] = {}
        for entry in map(self._readable, (*self.by_size(table), *self.by_layout(table))):
            if entry.chooses:
                found.setdefault(entry.collective, []).append(entry)
        for collective, why in sorted(self._left.items()):
            if found.pop(collective, None) or collective in self._refused:
                self.notes.append(
                    f"{collective}: left to the library as a whole, because a file cannot leave a "
                    f"part of it to the library: {why}"
                )
        self.notes.sort()
        return dict(sorted(found.items()))

    def _readable(self, entry: Entry) -> Entry:
        """Return rules up to the largest end that the library reads, built-in logic above it."""
        rules = [
            rule._replace(numbers=Numbers(self.presets.preset_of(rule.configuration)))
            for rule in entry.rules
            if rule.configuration is not None
        ]
        if any(rule.last > LARGEST_BYTES for rule in rules[:-1]):
            on = entry.first_size if entry.layout is Layout.ANY else entry.layout
            self.notes.append(
                f"{entry.collective} on {on} processes: the library reads no ends beyond "
                f"{LARGEST_BYTES} bytes, so its built-in logic runs above that"
            )
            rules = [rule for rule in rules if rule.first <= LARGEST_BYTES]
            rules[-1] = rules[-1]._replace(last=LARGEST_BYTES)
            rules.append(left(LIBRARY, entry.collective)._replace(first=LARGEST_BYTES + 1))
        return replace(entry, rules=tuple(rules))


def everywhere(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield entries for all communicators: all but those chosen for get the built-in logic."""
    collective = entries[0].collective
    nothing = (left(LIBRARY, collective),)
    anywhere = {e.first_size: e.rules for e in entries if e.layout is Layout.ANY}
    by_ppn: dict[int, dict[int, tuple[Rule, ...]]] = {}
    laid_out = [(e.layout, e.rules) for e in entries if isinstance(e.layout, Shape)]
    for ppn, size, rules in sorted((shape.ppn, shape.nprocs, rules) for shape, rules in laid_out):
        if ppn > 1:
            by_ppn.setdefault(ppn - 1, anywhere)
        by_ppn[ppn] = by_ppn.get(ppn, anywhere) | {size: rules}
    least_ppn = 0
    for ppn, by_size in (by_ppn | {LARGEST_COMM_SIZE: anywhere}).items():
        ends: dict[int, tuple[Rule, ...]] = {}
        for size, rules in sorted(by_size.items()):
            if size > 2:
                ends.setdefault(size - 1, nothing)
            ends[size] = rules
        least = 0
        for size, rules in (ends | {LARGEST_COMM_SIZE: nothing}).items():
            yield Entry(collective, 0, least, size, rules, first_ppn=least_ppn, last_ppn=ppn)
            least = size + 1
        least_ppn = ppn + 1


_Held = TypeVar("_Held")


def merged(parts: Iterable[tuple[int, _Held]]) -> tuple[tuple[int, _Held], ...]:
    """Return ends with what holds up to them, without those where it goes on."""
    kept: list[tuple[int, _Held]] = []
    for last, held in parts:
        if kept and kept[-1][1] == held:
            kept.pop()
        kept.append((last, held))
    return tuple(kept)


def presets_of(entry: Entry) -> tuple[tuple[int, int], ...]:
    """Return the ends of message sizes with the preset up to each."""
    return merged((rule.last, rule.numbers.algorithm) for rule in entry.rules)


# from which release on the presets of a collective are others
_NUMBERED_ANEW = {Collective.ALLTOALL: (2021, 18)}


def converted(parsed: Rules, release: str) -> tuple[dict[Collective, list[Entry]], list[Note]]:
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
        raise say("not-expressed-for-intel", file=parsed.source, what=what)
    found: dict[Collective, list[Entry]] = {}
    notes = list(parsed.not_read)
    series = [INTEL_MPI.catalogue_of(each).series for each in (parsed.release, release)]
    presets = INTEL_MPI.presets(parsed.release)
    for collective, entries in parsed.entries.items():
        found[collective] = []
        refused: Note | None = None
        for entry in entries:
            rules = []
            for rule in entry.rules:
                preset = presets.as_read(collective, rule.numbers.algorithm)
                why = _why_not_same(collective, preset, parsed.release, release)
                if why and not refused:
                    what = (
                        f"{collective} is left to the library as a whole: {shown(rule.text)}: {why}"
                    )
                    refused = Note(rule.line, collective, what)
                rules.append(rule._replace(numbers=Numbers(preset)))
            found[collective].append(replace(entry, rules=tuple(rules)))
        if refused:
            notes.append(refused)
            del found[collective]
        elif series[0] != series[1]:
            line = next((rule.line for rule in parsed.rules if rule.collective is collective), 0)
            what = (
                f"the numbers of {collective} are kept, but no document says that they mean the "
                f"same in {release}. Measure again."
            )
            notes.append(Note(line, collective, what))
    return found, notes


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
