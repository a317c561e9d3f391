"""Simulated campaigns and what their decisions are worth."""

from __future__ import annotations

import math
from itertools import product

import pytest

from colltune.bench.backends.replay import ReplayBackend
from colltune.bench.strategies import STRATEGIES
from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.errors import DataError
from figures.campaigns import Curve, Point, Reference, Trial, curve, exhaustive_s, simulate

BCAST = Collective.BCAST


def _recorded(nodes: tuple[int, ...] = (2, 4, 6, 8, 16)) -> PerformanceDataset:
    """Return a machine where trees are best for small messages and pipelines for large ones."""
    found = []
    for n, p, msize in product(nodes, (1, 4), [8**k for k in range(8)]):
        nprocs = n * p
        tree_s = math.log2(2 * nprocs) * (2e-6 + msize / 1e9)
        pipeline_s = nprocs * 2e-6 + 1.5 * msize / 1e9
        times_s = {"default": 1.2 * tree_s, "tree": tree_s, "pipeline": pipeline_s}
        instance = Instance(BCAST, Shape(n, p), msize)
        for name, time_s in times_s.items():
            configuration = Configuration("openmpi", BCAST, name)
            found.append(Measurement(instance, configuration, "l", times_s=(time_s,)))
    return PerformanceDataset.of(Context("m", "openmpi", "5"), found)


def _trial() -> Trial:
    return Trial.of(_recorded(), (2, 4, 8, 16), (6,), learner="knn")


def test_costs_are_launches_and_repetitions() -> None:
    """After every launch the cost is what its start and its repetitions took, all added up."""
    trial = _trial()
    backend = ReplayBackend(trial.train, 2.0)
    reached = list(
        simulate(STRATEGIES["latin_hypercube"], backend, trial.cells, 30.0, granted=trial.granted)
    )
    assert len(reached) > 1
    for launches, r in enumerate(reached, start=1):
        timed_s = sum(math.fsum(m.times_s) for m in r.measurements)
        assert r.cost_s == pytest.approx(2.0 * launches + timed_s)


def test_test_nodes_are_never_seen() -> None:
    """A simulated campaign's cells are those of the training nodes alone."""
    assert {cell.instance.shape.nodes for cell in _trial().cells} == {2, 4, 8, 16}


def test_exhaustive_costs_count_every_cell_and_launch() -> None:
    """Half a second at most for each cell, and 2 s for each shape's launch."""
    trial = _trial()
    times_s = [m.summary.time_s for m in trial.train.measurements() if m.summary]
    timed_s = sum(min(500 * t, 0.5) for t in times_s)
    assert exhaustive_s(trial, shared_launches=True) == pytest.approx(timed_s + 2.0)
    assert exhaustive_s(trial, shared_launches=False) == pytest.approx(timed_s + 8 * 2.0)


def test_gains_lie_between_default_and_oracle() -> None:
    """Nothing measured gains nothing; the full grid gains much of what the oracle does."""
    trial = _trial()
    assert trial.gained(()) == {BCAST: 0.0}
    assert 0.6 * trial.possible[BCAST] < trial.full[BCAST] <= trial.possible[BCAST]
    assert trial.gained(trial.train.measurements()) == pytest.approx(trial.full)


def test_a_split_without_test_instances_is_refused() -> None:
    """Asking for node counts that were not recorded names them."""
    with pytest.raises(DataError, match=r"on nodes 5"):
        Trial.of(_recorded(), (2, 4), (5,), learner="knn")


def _curve(*captured: tuple[float, float]) -> Curve:
    points = tuple(Point(cost, {BCAST: 10 * share}) for cost, share in captured)
    return Curve("x", 0, points, Reference({BCAST: 10.0}, {BCAST: 12.0}, {BCAST: 5}))


def test_the_cost_at_a_share_is_the_one_from_which_on_it_is_kept() -> None:
    """A curve that falls below the share again has not reached it before."""
    assert _curve((0.1, 0.5), (0.2, 0.96), (0.3, 0.9), (0.4, 0.97)).cost_at(0.95) == 0.4
    assert _curve((0.1, 0.5), (0.2, 0.96), (0.3, 0.95)).cost_at(0.95) == 0.2
    assert _curve((0.1, 0.96), (0.2, 0.5)).cost_at(0.95) == math.inf


def test_where_the_full_grid_gains_nothing_there_is_no_share_of_it() -> None:
    """It is no number, and reached at no cost."""
    nothing = Curve("x", 0, (Point(0.1, {BCAST: 0.0}),), Reference({BCAST: 0.0}, {}, {BCAST: 5}))
    assert math.isnan(nothing.together(nothing.points[0]))
    assert nothing.cost_at(0.5, nothing.together) == math.inf


def test_curves_end_where_they_are_told_to() -> None:
    """Costs ascend, up to `most` of the exhaustive campaign; early points are the same."""
    for name in STRATEGIES:
        long = curve([_trial()], name, 0, shared_launches=True)
        short = curve([_trial()], name, 0, shared_launches=True, most=0.1)
        costs = [point.cost for point in long.points]
        assert 0 < costs[0] <= max(costs) == costs[-1] <= 1.01
        assert short.points[-1].cost < 0.13 < costs[-1]
        assert name != "full_grid" or short.points == long.points[: len(short.points)]
