"""The configuration of one application by its profile, and the folder that holds it.

Format history of ``manifest.json``
-----------------------------------
1. what `PackManifest` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from colltune.dataset.profile import CallKind, Profile
from colltune.decisions import ENOUGH_CORES, DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError, say
from colltune.files import write_text
from colltune.json_text import encoded
from colltune.models.bundle import Bundle
from colltune.models.guard import Guard
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import (
    Rendered,
    Target,
    WrittenConfiguration,
    rendered,
    selector_for,
    table_for,
    write_rendered,
)
from colltune.selector.decision_table import Intervals, Layouts, decision_table, merged
from colltune.selector.profiled import Outlook, outlook
from colltune.text import UNPRINTED, counted

Ranges = tuple[tuple[int, int], ...]
"""Message sizes in bytes, first and last, ascending, with gaps between them."""


@dataclass(frozen=True)
class Calls:
    """What an application calls on a job of ``shape``.

    ``layouts`` are how its communicators of each size lie, by collective; ``ranges`` the bins of
    message sizes by collective and size of the communicator; ``left_out`` are sizes of which some
    communicator's layout is not known.
    """

    shape: Shape
    layouts: Mapping[Collective, Mapping[int, Layouts]]
    ranges: Mapping[tuple[Collective, int], Ranges]
    left_out: tuple[int, ...] = ()


def calls_on(profile: Profile, shape: Shape) -> Calls:
    """Return what the application calls on a job of `shape`.

    If no run of the profile had this shape, the communicators of the largest one are carried over:
    the whole job, all nodes, and whole nodes stay what they are; others keep their size.
    """
    worlds = {job.shape for job in profile.jobs}
    world = max((w for w in worlds if w is not None), default=None)
    known = shape if shape in worlds or world is None else world
    layouts: dict[Collective, dict[int, set[Shape]]] = {}
    bins: dict[tuple[Collective, int], set[tuple[int, int]]] = {}
    unknown: set[int] = set()
    for kind in (use.kind for use in profile.uses):
        layout = _carried(kind, known, shape)
        if layout is None:
            unknown.add(shape.nprocs if kind.nprocs == known.nprocs else kind.nprocs)
        elif layout.nprocs > 1 and layout.nodes <= shape.nodes and layout.ppn <= shape.ppn:
            layouts.setdefault(kind.collective, {}).setdefault(layout.nprocs, set()).add(layout)
            of_size = bins.setdefault((kind.collective, layout.nprocs), set())
            of_size.add((kind.first_bytes, kind.last_bytes))
    return Calls(
        shape,
        {
            collective: {n: tuple(sorted(s)) for n, s in by_size.items() if n not in unknown}
            for collective, by_size in layouts.items()
        },
        {at: _joined(found) for at, found in bins.items() if at[1] not in unknown},
        tuple(sorted(unknown)),
    )


def _carried(kind: CallKind, known: Shape, shape: Shape) -> Shape | None:
    """Return the layout of a communicator of a job of shape `known` in one of `shape`."""
    layout = kind.shape
    if layout is None or known == shape:
        return layout
    if layout == known:
        return shape
    return Shape(
        shape.nodes if layout.nodes == known.nodes > 1 else layout.nodes,
        shape.ppn if layout.ppn == known.ppn > 1 else layout.ppn,
    )


def _joined(bins: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for first, last in sorted(bins):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def application_table(selector: ModelSelector, calls: Calls, target: Target) -> DecisionTable:
    """Return the decisions for `calls` alone, as far as the format can leave out the rest."""
    known = selector.bundle.collectives
    collectives = tuple(sorted(c for c in calls.layouts if c in known and calls.layouts[c]))
    if (
        target.form.single_algorithm
        or not target.form.allows_partial_collective
        or calls.shape.nprocs == 1
    ):
        return table_for(selector, calls.shape, target, collectives=collectives)
    table = DecisionTable(selector.bundle.context.library, calls.shape, {})
    single = target.bound.one_rule

    def kept(intervals: Intervals, collective: Collective, nprocs: int) -> Intervals:
        """Leave other message sizes to the library, except where all sizes have one rule."""
        if collective in single:
            return intervals
        default = Configuration.default(table.library, collective)
        return within(intervals, calls.ranges.get((collective, nprocs), ()), default)

    for collective in collectives:
        found = decision_table(
            selector,
            calls.shape,
            [collective],
            single_rule=single,
            comm_layouts=calls.layouts[collective],
            by_layout=target.form.knows_layout,
        )
        for (_, nprocs), rule in found.rules.items():
            table.rules[collective, nprocs] = kept(rule, collective, nprocs)
        for (_, layout), rule in found.by_layout.items():
            table.by_layout[collective, layout] = kept(rule, collective, layout.nprocs)
    return table


def within(intervals: Sequence[Interval], ranges: Ranges, default: Configuration) -> Intervals:
    """Return `intervals` with the `default` wherever no range is."""
    found: list[Interval] = []
    at = 0
    for low, high in ranges:
        if low > at:
            found.append(Interval(at, low - 1, default))
        for interval in intervals:
            last = high if interval.last_bytes is None else min(interval.last_bytes, high)
            begins = max(interval.first_bytes, low)
            if begins <= last:
                found.append(replace(interval, first_bytes=begins, last_bytes=last))
        at = high + 1
    found.append(Interval(at, None, default))
    return merged(found)


FORMAT = "colltune-pack"
FORMAT_VERSION = 1
SCRIPT = "env.sh"
_MANIFEST, _README = "manifest.json", "README.txt"


def pack(
    profile: Profile,
    bundle: Bundle,
    target: Target,
    shape: Shape,
    guard: Guard,
    cores: int = ENOUGH_CORES,
) -> Packed:
    """Decide for one application what its profile says that it uses, on a job of `shape`.

    `cores` are those of a node of the job, by default enough for all processes.
    """
    library = target.form.library
    if library != (ran := profile.library):
        what = "the profile's application ran"
        raise say("says-nothing-about", DataError, what=what, library=ran, other=library)
    selector = selector_for(bundle, target, guard=guard, cores=cores)
    if selector.why_kept(shape):
        raise say("shared-cores", bundle=bundle.id[:12], shared=bundle.context.cores_shared)
    calls = calls_on(profile, shape)
    made = rendered(target, application_table(selector, calls, target))
    notes = [
        *_carried_over(profile, shape),
        *(
            f"communicators of {counted(n, 'process', 'es')} are left to the library, because "
            "the layout of some is unknown"
            for n in calls.left_out
        ),
    ]
    made = replace(made, written=replace(made.written, notes=(*made.written.notes, *notes)))
    return Packed(profile, bundle, made, outlook(profile, selector))


def _carried_over(profile: Profile, shape: Shape) -> Iterator[str]:
    worlds = sorted({job.shape for job in profile.jobs if job.shape is not None})
    if shape not in worlds:
        known = ", ".join(map(str, worlds)) or "unknown shapes"
        yield (
            f"the application was not recorded on {shape} but on {known}: its communicators "
            "are scaled, and the savings are those on the recorded shape"
        )


class PackedChoice(NamedTuple):
    """What is not left to the library."""

    collective: Collective
    nprocs: int
    """processes of the communicator"""
    shape: Shape | None
    """its shape; null: any"""
    first_bytes: int
    last_bytes: int | None
    configuration: Configuration


class SavedShare(NamedTuple):
    """Share of the run that is expected to be saved."""

    expected: float
    """the share that is expected"""
    least: float
    """the least"""
    most: float
    """the most"""


@dataclass(frozen=True)
class PackManifest:
    """What a packed folder holds, and what it was made from."""

    format: str = field(default=FORMAT, kw_only=True)
    """colltune-pack"""
    version: int = field(default=FORMAT_VERSION, kw_only=True)
    """of this document"""
    written: WrittenConfiguration = field(metadata=UNPRINTED)
    bundle: str
    """id of the bundle"""
    profile: str
    """SHA-256 of what the profile says"""
    programs: tuple[str, ...]
    """names of the programs"""
    promise: str
    library: str
    """MPI library"""
    release: str
    """its release"""
    shape: Shape
    """shape of the job"""
    configuration_format: str
    """format of the file"""
    files: tuple[str, ...]
    """names of the files within the folder"""
    environment: Mapping[str, str]
    """variables that put them into effect"""
    start_line: str
    """how to start the job instead"""
    chosen: tuple[PackedChoice, ...]
    """what is not left to the library"""
    saving: SavedShare
    """share of the run that it is expected to save"""
    unknown: float
    """share of the time in collectives of which nothing is known"""
    notes: tuple[str, ...]
    """what could not be written"""

    @property
    def expected(self) -> str:
        """What share of the run is expected to be saved, in words."""
        expected, least, most = self.saving
        return (
            f"expected to save {expected:.1%} of the run ({least:.1%} .. {most:.1%}); unknown "
            f"for {self.unknown:.1%} of the time in collectives"
        )


@dataclass(frozen=True)
class Packed:
    """The configuration of one application, and what it is expected to save."""

    profile: Profile
    bundle: Bundle
    made: Rendered
    outlook: Outlook

    def write(self, folder: Path, interposed: Path | None, notes: tuple[str, ...]) -> PackManifest:
        """Write the folder's files; the configuration first, what names it last."""
        written = write_rendered(self.made, folder / self.made.target.form.name, interposed, notes)
        manifest = self._manifest(written)
        write_text(folder / SCRIPT, f"# source this file in the job\n{written.job_line}\n")
        write_text(folder / _README, _readme(folder.absolute(), manifest))
        write_text(folder / _MANIFEST, f"{encoded(manifest, indent=2)}\n")
        return manifest

    def _manifest(self, written: WrittenConfiguration) -> PackManifest:
        profile, table, parameters = self.profile, written.table, written.parameter_path
        files = [*self.made.names(written.rules_path.name).values()]
        files += [parameters.name] if parameters else []
        saving = (s / max(profile.process_s, 1e-300) for s in self.outlook.saving)
        return PackManifest(
            written,
            *(self.bundle.id, profile.digest, profile.programs, str(written.programs)),
            library=table.library,
            release=written.written.release,
            shape=table.shape,
            configuration_format=written.written.format,
            files=(*files, SCRIPT),
            environment=written.environment,
            start_line=written.start_line,
            chosen=tuple(_chosen(table)),
            saving=SavedShare(*saving),
            unknown=self.outlook.unknown_s / max(profile.collectives_s, 1e-300),
            notes=written.written.notes,
        )


