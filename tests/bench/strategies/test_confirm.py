"""Which decisions are measured again, and until when."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colltune.bench.backends.protocol import LaunchPlan, LaunchResult
from colltune.bench.backends.replay import ReplayBackend, ReplayNoise
from colltune.bench.campaign import Campaign
from colltune.bench.runner import CampaignReport, run_campaign
from colltune.bench.schedule import Cell
from colltune.bench.strategies import CampaignState, Visit, Visited
from colltune.bench.strategies.confirm import confirm
from colltune.dataset import PerformanceDataset, read_parquet
from colltune.decisions import Status
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.selector.confirming import MOST_LAUNCHES, ROUNDS, ContestedInstance

BCAST = Collective.BCAST
SMALL, LARGE = Shape(2, 4), Shape(8, 4)
SIZES = (8, 1024)
DEFAULT = Configuration.default("openmpi", BCAST)
FAST, SAME = (Configuration("openmpi", BCAST, name) for name in ("chain", "binomial"))
TIMES_S = {DEFAULT: 1e-5, FAST: 5e-6, SAME: 1e-5}


def _contests(
    shape: Shape, candidates: tuple[Configuration, ...], gain: float = 1.2
) -> tuple[ContestedInstance, ...]:
    return tuple(
        ContestedInstance(
            Instance(BCAST, shape, size), DEFAULT, candidates, first, last, gain, 1e-5
        )
        for size, first, last in ((8, 0, 89), (1024, 90, 2048))
    )


def _changed(
    contests: Sequence[ContestedInstance], **changes: Any
) -> tuple[ContestedInstance, ...]:
    return tuple(replace(contest, **changes) for contest in contests)


WON, EVEN = _contests(SMALL, (FAST, SAME)), _contests(LARGE, (SAME,))


def _cells(*contests: ContestedInstance) -> tuple[Cell, ...]:
    return tuple(
        Cell(configuration, instance)
        for contest in contests
        for configuration, instance in contest.cells
    )


def _state(
    *contests: ContestedInstance,
    measured: Mapping[Configuration, Sequence[float]] | None = None,
    launches: int = 1,
    left_s: float = 1000.0,
) -> CampaignState:
    """Return a state in which so many launches measured log gains by configuration."""
    cells = _cells(*contests)
    by_launch = {
        index: {str(k): (1e-5 * float(np.exp(-logs[k])),) * 12 for k in range(launches)}
        for index, cell in enumerate(cells)
        if (logs := (measured or {}).get(cell.configuration))
    }
    return CampaignState(
        cells, {}, frozenset(), (), left_s, 2.0, 500, 0.05, None,
        contests=contests, by_launch=by_launch,
    )  # fmt: skip


def _next(state: CampaignState) -> Visit | None:
    return confirm(state, random.Random(0))


def test_all_of_an_instance_take_turns() -> None:
    """A launch has one shape; in each round an instance's configurations stand together."""
    state = _state(*WON, *EVEN)
    visit = _next(state)
    assert visit is not None
    cells = [state.cells[step.cell] for step in visit.steps]
    assert {cell.instance.shape for cell in cells} == {visit.shape}
    per_round = len({*cells})
    assert len(cells) == ROUNDS * per_round
    for start in range(0, len(cells), per_round):
        part = cells[start : start + per_round]
        assert {*part} == {*cells}
        changes = sum(a.instance != b.instance for a, b in itertools.pairwise(part))
        assert changes == len(SIZES) - 1


@pytest.mark.parametrize(
    "more", [{"gain": 1.5}, {"weight": 5.0}], ids=["more at stake", "more weight"]
)
def test_the_most_valuable_doubt_comes_first(more: dict[str, float]) -> None:
    """Which shape comes first goes by predicted gain, weight and doubt."""
    one, two = _changed(WON, candidates=(SAME,)), EVEN
    for first, second in ((one, _changed(two, **more)), (two, _changed(one, **more))):
        visit = _next(_state(*first, *second))
        assert visit is not None
        assert visit.shape == second[0].shape
    visit = _next(_state(*_changed(one, followed=True), *two))
    assert visit is not None
    assert visit.shape == LARGE


