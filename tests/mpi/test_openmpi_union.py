"""Unions of ranges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from colltune.mpi.openmpi.spans import Union

RANGES = st.tuples(st.integers(0, 30), st.integers(0, 30))


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
