"""Decision tables that several tests use."""

from __future__ import annotations

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape


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
