"""Look-ups in a compiled decision table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.selector.compiled import CompiledTable

BCAST = Collective.BCAST
NAMES = ("default", "chain", "binomial", "ring")


@st.composite
def intervals(draw: st.DrawFn) -> tuple[Interval, ...]:
    """Make adjacent intervals from 0 on without end."""
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 10_000), max_size=6)))]
    lasts = [*(first - 1 for first in firsts[1:]), None]
    names = draw(st.lists(st.sampled_from(NAMES), min_size=len(firsts), max_size=len(firsts)))
    return tuple(
        Interval(first, last, Configuration("openmpi", BCAST, name))
        for first, last, name in zip(firsts, lasts, names, strict=True)
    )


@given(intervals(), st.integers(0, 20_000))
def test_a_look_up_is_the_interval_that_holds_the_message(
    found: tuple[Interval, ...], msize_bytes: int
) -> None:
    """For any table and any message the interval around it decides, to the byte."""
    table = DecisionTable("openmpi", Shape(2, 4), {(BCAST, 8): found})
    (expected,) = [
        i.configuration
        for i in found
        if i.first_bytes <= msize_bytes and (i.last_bytes is None or msize_bytes <= i.last_bytes)
    ]
    assert CompiledTable(table).decide(BCAST, 8, msize_bytes) == expected


def test_what_is_not_in_the_table_is_left_to_the_library() -> None:
    """Another communicator size and another collective get the library's own decision."""
    chain = Configuration("openmpi", BCAST, "chain")
    table = DecisionTable("openmpi", Shape(2, 4), {(BCAST, 8): (Interval(0, None, chain),)})
    compiled = CompiledTable(table)
    assert compiled.decide(BCAST, 7, 10) == Configuration.default("openmpi", BCAST)
    reduce = Collective.REDUCE
    assert compiled.decide(reduce, 8, 10) == Configuration.default("openmpi", reduce)


def test_a_layout_goes_before_the_size() -> None:
    """A communicator in a listed layout gets its own decision, in others that of its size."""
    chain, ring = (Configuration("openmpi", BCAST, name) for name in ("chain", "ring"))
    table = DecisionTable(
        "openmpi",
        Shape(4, 4),
        {(BCAST, 4): (Interval(0, None, chain),)},
        {(BCAST, Shape(4, 1)): (Interval(0, None, ring),)},
    )
    compiled = CompiledTable(table)
    assert compiled.decide(BCAST, 4, 1, Shape(4, 1)) == ring
    assert compiled.decide(BCAST, 4, 1, Shape(1, 4)) == chain
    assert compiled.decide(BCAST, 4, 1) == chain
