"""Campaigns narrowed down to what an application uses."""

from __future__ import annotations

import random

import pytest

from colltune.bench.campaign import Campaign, focused
from colltune.bench.schedule import Cell, refine
from colltune.bench.strategies import STRATEGIES, CampaignState
from colltune.bench.weights import LEAST, MOST
from colltune.dataset.profile import Profile, added_up, parse_profile
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import CampaignError
from tests.dataset.profiles import profile_text, row
from tests.refusals import refused

CAMPAIGN = Campaign(
    collectives=(Collective.BCAST, Collective.ALLREDUCE, Collective.ALLTOALL),
    msizes_bytes=(1, 64, 4096, 65536, 1 << 20),
    nodes=(2, 4, 8),
    ppn=(4,),
)


def profile(*rows: str) -> Profile:
    """Return the profile of one run with these rows."""
    job, uses = parse_profile(profile_text(rows), "job.profile")
    return added_up([job], uses)


def test_only_what_is_used_is_measured() -> None:
    """Collectives, sizes and shapes are the application's, its sizes added to those between."""
    found = focused(
        CAMPAIGN,
        profile(
            row("bcast", "8x4", 512, 90, 1e-3, msize=1000),
            row("bcast", "8x4", 8192, 5, 1e-3, msize=10000),
            row("allreduce", "8x1", 8, 5, 1e-3),
            row("barrier", "8x4", 0, 1000, 1e-3),
        ),
    )
    assert found.collectives == (Collective.ALLREDUCE, Collective.BCAST)
    assert found.msizes_of(Collective.BCAST) == (64, 1000, 4096, 10000, 65536)
    assert found.msizes_of(Collective.ALLREDUCE) == (1, 8, 64)
    assert found.shapes == (Shape(8, 4), Shape(8, 1))
    assert found.focus is not None
    assert found.focus.covered == pytest.approx((95 * 32 + 5 * 8) / (1095 * 32 + 5 * 8))
    assert found.identity != CAMPAIGN.identity


def test_weights_go_by_time() -> None:
    """An instance's weight is its share of the time, within bounds; others get the least."""
    found = focused(
        CAMPAIGN,
        profile(row("bcast", "8x4", 512, 90, 1e-3, msize=1000), row("bcast", "8x4", 64, 30, 1e-3)),
    )
    assert found.focus is not None
    sizes = (1000, 64, 4096)
    asked = [Instance(Collective.BCAST, Shape(8, 4), size) for size in sizes]
    assert found.focus.weights(asked) == (1.5, 0.5, LEAST)
    assert LEAST < 1 < MOST


def test_shapes_that_cannot_be_measured_lean_on_their_neighbours() -> None:
    """A communicator beyond the campaign's shapes is told by the two nearest of its kind."""
    found = focused(CAMPAIGN, profile(row("bcast", "16x4", 8, 10, 1e-3)))
    assert found.shapes == (Shape(8, 4), Shape(4, 4))
    with refused("application-not-covered", CampaignError, called="bcast"):
        focused(CAMPAIGN, profile(row("bcast", "1x16", 8, 10, 1e-3)))


def test_nothing_in_common_is_refused() -> None:
    """A campaign of other collectives, or a layout that is not known, measures nothing."""
    for line in (row("scan", "8x4", 8, 10, 1e-3), row("bcast", "-", 8, 10, 1e-3, size=32)):
        with refused("application-not-covered", CampaignError):
            focused(CAMPAIGN, profile(line))


CELLS = tuple(
    Cell(Configuration("openmpi", Collective.BCAST, name), Instance(Collective.BCAST, shape, m))
    for shape in (Shape(2, 2), Shape(4, 2))
    for m in (8, 4096)
    for name in ("default", "binomial")
)


def state(weights: tuple[float, ...], *, known: bool, granted: Shape | None) -> CampaignState:
    """Return a campaign under way, all cells as fast as each other."""
    times_s = dict.fromkeys(range(len(CELLS)), (0.001,)) if known else {}
    return CampaignState(
        CELLS,
        times_s,
        frozenset(),
        (),
        left_s=100.0,
        launch_s=0.1,
        max_reps=1000,
        cell_s=1.0,
        granted=granted,
        weights=weights,
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_spends_more_on_more_weight(name: str) -> None:
    """Heavier instances come first, or get more repetitions, whatever the strategy."""
    heavy = 3, 2  # cells of the second size on the first shape
    weights = tuple(9.0 if i in heavy else 0.1 for i in range(len(CELLS)))
    visit = STRATEGIES[name](
        state(weights, known=name == "full_grid", granted=Shape(4, 2)), random.Random(0)
    )
    assert visit is not None
    first = visit.steps[: len(visit.steps) if name == "full_grid" else 2]
    spent = dict.fromkeys(range(len(CELLS)), 0.0)
    for step in first:
        spent[step.cell] += step.max_seconds
    others = [s for cell, s in spent.items() if cell not in heavy]
    assert min(spent[cell] for cell in heavy) > max(others)


def test_launches_share_the_time_by_weight() -> None:
    """Where each shape needs a launch, the one that matters more gets more of the time."""
    budgets = []
    for weights in ((), (9.0,) * 4 + (1.0,) * 4):
        visit = STRATEGIES["full_grid"](state(weights, known=True, granted=None), random.Random(0))
        assert visit is not None
        budgets.append(visit.budget_s)
    assert budgets == pytest.approx([25.0, 45.0])


def test_equal_weights_change_nothing() -> None:
    """Refining by equal weights is refining without."""
    times_s = {i: 1e-3 * (1 + i % 2) for i in range(len(CELLS))}
    plain = refine(CELLS, times_s, 10.0, 100, random.Random(1))
    equal = refine(CELLS, times_s, 10.0, 100, random.Random(1), lambda _cell: 2.0)
    assert plain == equal
