"""`colltune tune` ends within its budget, however slow everything is; time is that of a clock."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from colltune import process
from colltune.bench.backends.native import NativeBackend
from colltune.bench.backends.protocol import LaunchPlan, LaunchResult
from colltune.bench.backends.replay import ReplayBackend
from colltune.bench.campaign import Campaign
from colltune.dataset import PerformanceDataset, read_parquet
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.errors import BudgetError, ProgramError
from colltune.json_text import encoded
from colltune.models.bundle import Bundle, load
from colltune.models.fitting import fit
from colltune.mpi import trace
from colltune.mpi.installation import Installation
from colltune.selector.argmin import ModelSelector
from colltune.selector.confirming import ContestedInstance
from colltune.tune import pipeline
from colltune.tune.pipeline import TuneResult, TuneSettings, slowdown
from colltune.verify.confirm import confirming
from tests.page.reading import facts_of
from tests.refusals import refused

NOWHERE = Path("/nowhere")
MPI = Installation("openmpi", "5.0.11", NOWHERE, NOWHERE, NOWHERE, "")
SHAPE = Shape(1, 4)
MSIZES = (8, 64, 512, 4096)
BUDGET_S = 60.0
CAMPAIGN = Campaign((Collective.BCAST,), MSIZES, machine="m", ppn=(4,), total_s=BUDGET_S)
FACTORS = {"default": 3.0, "binomial": 1.0, "chain": 9.0}


class _Clock:
    """A clock that only slow stages move."""

    now_s = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s

    def launch(self, seconds: float) -> bool:
        """Let a launch take its time, or be stopped and killed; return whether it came through."""
        ends = self.now_s + seconds
        killed = max(self.now_s, process.latest()) + process.GRACE_S
        self.now_s = min(ends, killed)
        return ends <= killed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Clock]:
    """Return the clock that everything reads."""
    found = _Clock()
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", found)
        yield found


def _recorded() -> PerformanceDataset:
    measurements = [
        Measurement(
            Instance(Collective.BCAST, SHAPE, msize),
            Configuration("openmpi", Collective.BCAST, algorithm),
            "l",
            times_s=tuple(factor * (1e-6 + msize * 1e-9) * (1 + 0.01 * k) for k in range(9)),
        )
        for algorithm, factor in FACTORS.items()
        for msize in MSIZES
    ]
    return PerformanceDataset.of(Context("m", "openmpi", "5.0.11"), measurements)


class _Slow(ReplayBackend):
    """Replays; each launch, and compiling, takes its seconds unless it is stopped before."""

    def __init__(self, clock: _Clock, launch_s: float, compile_s: float) -> None:
        super().__init__(_recorded(), launch_s=0.0)
        self.clock, self.seconds, self.compile_s = clock, launch_s, compile_s
        self.around_s = 1.0

    def program(self) -> Path:
        """Compile."""
        if not self.clock.launch(self.compile_s):
            raise ProgramError("compiling collbench failed: stopped")
        return NOWHERE

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        """Replay what a launch would have measured until it was stopped."""
        self.clock.launch(max(self.seconds, plan.budget_s))
        return super().run(plan, launch, folder, progress)

    def launch(
        self,
        plan: LaunchPlan,
        settings: Sequence[Mapping[str, int | str]],
        launch: str,
        folder: Path,
        wanted: Mapping[str, str],
        progress: Callable[[float], None] = lambda _: None,
        options: Sequence[str] = (),
    ) -> process.ProcessResult:
        """Write what the benchmark does; with the written file all is three times as fast."""
        through = self.clock.launch(self.seconds)
        factor = 1.0 if wanted else 3.0
        lines = [
            f"r {i} {i} {factor * (1e-6 + cell.instance.msize_bytes * 1e-9):.9e}"
            for i, cell in enumerate(plan.cells)
        ]
        text = ["colltune-raw 2", *lines, f"end plan 0.1 {self.seconds}"]
        (folder / "raw.txt").write_text("\n".join(text if through else text[:1]) + "\n")
        return process.ProcessResult((), 0 if through else None, "", "", self.seconds)


@dataclass(frozen=True)
class _Fitting:
    """Fits in a number of steps, each of which takes its seconds on the clock."""

    clock: _Clock
    step_s: float

    def __call__(
        self, dataset: PerformanceDataset, learner: str, *, progress: Callable[..., None]
    ) -> Bundle:
        """Fit by the one learner there is."""
        steps = 40 if learner == "auto" else 4
        for done in range(steps):
            progress(done, steps, learner)
            self.clock.now_s += self.step_s
        return fit(dataset, "knn")


@pytest.fixture
def tuned(
    clock: _Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., TuneResult]:
    """Return a function that tunes with launches, fits and a compiler as slow as it says."""

    def run(
        launch_s: float, step_s: float = 0.0, compile_s: float = 0.0, learner: str = "auto"
    ) -> TuneResult:
        monkeypatch.setattr(pipeline, "fit", _Fitting(clock, step_s))
        monkeypatch.setattr(trace, "build", lambda *_: NOWHERE)
        settings = TuneSettings(CAMPAIGN, tmp_path, learner, 1, clock.now_s)
        backend = cast(NativeBackend, _Slow(clock, launch_s, compile_s))
        return pipeline.tune(settings, MPI, backend, lambda _stage, _now: None)

    return run


Tuned = Callable[..., TuneResult]


def test_another_backend_measures_and_the_native_one_confirms(
    clock: _Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All configurations are timed by the one that is named, what they propose by the other."""
    monkeypatch.setattr(trace, "build", lambda *_: NOWHERE)
    phases: dict[str, set[str]] = {"native": set(), "other": set()}

    class Noted(_Slow):
        """Notes in which stage it launches."""

        def __init__(self, name: str) -> None:
            super().__init__(clock, 0.3, 0.0)
            self.name = name

        def run(
            self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
        ) -> LaunchResult:
            """Replay as ever."""
            phases[self.name].add(stages[-1])
            return super().run(plan, launch, folder, progress)

    stages: list[str] = []
    settings = TuneSettings(CAMPAIGN, tmp_path, "knn", 1, clock.now_s)
    native = cast(NativeBackend, Noted("native"))
    tell = lambda stage, _now: stages.append(stage)  # noqa: E731
    pipeline.tune(settings, MPI, native, tell, Noted("other"))
    assert phases == {"native": {"verifying"}, "other": {"measuring"}}


