"""What every entry of STRATEGIES must keep to."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import pytest

from colltune.bench.backends.replay import ReplayBackend, ReplayNoise
from colltune.bench.schedule import Cell
from colltune.bench.strategies import STRATEGIES, CampaignState, Visited
from colltune.dataset import PerformanceDataset
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from figures.campaigns import Reached, simulate

GRANTED = Shape(12, 4)
SHAPES = [Shape(n, p) for n, p in product((2, 4, 7, 12), (1, 4))]
SLOWNESS = {"default": 1.5, "tree": 1.0, "chain": 4.0, "crashes": 1.0}


def _measurements() -> list[Measurement]:
    """Return what a small machine records; one algorithm crashes there."""
    found = []
    for collective, shape, msize in product(
        (Collective.BCAST, Collective.ALLGATHER), SHAPES, (8, 1024, 1 << 20)
    ):
        instance = Instance(collective, shape, msize)
        for name, slowness in SLOWNESS.items():
            configuration = Configuration("openmpi", collective, name)
            latency_s = 2e-6 * (shape.nprocs if name == "chain" else math.log2(shape.nprocs) + 1)
            time_s = slowness * (latency_s + msize / 1e9)
            status = RunStatus.CRASH if name == "crashes" else RunStatus.OK
            times_s = () if status is RunStatus.CRASH else (time_s,)
            found.append(Measurement(instance, configuration, "l", status, times_s))
    return found


RECORD = _measurements()
CELLS = tuple(Cell(m.configuration, m.instance) for m in RECORD)


def _simulated(name: str, granted: Shape | None, total_s: float = 40.0) -> list[Reached]:
    record = PerformanceDataset.of(Context("model", "openmpi", "5.0"), RECORD)
    backend = ReplayBackend(record, 0.5, ReplayNoise(seed=1))
    limits: dict[str, Any] = {"launch_s": 0.5, "max_reps": 20, "cell_s": 0.05}
    found = simulate(STRATEGIES[name], backend, CELLS, total_s, granted=granted, seed=3, **limits)
    return list(found)


def _state(granted: Shape | None, **changes: object) -> CampaignState:
    fields: dict[str, object] = {
        "cells": CELLS,
        "times_s": {},
        "closed": frozenset(),
        "history": (),
        "left_s": 30.0,
        "launch_s": 0.5,
        "max_reps": 20,
        "cell_s": 0.05,
        "granted": granted,
    }
    return CampaignState(**{**fields, **changes})  # type: ignore[arg-type]


BOTH = pytest.mark.parametrize("granted", [GRANTED, None], ids=["granted", "per_shape"])
EACH = pytest.mark.parametrize("name", STRATEGIES)


@EACH
@BOTH
def test_a_visit_is_sound(name: str, granted: Shape | None) -> None:
    """A visit fits into the time left; its cells exist, are open, and fit into its shape."""
    closed = frozenset(i for i, c in enumerate(CELLS) if c.instance.msize_bytes == 1024)
    state = _state(granted, closed=closed)
    visit = STRATEGIES[name](state, random.Random(0))
    assert visit is not None
    assert visit.steps
    assert 0 < visit.budget_s <= state.left_s
    assert not closed & {step.cell for step in visit.steps}
    for step in visit.steps:
        shape = CELLS[step.cell].instance.shape
        assert 1 <= step.max_reps <= state.max_reps
        assert 0 < step.max_seconds <= state.cell_s
        if granted is None:
            assert shape == visit.shape
        else:
            assert visit.shape == granted


@EACH
@BOTH
def test_ends_within_the_time_and_measures_every_shape_with_much_of_it(
    name: str, granted: Shape | None
) -> None:
    """Given plenty of time it measures on all shapes, and then comes to an end."""
    reached = _simulated(name, granted)
    assert reached[-1].cost_s <= 40.0 + 0.05
    timed = [m for m in reached[-1].measurements if m.status is RunStatus.OK]
    assert {m.instance.shape for m in timed} == set(SHAPES)
    assert len(reached) < 80


@EACH
@BOTH
def test_leaves_what_crashed_alone(name: str, granted: Shape | None) -> None:
    """A cell that crashed is not visited a second time."""
    crashed = [
        (m.configuration, m.instance)
        for m in _simulated(name, granted)[-1].measurements
        if m.status is RunStatus.CRASH
    ]
    assert crashed
    assert len(crashed) == len(set(crashed))


@EACH
@BOTH
def test_same_seed_same_schedule(name: str, granted: Shape | None) -> None:
    """The same state and random numbers give the same visit."""
    times = {i: (1e-5 * (i + 1),) for i in range(0, 40, 2)}
    history = (Visited("survey", GRANTED, 1.0),)
    state = _state(granted, times_s=times, history=history)
    first, second = (STRATEGIES[name](state, random.Random(5)) for _ in range(2))
    assert first == second


@EACH
@BOTH
def test_goes_on_from_partial_data(name: str, granted: Shape | None) -> None:
    """With every third cell known, times of any kind, it still finds what to visit."""
    times = {i: (1e-6, 5.0, 1e-5)[: 1 + i // 3 % 3] for i in range(0, len(CELLS), 3)}
    visit = STRATEGIES[name](_state(granted, times_s=times), random.Random(0))
    assert visit is not None
    assert any(step.cell not in times for step in visit.steps)


@EACH
@BOTH
def test_ends_where_nothing_can_be_done(name: str, granted: Shape | None) -> None:
    """It ends when all cells are closed, and when no launch fits into what is left."""
    everything = frozenset(range(len(CELLS)))
    closed = _state(granted, closed=everything)
    assert STRATEGIES[name](closed, random.Random(0)) is None
    late = _state(granted, left_s=0.0)
    assert STRATEGIES[name](late, random.Random(0)) is None
