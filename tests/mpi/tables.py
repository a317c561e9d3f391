"""Decision tables that several tests use, out of configuration files, and when two say the same."""

from __future__ import annotations

from dataclasses import replace

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.choosing import even_layouts
from colltune.mpi.rules import Call, Rules


def intervals(*steps: tuple[int, str]) -> tuple[Interval, ...]:
    """Return adjacent intervals from (first size, ``bcast.binomial:segsize=0``) pairs."""
    ends = [first - 1 for first, _ in steps[1:]] + [None]
    return tuple(
        Interval(first, last, Configuration.parse(f"openmpi.{text}"))
        for (first, text), last in zip(steps, ends, strict=True)
    )


def table(shape: Shape, rules: dict[tuple[Collective, int], tuple[Interval, ...]]) -> DecisionTable:
    """Return an Open MPI decision table."""
    return DecisionTable("openmpi", shape, rules)


HYDRA = table(
    Shape(34, 32),
    {
        (Collective.BCAST, 1088): intervals(
            (0, "bcast.binomial:segsize=0"),
            (8192, "bcast.chain:fanout=4,segsize=65536"),
            (1048576, "bcast.default"),
        ),
        (Collective.BCAST, 34): intervals((0, "bcast.scatter_allgather")),
        (Collective.ALLTOALL, 1088): intervals(
            (0, "alltoall.modified_bruck"),
            (256, "alltoall.default"),
            (1024, "alltoall.linear_sync"),
            (4096, "alltoall.linear_sync"),
        ),
        (Collective.ALLREDUCE, 1088): intervals(
            (0, "allreduce.recursive_doubling"),
            (4096, "allreduce.segmented_ring:segsize=4096"),
        ),
        (Collective.GATHER, 1088): intervals((0, "gather.binomial")),
        (Collective.SCATTER, 1088): intervals((0, "scatter.binomial"), (64, "scatter.linear_nb")),
        (Collective.ALLGATHER, 2): intervals((0, "allgather.two_proc")),
        (Collective.ALLGATHER, 3): intervals((0, "allgather.two_proc"), (8, "allgather.ring")),
        (Collective.REDUCE, 1088): intervals((0, "reduce.no_such")),
        (Collective.BARRIER, 1): intervals((0, "barrier.tree")),
    },
)
"""A table with every case that the writer treats in its own way."""


Intervals = tuple[Interval, ...]


def table_of(parsed: Rules, library: str, job: Shape) -> DecisionTable:
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
    parsed: Rules, collective: Collective, comm_size: int, nodes: int, is_world: bool
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
