"""What a file of one release means for another one.

A preset is a number that each release fills as it likes. Within a catalogue's releases numbers are
the same; between releases of 2021 they are kept where the collective has not been numbered anew,
which is told, since no document says that they still mean the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi.file_format import ParsedFile
from colltune.mpi.intelmpi import presets
from colltune.mpi.intelmpi.adjust_file import AdjustFile
from colltune.mpi.intelmpi.grid import Grid, Leaf, PpnPart, laid_out
from colltune.mpi.intelmpi.releases import TITLE, catalogue_of
from colltune.mpi.intelmpi.tuning_file import TuningFile

_NUMBERED_ANEW = {Collective.ALLTOALL: (2021, 18)}
"""From which release on the presets of a collective are others."""


@dataclass
class _Refusal:
    """The first leaf of a collective that cannot be kept, and why."""

    line: int = 0
    why: str = ""


def converted(parsed: ParsedFile, release: str) -> tuple[Grid, list[str]]:
    """Return what of `parsed` holds for `release`, and notes on the rest."""
    if not isinstance(parsed, TuningFile | AdjustFile):
        raise LibraryError(
            f"{parsed.source}: no configuration file of {TITLE}, but {parsed.format}"
        )
    if parsed.dropped:
        raise LibraryError(
            f"{parsed.source}: Intel MPI {parsed.release} ignores this file: {parsed.dropped}"
        )
    if isinstance(parsed, TuningFile) and parsed.document.ends_program:
        raise LibraryError(f"{parsed.source}: {parsed.document.ends_program}")
    grid: dict[Collective, tuple[PpnPart, ...]] = {}
    notes = _not_read(parsed)
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
        if catalogue_of(parsed.release).series != catalogue_of(release).series:
            notes.append(
                f"line {_line(parsed, collective)}: the numbers of {collective} are kept, but no"
                f" document says that they mean the same in {release}: measure again"
            )
    return grid, notes


def why_not_same(collective: Collective, preset: int, source: str, target: str) -> str:
    """Return why a preset of one release cannot be kept for another; empty if it can."""
    if preset == presets.BUILT_IN:
        return ""
    old, new = _numbers(source), _numbers(target)
    if presets.configuration_of(target, collective, preset) is None:
        return f"Intel MPI {target} has no preset {preset}"
    if old[0] != new[0]:
        return f"the presets of {old[0]} and {new[0]} are not the same"
    anew = _NUMBERED_ANEW.get(collective)
    if anew is not None and (old < anew) != (new < anew):
        return f"its presets were numbered anew in {anew[0]}.{anew[1]}"
    configuration = presets.chosen(target, collective, preset)
    return presets.why_unsafe(target, configuration, builtin_operations_only=False)


def _translator(source: str, target: str, refusal: _Refusal) -> Callable[[Leaf], int]:
    def translated(leaf: Leaf) -> int:
        collective = leaf.rule.collective
        preset = presets.as_read(source, collective, leaf.number)
        why = why_not_same(collective, preset, source, target)
        if why and not refusal.why:
            refusal.line, refusal.why = leaf.rule.line, f"{presets.shown(leaf.rule.text)}: {why}"
        return presets.BUILT_IN if why else preset

    return translated


def _not_read(parsed: TuningFile | AdjustFile) -> list[str]:
    """Return what the release itself does not take of a list of variables."""
    if isinstance(parsed, TuningFile):
        return []
    return [
        f"line {setting.line}: {collective} is left out: {setting.value.rejected}"
        for collective, setting in parsed.listing.settings.items()
        if setting.value.rejected
    ]


def _line(parsed: TuningFile | AdjustFile, collective: Collective) -> int:
    return next((rule.line for rule in parsed.rules if rule.collective is collective), 0)


def _numbers(release: str) -> tuple[int, int]:
    year, _, update = release.partition(".")
    return int(year), int(update.partition(".")[0] or 0)
