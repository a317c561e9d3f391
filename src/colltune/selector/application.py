"""Decisions for one application alone: for the calls that its profile knows, and nothing else.

A communicator size of a rules file stands for all communicators of that size. Here it stands for
those that the application makes, in the layouts in which it makes them, so that a configuration
need only be fast there; a size whose layouts are not all known is left to the library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from colltune.dataset.profile import Kind, Profile
from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Target, table_for
from colltune.selector.decision_table import Intervals, Layouts, decision_table, merged

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


def _carried(kind: Kind, known: Shape, shape: Shape) -> Shape | None:
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
    """Return the decisions for `calls` alone; everything else is left to the library.

    A format that holds one choice per collective, or takes a collective as a whole, gets the
    decisions of `table_for` on the collectives that are called.
    """
    known = set(selector.bundle.collectives)
    collectives = tuple(sorted(c for c in calls.layouts if c in known and calls.layouts[c]))
    if (
        target.form.single_algorithm
        or not target.form.allows_partial_collective
        or calls.shape.nprocs == 1
    ):
        return table_for(selector, calls.shape, target, collectives=collectives)
    table = DecisionTable(selector.bundle.context.library, calls.shape, {})
    single = target.mpi.one_rule(target.release)
    for collective in collectives:
        found = decision_table(
            selector,
            calls.shape,
            [collective],
            single_rule=single,
            comm_layouts=calls.layouts[collective],
            by_layout=target.form.knows_layout,
        )
        table.rules.update(found.rules)
        table.by_layout.update(found.by_layout)
    return _only_called(table, calls, single)


def _only_called(table: DecisionTable, calls: Calls, single: Iterable[Collective]) -> DecisionTable:
    """Leave all other message sizes to the library, except where all sizes have one rule."""
    whole = set(single)

    def kept(at: tuple[Collective, int], intervals: Intervals) -> Intervals:
        if at[0] in whole:
            return intervals
        default = Configuration.default(table.library, at[0])
        return within(intervals, calls.ranges.get(at, ()), default)

    return replace(
        table,
        rules={at: kept(at, found) for at, found in table.rules.items()},
        by_layout={at: kept((at[0], at[1].nprocs), found) for at, found in table.by_layout.items()},
    )


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
