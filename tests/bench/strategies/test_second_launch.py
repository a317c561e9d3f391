"""What is measured in a second launch, and which time is kept for it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.bench.backends.replay import ReplayBackend, ReplayNoise
from colltune.bench.campaign import Campaign, CampaignPart
from colltune.bench.launch_costs import LaunchCosts
from colltune.bench.progress import CampaignProgress
from colltune.bench.rehearsal import rehearse
from colltune.bench.runner import run_campaign
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.bench.strategies import STRATEGIES, CampaignState, Visit, Visited
from colltune.bench.strategies.second_launch import SECOND_LAUNCH, reserved_s, with_second_launch
from colltune.dataset import PerformanceDataset, read_parquet
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.evidence.launches import MACHINE
from colltune.models.cells import cell_matrices

SHAPES = (Shape(1, 2), Shape(2, 2), Shape(4, 2))
SIZES = (8, 64)
CELLS = tuple(
    Cell(Configuration("openmpi", Collective.BCAST, name), Instance(Collective.BCAST, shape, size))
    for shape in SHAPES
    for size in SIZES
    for name in ("default", "a", "b")
)
STATE = CampaignState(
    cells=CELLS,
    times_s={},
    closed=frozenset(),
    history=(),
    left_s=100.0,
    launch_s=2.0,
    max_reps=100,
    cell_s=0.1,
    granted=None,
    repeated=(Shape(2, 2),),
)
TIMES = dict.fromkeys(range(len(CELLS)), (0.001,) * 10)
ONCE = {index: {"one": times_s} for index, times_s in TIMES.items()}
TWICE = {"one": (0.001,), "two": (0.001,)}
MEASURED = replace(STATE, times_s=TIMES, by_launch=ONCE)
AGAIN = Visited(SECOND_LAUNCH, Shape(2, 2), 3.0)


class _Asked:
    """A strategy that wants a launch, or none, and remembers what time it was told of."""

    def __init__(self, *wanted: bool) -> None:
        self.wanted = list(wanted)
        self.left_s: list[float] = []

    def next(self, state: CampaignState, rng: random.Random) -> Visit | None:
        self.left_s.append(state.left_s)
        return (
            Visit("own", SHAPES[0], (ScheduleStep(0, 1, 1.0),), 1.0) if self.wanted.pop(0) else None
        )


def _next(state: CampaignState, *wanted: bool) -> Visit | None:
    return with_second_launch(_Asked(*wanted).next)(state, random.Random(0))


def test_the_other_strategy_comes_first_and_leaves_the_time() -> None:
    """As long as the other one wants launches it has them, less the time for second launches."""
    asked = _Asked(True)
    visit = with_second_launch(asked.next)(MEASURED, random.Random(0))
    assert visit is not None
    assert visit.what == "own"
    # 6 cells of 20 repetitions of 1 ms, and a start
    assert asked.left_s == [pytest.approx(100.0 - 2.0 - 6 * 0.02)]


def test_then_all_measured_cells_of_the_shape_are_visited() -> None:
    """The second launch holds every open cell of the shape, and no other."""
    visit = _next(replace(MEASURED, closed=frozenset([6])), False)
    assert visit is not None
    assert (visit.what, visit.shape) == (SECOND_LAUNCH, Shape(2, 2))
    assert {step.cell for step in visit.steps} == set(range(7, 12))


def test_inside_one_allocation_a_launch_holds_all_repeated_shapes() -> None:
    """Where launches hold smaller shapes, one launch of the largest repeats all of them."""
    state = replace(MEASURED, granted=Shape(4, 2), repeated=(Shape(2, 2), Shape(1, 2)))
    visit = _next(state, False)
    assert visit is not None
    assert visit.shape == Shape(4, 2)
    assert {step.cell for step in visit.steps} == set(range(12))


def test_what_was_in_two_launches_is_not_repeated() -> None:
    """Two configurations of an instance in two launches tell it already; nothing is reserved."""
    twice = replace(MEASURED, by_launch={**ONCE, 6: TWICE, 7: TWICE})
    assert reserved_s(twice) == 0
    assert _next(twice, False, False) is None
    # of two instances, one configuration each: there is nothing to compare
    apart = replace(MEASURED, by_launch={**ONCE, 6: TWICE, 9: TWICE})
    assert _next(apart, False) is not None


def test_a_second_launch_is_tried_twice_at_most() -> None:
    """One that was cut short, or killed, is made once more, and then the campaign ends."""
    assert _next(replace(MEASURED, history=(AGAIN,)), False) is not None
    assert _next(replace(MEASURED, history=(AGAIN, AGAIN)), False, False) is None


def test_an_unmeasured_shape_is_replaced_by_the_nearest() -> None:
    """A strategy that leaves the shape out has another one repeated."""
    some = {index: TIMES[index] for index in range(12, 18)}
    visit = _next(replace(MEASURED, times_s=some), False)
    assert visit is not None
    assert visit.shape == Shape(4, 2)


def test_no_more_than_a_quarter_is_reserved() -> None:
    """Where starts are expensive, the first launches come first."""
    assert reserved_s(replace(STATE, left_s=4.0)) == 1.0


def test_nothing_measured_is_not_repeated() -> None:
    """A strategy that cannot begin is asked again with all the time."""
    asked = _Asked(False, True)
    visit = with_second_launch(asked.next)(STATE, random.Random(0))
    assert visit is not None
    assert asked.left_s[1] == 100.0


CAMPAIGN = Campaign(
    (Collective.BCAST,), SIZES, machine="m", nodes=(1, 2, 4), ppn=(2,), total_s=60.0
)


def _backend() -> ReplayBackend:
    context = Context("m", "openmpi", "5.0.11")
    recorded = [
        Measurement(cell.instance, cell.configuration, "l", times_s=(1e-3,)) for cell in CELLS
    ]
    return ReplayBackend(PerformanceDataset.of(context, recorded), 0.1, ReplayNoise(0.01, 0.05))


@pytest.mark.parametrize("subshapes", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fit_knows_the_launches_noise_after_each_strategy(
    strategy: str, subshapes: bool, tmp_path: Path
) -> None:
    """Whatever the strategy, a shape is in two launches, and the noise of launches is known."""
    campaign = CAMPAIGN.changed(strategy=strategy, subshapes=subshapes)
    run_campaign(campaign, _backend(), tmp_path, seed=1)
    dataset = read_parquet(tmp_path)
    launches = dataset.frame.groupby(["nodes", "msize_bytes", "algorithm"])["launch"].nunique()
    assert launches.max() > 1
    (cells,) = cell_matrices(dataset).values()
    assert cells.noise.ratio.worth > MACHINE.worth
    assert 0.005 < cells.noise.ratio.sd < 0.5


@pytest.mark.parametrize(("share", "launches"), [(0.0, 0), (0.1, 1), (1.0, 3)])
def test_a_rehearsal_tells_the_second_launches(share: float, launches: int) -> None:
    """One of three shapes at least, all where that is asked for, and none without a share."""
    campaign = CAMPAIGN.changed(
        strategy="latin_hypercube", subshapes=False, repeat_shapes=share, total_s=20.0
    )
    found = rehearse(campaign, _backend(), lambda _cell: 1e-3, costs=LaunchCosts(0.1))
    assert len(found.second_launches) == launches


def test_a_killed_campaign_makes_its_second_launch_when_it_goes_on(tmp_path: Path) -> None:
    """What was measured once by a killed run is measured once more by the one that goes on."""
    campaign = CAMPAIGN.changed(strategy="latin_hypercube", subshapes=False)

    def kill(standing: CampaignProgress) -> None:
        if standing.what == SECOND_LAUNCH:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_campaign(campaign, _backend(), tmp_path, seed=1, progress=kill)
    assert read_parquet(tmp_path).frame["launch"].nunique() == 3
    report = run_campaign(campaign, _backend(), tmp_path, seed=1)
    assert report.launches == 1
    assert read_parquet(tmp_path).frame["launch"].nunique() == 4


def test_a_tenth_of_the_shapes_spread_over_all() -> None:
    """At least one of two shapes, the larger; of single shapes none; parts share the tenth."""
    assert CAMPAIGN.changed(nodes=(1,)).repeated_shapes == ()
    assert CAMPAIGN.changed(nodes=(1, 2)).repeated_shapes == (Shape(2, 2),)
    many = CAMPAIGN.changed(nodes=tuple(range(1, 31)))
    assert many.repeated_shapes == (Shape(26, 2), Shape(16, 2), Shape(6, 2))
    parts = [many.changed(part=CampaignPart(i, 30)).repeated_shapes for i in range(1, 31)]
    assert sum(map(len, parts)) == 3