def test_what_is_decided_leaves() -> None:
    """A proved gain or a clear loss is not measured again; what is unclear is, up to six times."""
    won = {DEFAULT: [0.0] * 2, FAST: [0.7] * 2, SAME: [0.0] * 2}
    assert _next(_state(*WON, measured=won)) is not None
    assert _next(_state(*WON, measured=won, launches=2)) is None
    assert _next(_state(*EVEN, measured={DEFAULT: [0.0], SAME: [-0.3]})) is None
    unclear = {DEFAULT: [0.0] * MOST_LAUNCHES, SAME: [0.03, -0.03] * (MOST_LAUNCHES // 2)}
    assert _next(_state(*EVEN, measured=unclear, launches=MOST_LAUNCHES - 1)) is not None
    assert _next(_state(*EVEN, measured=unclear, launches=MOST_LAUNCHES)) is None


def test_losers_are_dropped_after_each_launch() -> None:
    """A second launch holds the default and what may still be the best."""
    state = _state(*WON, measured={DEFAULT: [0.0], FAST: [0.5], SAME: [0.0]})
    visit = _next(state)
    assert visit is not None
    assert {state.cells[step.cell].configuration for step in visit.steps} == {DEFAULT, FAST}


def test_neighbouring_launches_are_of_other_shapes() -> None:
    """Where two shapes are open, the one that was launched last waits for the other."""
    for last, following in ((SMALL, LARGE), (LARGE, SMALL)):
        visit = _next(replace(_state(*WON, *EVEN), history=(Visited("confirm", last, 1.0),)))
        assert visit is not None
        assert visit.shape == following


def test_a_launch_begins_what_can_be_ended() -> None:
    """With time for the two launches of one contest, one is begun, not both by half."""
    slow = _changed(EVEN, time_s=0.5)
    both = _next(_state(*slow))
    one = _next(_state(*slow, left_s=2 * 2.0 + 2 * 2 * 2 * 0.5 + 0.5))
    assert both is not None
    assert one is not None
    assert len(one.steps) == len(both.steps) // 2


def test_little_time_goes_to_what_is_worth_it() -> None:
    """What does not fit into a launch is left out, the least valuable first; no time, no launch."""
    worth = _contests(SMALL, (FAST,), 2.0)
    slow = _changed(_contests(SMALL, (SAME,)), time_s=1.0)
    state = _state(*worth, *slow, left_s=4.0)
    visit = _next(state)
    assert visit is not None
    assert {state.cells[step.cell].configuration for step in visit.steps} == {DEFAULT, FAST}
    assert visit.budget_s <= 4.0
    assert _next(replace(state, left_s=1.0)) is None


def test_slow_cells_take_fewer_turns() -> None:
    """Above 20 ms two turns of a repetition tell enough."""
    slow = _changed(EVEN, time_s=0.5)
    visit = _next(_state(*slow))
    assert visit is not None
    assert len(visit.steps) == 2 * len(_cells(*slow))


def test_a_shape_that_brings_nothing_is_given_up() -> None:
    """Launches without a measurement do not go on for ever."""
    state = replace(_state(*EVEN), history=(Visited("confirm", LARGE, 1.0),) * 10)
    assert _next(state) is None


CAMPAIGN = Campaign(
    (BCAST,), SIZES, machine="m", nodes=(8,), ppn=(4,), subshapes=False, contests=(*WON, *EVEN),
    total_s=1000.0,
)  # fmt: skip


def _recorded(crashes: Configuration | None = None) -> PerformanceDataset:
    found = [
        Measurement(cell.instance, cell.configuration, "l", RunStatus.CRASH)
        if cell.configuration == crashes
        else Measurement(
            cell.instance, cell.configuration, "l", times_s=(TIMES_S[cell.configuration],) * 9
        )
        for cell in _cells(*WON, *EVEN)
    ]
    return PerformanceDataset.of(Context("m", "openmpi", "5.0.11"), found)


def _run(tmp_path: Path, crashes: Configuration | None = None) -> CampaignReport:
    backend = ReplayBackend(_recorded(crashes), noise=ReplayNoise(0.05, 0.01))
    return run_campaign(CAMPAIGN, backend, tmp_path / "dataset", seed=1)


def test_a_campaign_confirms_and_withdraws(tmp_path: Path) -> None:
    """What is twice as fast is confirmed in two launches; an even match is withdrawn after six."""
    report = _run(tmp_path)
    found = {j.contest.shape: j for j in report.judgements}
    assert found[SMALL].status is Status.CONFIRMED
    assert found[SMALL].configuration == FAST
    assert found[LARGE].status is Status.WITHDRAWN
    assert report.launches == 2 + MOST_LAUNCHES
    cells = {
        Cell(m.configuration, m.instance) for m in read_parquet(tmp_path / "dataset").measurements()
    }
    assert cells == {*_cells(*WON, *EVEN)}


def test_a_crash_withdraws_and_the_runner_up_stands(tmp_path: Path) -> None:
    """An algorithm that crashes is not confirmed; what is left is judged without it."""
    found = {j.contest.shape: j for j in _run(tmp_path, crashes=FAST).judgements}
    assert found[SMALL].configuration == DEFAULT
    assert found[SMALL].status is Status.WITHDRAWN
    crashed = {j.contest.shape: j for j in _run(tmp_path / "2", crashes=SAME).judgements}
    assert crashed[SMALL].configuration == FAST
    assert (crashed[LARGE].status, crashed[LARGE].gain) == (Status.WITHDRAWN, None)


class _KilledError(Exception):
    """Stands for a kill."""


class _Killed(ReplayBackend):
    """Replays one launch; the next one is killed."""

    launches = 0

    def run(self, plan: LaunchPlan, launch: str, folder: Path, progress: object) -> LaunchResult:
        """Replay, or be killed."""
        self.launches += 1
        if self.launches > 1:
            raise _KilledError
        return super().run(plan, launch, folder, lambda _spent_s: None)


def test_a_killed_confirmation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured before a kill counts, and is not measured again."""
    with pytest.raises(_KilledError):
        run_campaign(
            CAMPAIGN, _Killed(_recorded(), noise=ReplayNoise(0.05, 0.01)), tmp_path / "dataset"
        )
    before = len(read_parquet(tmp_path / "dataset"))
    assert before > 0
    report = _run(tmp_path)
    assert report.launches == 1 + MOST_LAUNCHES
    assert {j.status for j in report.judgements} == {Status.CONFIRMED, Status.WITHDRAWN}


def test_what_was_measured_once_is_neither_confirmed_nor_withdrawn(tmp_path: Path) -> None:
    """Shapes whose second launches bring nothing stay predicted."""
    report = run_campaign(
        CAMPAIGN, _Once(_recorded(), noise=ReplayNoise(0.05, 0.01)), tmp_path / "d"
    )
    assert {j.status for j in report.judgements} == {Status.PREDICTED}
    assert any(j.gain for j in report.judgements)


class _Once(ReplayBackend):
    """Replays a single launch; others measure nothing."""

    launches = 0

    def run(self, plan: LaunchPlan, launch: str, folder: Path, progress: object) -> LaunchResult:
        """Replay the first launch; bring nothing from others."""
        self.launches += 1
        result = super().run(plan, launch, folder, lambda _spent_s: None)
        return result if self.launches == 1 else replace(result, measurements=())