def _chosen(table: DecisionTable) -> Iterator[PackedChoice]:
    """Yield the decisions without those left to the library."""
    keyed: list[tuple[tuple[Collective, int, Shape | None], Intervals]]
    keyed = [((*key, None), found) for key, found in table.rules.items()]
    keyed += [((c, s.nprocs, s), found) for (c, s), found in table.by_layout.items()]
    for where, intervals in keyed:
        for one in intervals:
            if not one.configuration.is_default:
                yield PackedChoice(*where, one.first_bytes, one.last_bytes, one.configuration)


def _readme(folder: Path, found: PackManifest) -> str:
    lines = [
        f"MPI collectives tuned for {', '.join(found.programs)},",
        f"{found.library} {found.release}, {found.shape} (nodes x processes per node).",
        "",
        "In the job, before mpirun or srun:",
        "",
        f"    . {folder / SCRIPT}",
        "",
        "or start it with:",
        "",
        f"    {found.start_line}",
        "",
        f"It is {found.expected}.",
        "Calls that the profile does not contain are left to the library.",
        "The paths are absolute: do not move the folder, but pack again elsewhere.",
        f"{_MANIFEST} says what it was made from.",
        *(f"Note: {note}." for note in found.notes),
    ]
    return "\n".join(lines) + "\n"
