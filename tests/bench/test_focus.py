"""Weights of instances, by a profile or by hand."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from colltune.bench.backends.replay import ReplayBackend
from colltune.bench.campaign import Campaign
from colltune.bench.launch_costs import LaunchCosts
from colltune.bench.rehearsal import rehearse
from colltune.bench.schedule import Cell, survey
from colltune.bench.weights import Focus, SizeWeight, Spent, weighed
from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape

BCAST, ALLREDUCE = Collective.BCAST, Collective.ALLREDUCE
SHAPE = Shape(2, 2)
SIZES = (8, 4096, 65536)
INSTANCES = [Instance(c, SHAPE, size) for c in (BCAST, ALLREDUCE) for size in SIZES]
SMALL = SizeWeight(ALLREDUCE, 0, 4096, 5.0)


def test_weights_by_hand_have_the_mean_1() -> None:
    """What is named counts as much more than the rest as its weight says."""
    weights = weighed(INSTANCES, None, [SMALL])
    assert weights == pytest.approx([6 / 14] * 3 + [30 / 14] * 2 + [6 / 14])


def test_bounds_are_included_and_an_end_may_be_open() -> None:
    """A range holds both its ends, 0 among them, and without an upper end all that is larger."""
    assert SMALL.holds(4096)
    assert not SMALL.holds(4097)
    assert not SizeWeight(BCAST, 0, 0, 2.0).holds(1)
    assert SizeWeight(BCAST, 1, None, 2.0).holds(1 << 40)


def test_a_profiles_weights_are_multiplied() -> None:
    """Both count: what the application uses, and what the user says of it."""
    focus = Focus((SHAPE,), (Spent(ALLREDUCE, SHAPE, 8, 0.9), Spent(BCAST, SHAPE, 8, 0.3)), 1.0)
    alone = weighed(INSTANCES, focus, ())
    assert alone == focus.weights(INSTANCES)
    both = weighed(INSTANCES, focus, [SMALL])
    assert both[3] / both[0] == pytest.approx(5 * alone[3] / alone[0])


def test_without_any_all_count_alike() -> None:
    """No weights are given where there is neither a profile nor a weight."""
    assert weighed(INSTANCES, None, ()) == ()


def test_what_counts_more_comes_first_in_each_round() -> None:
    """A survey visits the cells above the mean weight before the others, still in random order."""
    cells = [
        Cell(Configuration("openmpi", i.collective, name), i)
        for i in INSTANCES
        for name in ("default", "a", "b")
    ]
    weights = weighed([cell.instance for cell in cells], None, [SMALL])
    steps = survey(cells, range(18), 10.0, 1.0, random.Random(0), lambda cell: weights[cell])
    heavy = [weights[step.cell] > 1 for step in steps]
    assert heavy == ([True] * 6 + [False] * 12) * 2
    assert [step.cell for step in steps[:6]] != sorted(step.cell for step in steps[:6])


@pytest.mark.parametrize("strategy", ["full_grid", "latin_hypercube"])
def test_with_little_time_the_heavy_ones_are_measured(strategy: str) -> None:
    """Of a budget that is too small most is spent on what counts more."""
    cells = [
        Cell(Configuration("openmpi", i.collective, name), Instance(i.collective, shape, 8))
        for i in (INSTANCES[0], INSTANCES[3])
        for shape in (Shape(2, 2), Shape(4, 2), Shape(8, 2))
        for name in ("default", "a", "b", "c")
    ]
    recorded = [Measurement(c.instance, c.configuration, "l", times_s=(0.2,)) for c in cells]
    data = PerformanceDataset.of(Context("m", "openmpi", "5.0.11"), recorded)
    campaign = Campaign(
        (BCAST, ALLREDUCE),
        (8,),
        machine="m",
        nodes=(2, 4, 8),
        ppn=(2,),
        total_s=4.5,
        strategy=strategy,
        weights=(SizeWeight(ALLREDUCE, 0, None, 10.0),),
    )
    found = rehearse(campaign, ReplayBackend(data), lambda _cell: 0.2, costs=LaunchCosts(0.1))
    left_out = {*found.left_out, *found.skipped}
    measured = Counter(c.instance.collective for c in cells if c not in left_out)
    assert measured[ALLREDUCE] > 1.5 * measured[BCAST]
