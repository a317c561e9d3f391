"""Selection trees of MPICH that several tests use."""

from __future__ import annotations

import json

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.formats import FORMATS
from colltune.mpi.rules import Fault, Finding, Rules
from tests.mpi.linting import lint

RELEASES = ("4.0.2", "4.1.3", "4.2.3", "4.3.2", "5.0.2")
FORMAT = FORMATS["mpich-json"]
C = Collective


def steps(*found: tuple[int, str]) -> tuple[Interval, ...]:
    """Return adjacent intervals from (first size, ``bcast.binomial``) pairs."""
    ends = [first - 1 for first, _ in found[1:]] + [None]
    return tuple(
        Interval(first, last, Configuration.parse(f"mpich.{text}"))
        for (first, text), last in zip(found, ends, strict=True)
    )


def job_table(release: str) -> DecisionTable:
    """Return a table with what the writer treats in ways of its own, for 2 nodes of 4."""
    return DecisionTable(
        "mpich",
        Shape(2, 4),
        {
            (C.BCAST, 8): steps(
                (0, "bcast.binomial"),
                (4096, "bcast.scatter_ring_allgather"),
                (1 << 20, "bcast.default"),
            ),
            (C.ALLGATHER, 8): steps((0, "allgather.brucks"), (1025, "allgather.ring")),
            (C.ALLREDUCE, 8): steps(
                (0, "allreduce.recursive_doubling"), (64, "allreduce.reduce_scatter_allgather")
            ),
            (C.ALLTOALL, 8): steps((0, "alltoall.pairwise")),
            (C.REDUCE_SCATTER, 8): steps((0, "reduce_scatter.recursive_halving")),
        },
        {
            (C.BCAST, Shape(1, 4)): steps((0, "bcast.scatter_recursive_doubling_allgather")),
            (C.BCAST, Shape(2, 2)): steps((0, "bcast.scatter_ring_allgather")),
        },
    )


def written(release: str, table: DecisionTable | None = None) -> str:
    """Return the main file of a table."""
    return FORMAT.write(table or job_table(release), release).text


def nothing(release: str) -> str:
    """Return a file in which all is left to the library."""
    return written(release, DecisionTable("mpich", Shape(1, 2), {}))


def parsed(text: str, release: str = "5.0.2") -> Rules:
    """Return what a release makes of a text."""
    return FORMAT.parse(text, "f", release)


def with_bcast(tree: object, release: str = "5.0.2") -> str:
    """Return a complete file with another tree for bcast."""
    whole = json.loads(nothing(release))
    whole["collective=bcast"] = tree
    return json.dumps(whole, indent=1) + "\n"


def leaf(name: str, **parameters: object) -> dict[str, object]:
    """Return a leaf of bcast, or of the function named in full."""
    function = name if name.startswith("MPIR_") else f"MPIR_Bcast_intra_{name}"
    return {f"algorithm={function}": {f"{n}={v}": {} for n, v in parameters.items()}}


INTER = {"comm_type=inter": leaf("MPIR_Bcast_inter_remote_send_local_bcast")}


def matching(found: Rules, fault: Fault, words: str) -> Finding | None:
    """Return the finding of that kind with these words."""
    return next((f for f in lint(found) if f.fault is fault and words in f.message), None)
