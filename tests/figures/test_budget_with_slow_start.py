"""What one could measure who knows how long launches take to start."""

from __future__ import annotations

import itertools

import pytest

from colltune.bench.schedule import ENOUGH_REPS, Cell
from colltune.domain import Collective, Configuration, Instance, Shape
from figures.budget_with_slow_start import possible

SIZES = (2, 2, 4, 4, 4, 8)


def _group(number: int, size: int) -> list[Cell]:
    configuration = Configuration("openmpi", Collective.BCAST, f"a{number}")
    instances = (Instance(Collective.BCAST, Shape(1, 2), 1 << k) for k in range(size))
    return [Cell(configuration, instance) for instance in instances]


@pytest.mark.parametrize("total_s", [0.5, 2.0, 2.5, 3.2, 4.4, 9.0])
def test_nobody_gets_more_than_the_possible(total_s: float) -> None:
    """Not by any choice of launches, of which one with few slow cells is no better."""
    groups = [_group(number, size) for number, size in enumerate(SIZES)]
    time_s = {cell: 0.01 * number for number, group in enumerate(groups) for cell in group}
    times_s = {cell: (seconds,) for cell, seconds in time_s.items()}
    best = max(
        sum(map(len, chosen))
        for n in range(len(groups) + 1)
        for chosen in itertools.combinations(groups, n)
        if sum(1.0 + ENOUGH_REPS * sum(time_s[c] for c in group) for group in chosen) <= total_s
    )
    assert possible(groups, times_s, 1.0, total_s) == best