@pytest.mark.parametrize("launch_s", [0.3, 2.0, 4.0, 8.0, 15.0, math.inf])
@pytest.mark.parametrize("step_s", [0.0, 0.3, 1.5])
def test_however_slow_launches_and_fits_are_the_budget_holds(
    tuned: Tuned, clock: _Clock, launch_s: float, step_s: float
) -> None:
    """Stages are cut short, so that all of it ends in time; the file holds what was proved."""
    result = tuned(launch_s, step_s)
    assert clock.now_s <= 1000.0 + BUDGET_S
    assert result.wall_s <= BUDGET_S
    rows = [row for row in result.rows if row.verdict]
    assert rows
    for row in rows:
        is_default = row.interval.configuration.is_default
        assert is_default == (row.verdict != "confirmed")
    chooses = any(not row.interval.configuration.is_default for row in result.rows)
    assert (result.job_line is not None) == chooses == (not result.unproven)
    assert all(row.predicted_gain is None or row.predicted_gain > 1 for row in rows)
    if (launch_s, step_s) == (0.3, 0.0):
        assert {row.verdict for row in rows} == {"confirmed"}
    decides = ModelSelector(load(result.bundle))
    for row in result.rows:
        for msize in filter(row.interval.holds, MSIZES):
            selection = decides.select(Instance(row.collective, SHAPE, msize))
            assert selection.configuration == row.interval.configuration


