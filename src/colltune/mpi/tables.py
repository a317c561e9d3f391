"""Decision tables out of configuration files, and when two of them say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Call, ParsedFile
from colltune.mpi.layouts import even_layouts

Intervals = tuple[Interval, ...]


def table_of(parsed: ParsedFile, library: str, job: Shape) -> DecisionTable:
    """Return what the rules of `parsed` say for the communicators of a job, as a decision table.

    Of the communicator sizes that the file names and the job can have, those for which a rule
    chooses anything; what holds for fewer than 2 processes stands for 2. It is what the rules
    choose, before fall-backs and other components.
    """
    rules: dict[tuple[Collective, int], Intervals] = {}
    by_layout: dict[tuple[Collective, Shape], Intervals] = {}
    for collective in dict.fromkeys(rule.collective for rule in parsed.rules):
        # no call of a single process is ever decided by a rule
        named = sorted({max(2, size) for size in parsed.comm_sizes(collective)})
        for comm_size in (size for size in named if size <= job.nprocs):
            found = {
                shape: _intervals(parsed, collective, comm_size, shape.nodes, shape == job)
                for shape in even_layouts(comm_size, job)
            }
            if not found:
                nodes = -(-comm_size // job.ppn)
                rules[collective, comm_size] = _intervals(
                    parsed, collective, comm_size, nodes, is_world=False
                )
            elif len(set(found.values())) == 1:
                rules[collective, comm_size] = next(iter(found.values()))
            else:
                by_layout |= {(collective, shape): i for shape, i in found.items()}
    return normal(DecisionTable(library, job, rules, by_layout))


def normal(table: DecisionTable) -> DecisionTable:
    """Return the one table that says the same: without predictions and needless entries.

    Equal neighbours are joined, what is left to the library is left out, and a communicator size is
    told by layout only where its layouts differ.
    """
    rules = {key: _normal(intervals) for key, intervals in table.rules.items()}
    by_layout: dict[tuple[Collective, Shape], Intervals] = {}
    for collective, size in dict.fromkeys((c, s.nprocs) for c, s in table.by_layout):
        everywhere = rules.pop((collective, size), ())
        found = {
            shape: _normal(table.by_layout.get((collective, shape), everywhere))
            for shape in even_layouts(size, table.shape)
        }
        if len(set(found.values())) == 1:
            rules[collective, size] = next(iter(found.values()))
        else:
            by_layout |= {(collective, shape): i for shape, i in found.items()}
    return replace(
        table,
        rules={k: i for k, i in sorted(rules.items()) if _chooses(i)},
        by_layout={k: i for k, i in sorted(by_layout.items()) if _chooses(i)},
    )


def _intervals(
    parsed: ParsedFile, collective: Collective, comm_size: int, nodes: int, is_world: bool
) -> Intervals:
    firsts = parsed.switch_points(collective, comm_size, nodes)
    lasts = [*(first - 1 for first in firsts[1:]), None]
    calls = [Call(collective, comm_size, m, nodes, is_world=is_world) for m in firsts]
    return _normal(
        tuple(
            Interval(call.msize_bytes, last, parsed.decide(call).chosen)
            for call, last in zip(calls, lasts, strict=True)
        )
    )


def _normal(intervals: Intervals) -> Intervals:
    kept: list[Interval] = []
    for interval in intervals:
        if kept and kept[-1].configuration == interval.configuration:
            kept[-1] = replace(kept[-1], last_bytes=interval.last_bytes)
        else:
            kept.append(Interval(interval.first_bytes, interval.last_bytes, interval.configuration))
    return tuple(kept)


def _chooses(intervals: Intervals) -> bool:
    return any(not interval.configuration.is_default for interval in intervals)


def check_intervals(where: str, collective: Collective, intervals: Sequence[Interval]) -> None:
    """Refuse intervals with a gap or of another collective; `where` begins the message."""
    expected: int | None = 0
    for interval in intervals:
        if interval.first_bytes != expected or interval.configuration.collective != collective:
            break
        expected = None if interval.last_bytes is None else interval.last_bytes + 1
        if expected is not None and expected <= interval.first_bytes:
            break
    else:
        if intervals and expected is None:
            return
    raise LibraryError(
        f"{where}: the decision table's intervals must be of this collective, start at 0 bytes,"
        " follow each other and end without bound"
    )


def span(interval: Interval) -> str:
    """Return the message sizes of an interval for people."""
    end = "on" if interval.last_bytes is None else f"to {interval.last_bytes} bytes"
    return f"from {interval.first_bytes} {end}"
