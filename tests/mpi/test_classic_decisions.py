"""What the library decides with a file, and that it is what the table said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi import library
from colltune.mpi.file_format import Call
from colltune.mpi.formats import FORMATS

OPENMPI = library("openmpi")
CLASSIC = FORMATS["openmpi-classic"]
ENTRIES = "1 7 3  3 1 0 3 0 0  5 1 0 5 0 0  7 2 0 7 0 0 1024 8 0 0"


def test_the_last_entry_that_is_not_larger_counts(subtests: pytest.Subtests) -> None:
    """Smaller communicators get the first entry; thresholds are inclusive lower bounds."""
    for comm_size, msize_bytes, algorithm in (
        (1, 0, 0),
        (2, 0, 3),
        (4, 9, 3),
        (5, 9, 5),
        (6, 9, 5),
        (7, 1023, 7),
        (9, 1024, 8),
    ):
        with subtests.test(comm_size=comm_size, msize_bytes=msize_bytes):
            rules = CLASSIC.parse(ENTRIES, "rules", "5.0.11")
            chosen = rules.decide(Call(Collective.BCAST, comm_size, msize_bytes)).chosen
            assert chosen == OPENMPI.at("5.0.11").canonical(
                OPENMPI.at("5.0.11").space.numbered(Collective.BCAST, algorithm)
            )


def test_each_collective_has_its_own_unit(subtests: pytest.Subtests) -> None:
    """On 4 processes a threshold of 1024 is 256 per block where the library multiplies by n."""
    for collective_id, collective, last_of_first in (
        (7, "bcast", 1023),
        (2, "allreduce", 1023),
        (12, "reduce_scatter", 1023),
        (3, "alltoall", 255),
        (0, "allgather", 255),
        (13, "reduce_scatter_block", 255),
    ):
        with subtests.test(collective_id=collective_id, collective=collective):
            text = f"1 {collective_id} 1 0 2 0 1 0 0 1024 2 0 0"
            rules = CLASSIC.parse(text, "rules", "5.0.11")
            found = [
                rules.decide(Call(Collective(collective), 4, size)).chosen.algorithm
                for size in (last_of_first, last_of_first + 1)
            ]
            named = [
                OPENMPI.at("5.0.11").space.numbered(Collective(collective), n).algorithm
                for n in (1, 2)
            ]
            assert found == named


@st.composite
def decision_tables(draw: st.DrawFn) -> DecisionTable:
    """Draw a table over a few collectives, communicator sizes and thresholds."""
    nodes, ppn = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    rules = {}
    for collective in draw(st.sets(st.sampled_from(Collective), max_size=4)):
        pool = OPENMPI.at("5.0.11").portfolio(collective, (0, 512, 4096), (2, 8)).configurations
        for comm_size in draw(st.sets(st.integers(2, 9), max_size=3)):
            starts = [0, *sorted(draw(st.sets(st.integers(1, 20000), max_size=4)))]
            ends = [start - 1 for start in starts[1:]] + [None]
            rules[collective, comm_size] = tuple(
                Interval(first, last, draw(st.sampled_from(pool)))
                for first, last in zip(starts, ends, strict=True)
            )
    return DecisionTable("openmpi", Shape(nodes, ppn), rules)


def allowed(
    intervals: tuple[Interval, ...], comm_size: int, msize_bytes: int, builtin: bool
) -> Configuration:
    """Return what must run: the table's choice where that is safe, else the default."""
    at = next(
        i for i in intervals if i.last_bytes is None or i.first_bytes <= msize_bytes <= i.last_bytes
    )
    configuration = at.configuration
    fits = OPENMPI.at("5.0.11").safe(
        configuration, builtin_operations_only=builtin, nprocs=comm_size
    ) and OPENMPI.at("5.0.11").feasible(configuration, comm_size, msize_bytes, element_bytes=8)
    default = Configuration.default("openmpi", configuration.collective)
    return configuration if fits else default


ONE_RULE = {"allgatherv", "alltoallv", "barrier", "exscan", "gather", "scan", "scatter"}


@settings(max_examples=50, deadline=None)
@given(decision_tables(), st.sampled_from(["4.1.4", "5.0.11"]), st.booleans())
def test_a_written_table_decides_as_the_table_wherever_that_is_safe(
    table: DecisionTable, release: str, builtin: bool
) -> None:
    """Read back and simulated, the file gives the table's choice, or the default."""
    written = CLASSIC.write(table, release, builtin_operations_only=builtin)
    rules = CLASSIC.parse(written.text, "rules", release)
    for collective in Collective:
        for comm_size in range(2, 12):
            intervals = table.rules.get((collective, comm_size))
            edges = {i.first_bytes for i in intervals or ()} | {0, 71, 511, 9 * 4096, 10**6}
            for msize in {m for edge in edges for m in (edge, max(0, edge - 1), edge + 1)}:
                chosen = rules.decide(Call(collective, comm_size, msize)).chosen
                if intervals is None:
                    assert chosen.is_default
                    continue
                if collective.value in ONE_RULE:
                    choices = {
                        allowed(intervals, comm_size, i.first_bytes, builtin) for i in intervals
                    }
                    wanted = (
                        choices.pop()
                        if len(choices) == 1
                        else Configuration.default("openmpi", collective)
                    )
                else:
                    wanted = allowed(intervals, comm_size, msize, builtin)
                assert chosen == wanted