def test_what_was_not_measured_again_is_withdrawn(
    tuned: Tuned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without time for a single launch nothing is kept, in the file or in the bundle."""
    monkeypatch.setattr(pipeline, "confirming", _no_time)
    result = tuned(0.3)
    rows = [row for row in result.rows if row.verdict]
    assert {row.verdict for row in rows} == {"withdrawn, not measured"}
    assert all("not measured again" in row.interval.reason for row in rows)
    assert "0 # collectives" in result.written.rules_path.read_text()
    assert any("no decision could be measured again: nothing" in note for note in result.notes)
    selector = ModelSelector(load(result.bundle))
    for msize in MSIZES:
        selection = selector.select(Instance(Collective.BCAST, SHAPE, msize))
        assert selection.configuration.is_default
        assert selection.status is Status.WITHDRAWN


def _no_time(campaign: Campaign, found: tuple[ContestedInstance, ...]) -> Campaign:
    return confirming(campaign, found).changed(total_s=0.001)


def test_a_fit_that_takes_too_long_is_made_by_the_quickest_learner(tuned: Tuned) -> None:
    """Which is noted; the page is there all the same."""
    result = tuned(1.0, step_s=1.0)
    assert "fitted by knn, because there was no time for regret_trees" in result.notes
    assert result.page.exists()


def test_a_fit_that_is_seen_to_take_too_long_leaves_its_time_to_the_quickest(tuned: Tuned) -> None:
    """A learner that would need far more than its share is given up before that is spent."""
    result = tuned(1.0, step_s=0.5)
    assert "fitted by knn, because there was no time for regret_trees" in result.notes
    left_s = BUDGET_S - result.phases_s["start"] - result.phases_s["measure"]
    assert result.phases_s["fit"] < left_s * pipeline._FIT_SHARE


def test_a_learner_that_was_asked_for_is_not_replaced(
    tuned: Tuned, clock: _Clock, tmp_path: Path
) -> None:
    """If it does not end in time, the error says so, and what was measured is kept."""
    with refused("budget-ended", BudgetError):
        tuned(1.0, step_s=20.0, learner="gam")
    assert clock.now_s <= 1000.0 + BUDGET_S
    assert len(read_parquet(tmp_path / "m-openmpi-5.0.11" / "dataset")) > 0


def test_compiling_counts_and_can_be_all_that_there_was_time_for(
    tuned: Tuned, clock: _Clock
) -> None:
    """A compiler that takes longer than the budget is stopped; the error says what to do."""
    with refused("budget-spent", BudgetError, budget_s=60.0):
        tuned(1.0, compile_s=1000.0)
    assert clock.now_s <= 1000.0 + BUDGET_S


def test_the_page_shows_what_the_command_says(
    tuned: Tuned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written without matplotlib, and its sentence is that of the summary."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = tuned(0.3)
    facts = facts_of(result.page.read_text(encoding="utf-8"))
    told = facts["answers"]["v1/view/gains"]
    assert told["summary"] == json.loads(encoded(result.gain))
    assert told["sentence"].casefold() == f"{result.gain.sentence}.".casefold()


def test_a_learner_that_is_not_installed_is_told_before_measuring(
    tuned: Tuned, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the extra that brings it, and no time went by."""
    monkeypatch.setitem(sys.modules, "pygam", None)
    with refused("extra-missing", ProgramError, extra="learners"):
        tuned(0.3, learner="gam")
    assert clock.now_s == 1000.0


def test_how_slow_this_process_is(clock: _Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the time that went by for each second computed, never less than one."""
    computed: Any = lambda: 2.0  # noqa: E731
    monkeypatch.setattr(time, "process_time", computed)
    assert slowdown(992.0, 0.0) == 4.0
    assert slowdown(999.5, 1.0) == 1.0
    assert slowdown(900.0, 2.0) == 1.0
