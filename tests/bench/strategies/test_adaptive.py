"""What the adaptive schedule does and leaves out."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np

from colltune.bench.schedule import Cell
from colltune.bench.strategies import State, Visit, Visited
from colltune.bench.strategies.acquisition import SurrogateState
from colltune.bench.strategies.adaptive import adaptive
from colltune.domain import Collective, Configuration, Instance, Shape

NODES, PPN, MSIZES = (2, 4, 6, 8, 16), (1, 4), tuple(16**k for k in range(6))
GRANTED = Shape(16, 4)


def _cell(name: str, shape: Shape, msize: int) -> Cell:
    configuration = Configuration("openmpi", Collective.BCAST, name)
    return Cell(configuration, Instance(Collective.BCAST, shape, msize))


CELLS = tuple(
    _cell(name, Shape(n, p), m)
    for n, p, m in product(NODES, PPN, MSIZES)
    for name in ("default", "tree", "chain")
)


def _time_s(cell: Cell) -> float:
    """Seconds of a cell; the chain is 50 times slower, the tree twice as fast as the default."""
    slowness = {"default": 2.0, "tree": 1.0, "chain": 50.0}[cell.configuration.algorithm]
    shape, msize = cell.instance.shape, cell.instance.msize_bytes
    return slowness * (2e-6 * float(np.log2(2 * shape.nprocs)) + msize / 1e9)


def _state(measured: list[int], granted: Shape | None = GRANTED, reps: int = 3) -> State:
    times = {i: (_time_s(CELLS[i]),) * reps for i in measured}
    history = (Visited("adaptive", GRANTED, 3.0),) if measured else ()
    return State(CELLS, times, frozenset(), history, 1000.0, 2.0, 100, 0.5, granted)


def _visit(state: State) -> Visit:
    visit = adaptive(state, random.Random(0))
    assert visit is not None
    return visit


def _where(*, shapes: set[Shape] | None = None, most_bytes: int = 1 << 30) -> list[int]:
    return [
        i
        for i, c in enumerate(CELLS)
        if (shapes is None or c.instance.shape in shapes) and c.instance.msize_bytes <= most_bytes
    ]


def test_begins_at_the_corners_and_off_the_powers_of_two() -> None:
    """The first launch spans nodes and ppn and holds a node count that is no power of two."""
    shapes = {CELLS[s.cell].instance.shape for s in _visit(_state([])).steps}
    assert {Shape(2, 1), Shape(2, 4), Shape(16, 1), Shape(16, 4)} < shapes
    assert 6 in {shape.nodes for shape in shapes}


def test_what_counts_more_comes_first() -> None:
    """A launch that is cut short has visited the instances of more weight."""
    weights = tuple(10.0 if c.instance.msize_bytes > 4096 else 0.1 for c in CELLS)
    heavy = [weights[s.cell] > 1 for s in _visit(replace(_state([]), weights=weights)).steps]
    assert any(heavy)
    assert heavy == sorted(heavy, reverse=True)


def test_the_first_launch_is_short() -> None:
    """While nothing is known of its cells' times a launch is bounded by a part of its start."""
    assert _visit(_state([])).budget_s <= 2 * (2.0 + 0.5)


def test_a_launch_that_brought_nothing_is_followed_by_a_longer_one() -> None:
    """Where starting takes longer than it is said to, the time for it grows until it suffices."""
    budget_s = _visit(_state([])).budget_s
    failed = replace(_state([]), history=(Visited("adaptive", GRANTED, budget_s),))
    assert _visit(failed).budget_s >= 1.9 * budget_s


def test_a_first_visit_holds_all_configurations() -> None:
    """Learners must see what is slow: an instance's first visit leaves none out."""
    steps = _visit(_state(_where(shapes={Shape(2, 1), Shape(16, 4)}))).steps
    visited: dict[Instance, set[str]] = {}
    for step in steps:
        cell = CELLS[step.cell]
        visited.setdefault(cell.instance, set()).add(cell.configuration.algorithm)
    fresh = [v for i, v in visited.items() if i.shape not in (Shape(2, 1), Shape(16, 4))]
    assert fresh
    assert all(algorithms == {"default", "tree", "chain"} for algorithms in fresh)


def test_a_hopeless_configuration_is_left_out_of_larger_messages() -> None:
    """What was far slower up to some size is not measured beyond, the others are."""
    known = SurrogateState.of(
        _state(_where(most_bytes=16**4)), Collective.BCAST, np.random.default_rng(0)
    )
    names = [c.algorithm for c in known.configurations]
    largest = known.numbers[:, 2] == MSIZES[-1]
    assert not known.wanted[largest][:, names.index("chain")].any()
    assert known.wanted[largest][:, names.index("tree")].all()
    assert known.wanted[~largest].all()


def test_slow_ones_are_not_repeated_but_the_default_is() -> None:
    """Once all is measured, more repetitions go to what may be best and to the default."""
    known = SurrogateState.of(_state(_where(), reps=1), Collective.BCAST, np.random.default_rng(0))
    names = [c.algorithm for c in known.configurations]
    assert not known.contends[:, names.index("chain")].any()
    assert known.contends[:, names.index("default")].all()
    assert known.contends[:, names.index("tree")].all()


def test_ends_when_decisions_are_certain() -> None:
    """With everything measured many times nothing is worth another launch."""
    assert adaptive(_state(_where(), reps=60), random.Random(0)) is None


def test_without_a_grant_every_launch_has_one_shape_and_seeds_come_first() -> None:
    """One launch per shape: the corners one after the other, then what is worth most."""
    seen: list[Shape] = []
    for _ in range(6):
        state = _state(_where(shapes=set(seen)), granted=None)
        seen.append(_visit(state).shape)
    assert {Shape(2, 1), Shape(2, 4), Shape(16, 1), Shape(16, 4)} <= set(seen)
    assert len(set(seen)) == 6


def test_predicted_times_follow_the_measured_ones() -> None:
    """The cost of what is not yet measured is predicted from its neighbours, within 60 %."""
    known = SurrogateState.of(
        _state(_where(shapes={Shape(4, 1), Shape(8, 1), Shape(4, 4), Shape(8, 4)})),
        Collective.BCAST,
        np.random.default_rng(0),
    )
    truth = np.array([[_time_s(CELLS[i]) for i in row] for row in known.cell])
    ratio = np.log(known.time_s / truth)[known.numbers[:, 0] == 6]
    assert np.abs(ratio).max() < np.log(1.6)
