"""What a budget buys where launches take long to start: by a clock that only launches move on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from colltune.bench import runner
from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult
from colltune.bench.backends.replay import ReplayBackend
from colltune.bench.campaign import Campaign
from colltune.bench.journal import launch_costs
from colltune.bench.launch_costs import LaunchCosts
from colltune.bench.rehearsal import rehearse
from colltune.bench.runner import CampaignReport
from colltune.bench.schedule import ENOUGH_REPS, Cell, grouped
from colltune.dataset import PerformanceDataset, read_parquet
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.errors import BudgetError
from tests.refusals import refused

MSIZES = tuple(8 * 8**power for power in range(7))
ALGORITHMS = ("default", *(f"a{number}" for number in range(8)))
PARAMETERS = range(5)
CAMPAIGN = Campaign((Collective.BCAST,), MSIZES, machine="m", nodes=(4,), ppn=(4,), total_s=30.0)
STARTS = (0.1, 1.0, 3.0, 10.0)


def _configurations() -> list[Configuration]:
    values = {name: (0,) if name == "default" else PARAMETERS for name in ALGORITHMS}
    return [
        Configuration("openmpi", Collective.BCAST, name, (("k", k),) if k else ())
        for name, ks in values.items()
        for k in ks
    ]


def _time_s(cell: Cell) -> float:
    return 5e-6 + cell.instance.msize_bytes * 3e-10


def _recorded(nodes: Sequence[int]) -> PerformanceDataset:
    cells = [
        Cell(configuration, Instance(Collective.BCAST, Shape(n, 4), msize))
        for n in nodes
        for configuration in _configurations()
        for msize in MSIZES
    ]
    rows = (Measurement(c.instance, c.configuration, "l", times_s=(_time_s(c),)) for c in cells)
    return PerformanceDataset.of(Context("m", "openmpi", "5.0.11"), rows)


class _Slow(ReplayBackend):
    """Takes so many seconds to start, or is killed first; a launch holds one configuration."""

    measures_subshapes = False

    def __init__(self, start_s: Callable[[Shape], float], nodes: Sequence[int] = (4,)) -> None:
        super().__init__(_recorded(nodes), launch_s=1.0)
        self._start_s = start_s
        self.now_s = 1000.0

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        return grouped(cells, lambda cell: (cell.configuration, cell.instance.shape))

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        start_s, limit_s = self._start_s(plan.shape), min(plan.limit_s, plan.start_s)
        if start_s > limit_s:
            self.now_s += limit_s
            ending = Ending.HANG if limit_s < plan.limit_s else Ending.BUDGET
            words = "still waiting for nodes"
            return LaunchResult((), ending, 0, limit_s, message=words, launch_s=limit_s, cut=True)
        self.launch_s = start_s
        within = min(plan.budget_s + start_s, plan.limit_s)
        result = super().run(replace(plan, budget_s=within), launch, folder, progress)
        self.launch_s = 1.0
        self.now_s += result.wall_s
        return replace(result, launch_s=start_s)


def _measure(
    monkeypatch: pytest.MonkeyPatch, backend: _Slow, campaign: Campaign, dataset: Path
) -> CampaignReport:
    clock = SimpleNamespace(monotonic=lambda: backend.now_s)
    monkeypatch.setattr(runner, "time", clock)
    began_s = backend.now_s
    try:
        return runner.run_campaign(campaign, backend, dataset, seed=1)
    finally:
        assert backend.now_s - began_s <= campaign.budget_s


def _enough(dataset: Path) -> Counter[Configuration]:
    """Return how many cells of each configuration have enough repetitions."""
    cells: Counter[Cell] = Counter()
    for m in read_parquet(dataset).measurements():
        cells[Cell(m.configuration, m.instance)] += len(m.times_s)
    return Counter(cell.configuration for cell, reps in cells.items() if reps >= ENOUGH_REPS)


def _oracle(budget_s: float, start_s: float) -> int:
    """Return how many cells can have them by someone who knows what starts take."""
    steps_s = sum(ENOUGH_REPS * 5e-6 + ENOUGH_REPS * 3e-10 * msize for msize in MSIZES)
    launches = min(len(_configurations()), int(budget_s / (start_s + steps_s)))
    return launches * len(MSIZES)


@pytest.mark.parametrize("start_s", STARTS)
@pytest.mark.parametrize("total_s", [15.0, 120.0])
def test_a_budget_buys_what_it_can(
    start_s: float, total_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nobody says what starts take, nearly all cells are measured that could have been."""
    backend = _Slow(lambda _shape: start_s)
    _measure(monkeypatch, backend, CAMPAIGN.changed(total_s=total_s), tmp_path)
    enough = _enough(tmp_path)
    assert enough.total() >= 0.85 * _oracle(total_s, start_s)
    assert any(configuration.is_default for configuration in enough)
    measured = {configuration.algorithm for configuration in enough}
    assert len(measured) == min(len(ALGORITHMS), len(enough))


@pytest.mark.parametrize("start_s", STARTS)
def test_a_plan_promises_what_measuring_brings(
    start_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the cost that was learned a rehearsal leaves out as many cells as the campaign does."""
    backend = _Slow(lambda _shape: start_s)
    report = _measure(monkeypatch, backend, CAMPAIGN, tmp_path)
    learned_s = {cost.seconds for cost in launch_costs(tmp_path, CAMPAIGN)}
    assert learned_s == {start_s}
    found = rehearse(CAMPAIGN, backend, _time_s, costs=LaunchCosts(start_s))
    left_out = len(found.left_out) + len(found.skipped)
    assert left_out == pytest.approx(report.unmeasured_cells, abs=2 * len(MSIZES))


def test_what_starts_cost_is_known_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second campaign of the dataset begins with what the first one learned."""
    for n_more in (2, 3):
        backend = _Slow(lambda _shape: 9.0)
        report = _measure(monkeypatch, backend, CAMPAIGN, tmp_path)
        assert report.launches >= n_more


def test_every_number_of_nodes_starts_in_its_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is time for some shapes only, these are measured, each with its default."""
    nodes = (1, 2, 4, 8, 16, 32)
    backend = _Slow(lambda shape: 0.1 * shape.nodes, nodes)
    campaign = CAMPAIGN.changed(nodes=nodes, total_s=60.0)
    _measure(monkeypatch, backend, campaign, tmp_path)
    frame = read_parquet(tmp_path).frame
    of_default = set(frame[frame["algorithm"] == "default"]["nodes"])
    assert of_default == set(frame["nodes"])
    assert len(of_default) >= 4
    assert (frame.groupby("nodes")["algorithm"].nunique() > 1).all()
    assert (frame["n_reps"] >= ENOUGH_REPS).all()


def test_a_launcher_that_never_starts_a_job_speaks_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no launch came to its first job the error has the launcher's own words."""
    backend = _Slow(lambda _shape: 1e9)
    with refused("launch-not-begun", BudgetError):
        _measure(monkeypatch, backend, CAMPAIGN, tmp_path)
