"""The configuration of one application by its profile, and the folder that holds it.

Format history of ``manifest.json``
-----------------------------------
1. ``format`` (``colltune-pack``), ``version``, ``bundle`` and ``profile`` (SHA-256 of what they
   say), ``programs``, ``library``, ``release``, ``shape``, ``configuration_format``, ``files``
   (names within the folder), ``environment``, ``start_line``, ``chosen`` (collective, nprocs or
   shape, first and last byte, configuration), ``saving`` (shares of the run: expected, least,
   most), ``unknown`` (share of the time in collectives) and ``notes``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from colltune.dataset.profile import CallKind, Profile
from colltune.decisions import ENOUGH_CORES, DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError, say
from colltune.files import write_text
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
from colltune.text import counted

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


@dataclass(frozen=True)
class Packed:
    """The configuration of one application, and what it is expected to save."""

    profile: Profile
    bundle: Bundle
    made: Rendered
    outlook: Outlook

    @property
    def table(self) -> DecisionTable:
        return self.made.table

    def write(
        self, folder: Path, interposed: Path | None, notes: tuple[str, ...]
    ) -> WrittenConfiguration:
        """Write the folder's files; the configuration first, what names it last."""
        written = write_rendered(self.made, folder / self.made.target.form.name, interposed, notes)
        write_text(folder / SCRIPT, f"# source this file in the job\n{written.job_line}\n")
        write_text(folder / _README, self._readme(folder.absolute(), written))
        manifest = json.dumps(self.as_dict(written), indent=2, allow_nan=False)
        write_text(folder / _MANIFEST, f"{manifest}\n")
        return written

    def as_dict(self, written: WrittenConfiguration) -> dict[str, Any]:
        main = written.rules_path.name
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "bundle": self.bundle.id,
            "profile": self.profile.digest,
            "programs": list(self.profile.programs),
            "promise": str(written.programs),
            "library": self.table.library,
            "release": written.written.release,
            "shape": str(self.table.shape),
            "configuration_format": written.written.format,
            "files": [
                *self.made.names(main).values(),
                *([written.parameter_path.name] if written.parameter_path else []),
                SCRIPT,
            ],
            "environment": written.environment,
            "start_line": written.start_line,
            "chosen": list(self.chosen()),
            "saving": dict(zip(("expected", "least", "most"), self._saved, strict=True)),
            "unknown": self._unknown,
            "notes": list(written.written.notes),
        }

    @property
    def _saved(self) -> list[float]:
        """Shares of the run: expected, least, most."""
        return [s / max(self.profile.process_s, 1e-300) for s in self.outlook.saving]

    @property
    def _unknown(self) -> float:
        return self.outlook.unknown_s / max(self.profile.collectives_s, 1e-300)

    @property
    def expected(self) -> str:
        """What share of the run is expected to be saved, in words."""
        expected, least, most = self._saved
        return (
            f"expected to save {expected:.1%} of the run ({least:.1%} .. {most:.1%}); unknown "
            f"for {self._unknown:.1%} of the time in collectives"
        )

    def chosen(self) -> Iterator[dict[str, Any]]:
        """Yield the decisions as the manifest has them, without those left to the library."""
        table = self.table
        keyed: list[tuple[Collective, int, str | None, Intervals]]
        keyed = [(c, n, None, i) for (c, n), i in table.rules.items()]
        keyed += [(c, s.nprocs, str(s), i) for (c, s), i in table.by_layout.items()]
        for collective, nprocs, layout, intervals in keyed:
            for interval in intervals:
                if not interval.configuration.is_default:
                    yield {
                        "collective": collective.value,
                        "nprocs": nprocs,
                        "shape": layout,
                        "first_bytes": interval.first_bytes,
                        "last_bytes": interval.last_bytes,
                        "configuration": interval.configuration.id,
                    }

    def _readme(self, folder: Path, written: WrittenConfiguration) -> str:
        lines = [
            f"MPI collectives tuned for {', '.join(self.profile.programs)},",
            f"{self.table.library} {written.written.release}, {self.table.shape}"
            " (nodes x processes per node).",
            "",
            "In the job, before mpirun or srun:",
            "",
            f"    . {folder / SCRIPT}",
            "",
            "or start it with:",
            "",
            f"    {written.start_line}",
            "",
            f"It is {self.expected}.",
            "Calls that the profile does not contain are left to the library.",
            "The paths are absolute: do not move the folder, but pack again elsewhere.",
            f"{_MANIFEST} says what it was made from.",
            *(f"Note: {note}." for note in written.written.notes),
        ]
        return "\n".join(lines) + "\n"
