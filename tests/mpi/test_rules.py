"""Which entry holds where, against the loops of the library written out; unions of ranges."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from colltune.mpi.rules import Union, scanned

RANGES = st.tuples(st.integers(0, 30), st.integers(0, 30))
SIZES = st.lists(st.integers(0, 6), max_size=6)


def library(sizes: Sequence[int], value: int, *, inherit: bool) -> int | None:
    """Return the entry as ``ompi_coll_tuned_get_com_rule_ptr`` finds it."""
    best = 0 if inherit and sizes else None
    for at, size in enumerate(sizes):
        if size > value:
            break
        best = at
    return best


@given(SIZES, st.booleans())
def test_scanned_entries_hold_where_the_library_takes_them(sizes: list[int], inherit: bool) -> None:
    """Also unsorted ones: a first entry that is too large ends the search, and is inherited."""
    pieces = scanned(sizes, inherit=inherit)
    starts = [piece.first for piece in pieces]
    assert starts == sorted(set(starts))
    for value in range(8):
        held = [p.owner for p in pieces if p.first <= value and (p.last is None or value <= p.last)]
        wanted = library(sizes, value, inherit=inherit)
        assert held == ([] if wanted is None else [wanted])


@given(st.lists(RANGES, max_size=12), RANGES)
def test_a_union_knows_what_was_taken(
    ranges: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    """It covers and meets exactly what the set of all numbers taken does."""
    union, taken = Union(), set()
    for first, last in ranges:
        union.add(first, last)
        taken |= set(range(first, last + 1))
    numbers = set(range(asked[0], asked[1] + 1))
    assert union.covers(*asked) == (numbers <= taken)
    assert union.meets(*asked) == bool(numbers & taken)
