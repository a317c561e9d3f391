"""Running campaigns, with the replay backend or a scripted one."""

from __future__ import annotations

import itertools
import json
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from colltune.bench import journal, runner
from colltune.bench.backends import raw
from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult
from colltune.bench.backends.replay import ReplayBackend
from colltune.bench.campaign import Campaign
from colltune.bench.journal import new_launch, salvage_all
from colltune.bench.progress import CampaignProgress, cells_of
from colltune.bench.schedule import Cell, grouped
from colltune.dataset import PerformanceDataset, append, read_parquet
from colltune.dataset.parquet import read_provenance
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import BudgetError, CampaignError, OutputError, ProgramError
from tests.refusals import refused

CONTEXT = Context("m", "openmpi", "5.0.11")
SHAPE = Shape(1, 4)
MSIZES = (8, 64, 512)
TIMES = {"default": 4e-6, "fast": 1e-6, "slow": 50e-6}
CAMPAIGN = Campaign((Collective.BCAST,), MSIZES, machine="m", ppn=(4,), total_s=30.0)


def _cell(algorithm: str, msize: int) -> Cell:
    configuration = Configuration("openmpi", Collective.BCAST, algorithm)
    return Cell(configuration, Instance(Collective.BCAST, SHAPE, msize))


def _recorded() -> PerformanceDataset:
    measurements = [
        Measurement(cell.instance, cell.configuration, "l", times_s=(time, 2 * time, 3 * time))
        for algorithm, time in TIMES.items()
        for cell in (_cell(algorithm, msize) for msize in MSIZES)
    ]
    return PerformanceDataset.of(CONTEXT, measurements)


class _Crashing(ReplayBackend):
    """Replays, but the launch dies whenever it comes to the fast algorithm at 64 bytes."""

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        bad = plan.cells.index(_cell("fast", 64))
        before = [step.cell for step in plan.steps]
        if bad not in before:
            return super().run(plan, launch, folder, progress)
        shorter = replace(plan, steps=plan.steps[: before.index(bad)])
        result = super().run(shorter, launch, folder, progress)
        cell = plan.cells[bad]
        crash = Measurement(cell.instance, cell.configuration, launch, RunStatus.CRASH)
        return replace(
            result,
            measurements=(*result.measurements, crash),
            ending=Ending.CRASH,
            suspect=cell,
        )


class _Scripted(ReplayBackend):
    """Replays, unless the script has another answer to a plan."""

    def __init__(self, script: Callable[[LaunchPlan, str, Path], LaunchResult | None]) -> None:
        super().__init__(_recorded(), launch_s=0.0)
        self._script = script
        self.cores = 64

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        return self._script(plan, launch, folder) or super().run(plan, launch, folder, progress)

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        cells, launch = raw.load_cells(folder / "cells.json")
        return raw.measurements(raw.read_raw(folder / "raw.txt"), cells, launch)


def _interrupted(plan: LaunchPlan, launch: str, folder: Path) -> LaunchResult:
    """Interrupt a launch, which leaves raw output behind."""
    _leave_raw_output(folder, plan.cells, launch)
    raise KeyboardInterrupt


def _leave_raw_output(folder: Path, cells: tuple[Cell, ...], launch: str) -> None:
    raw.save_cells(folder / "cells.json", cells, launch)
    (folder / "raw.txt").write_text("colltune-raw 1\ns 0\nr 0 1e-6 2e-6\nr 0 3e")


def test_a_campaign_surveys_and_refines(tmp_path: Path) -> None:
    """All cells are measured; the default and the fast one more often than the slow one."""
    backend = ReplayBackend(_recorded(), launch_s=0.0)
    report = runner.run_campaign(CAMPAIGN, backend, tmp_path / "d", seed=1)
    dataset = read_parquet(tmp_path / "d")
    assert report.launches == 3
    assert len(report.files) == 3
    assert report.unmeasured_cells == 0
    assert set(dataset.cells()["algorithm"]) == set(TIMES)
    reps = dataset.frame.groupby("algorithm")["n_reps"].sum()
    assert reps["fast"] > 10 * reps["slow"]
    assert reps["default"] > 10 * reps["slow"]


@pytest.mark.parametrize(("cores", "differ"), [(2, True), (4, False)])
def test_launches_on_shared_cores_differ_in_how_their_processes_arrive(
    tmp_path: Path, cores: int, differ: bool
) -> None:
    """One and two barriers precede each repetition by turns, so that no gain rests on either."""
    barriers: list[int] = []
    backend = _Scripted(lambda plan, _launch, _folder: barriers.append(plan.barriers))
    backend.cores = cores
    runner.run_campaign(CAMPAIGN, backend, tmp_path, seed=1)
    assert len(barriers) == 3
    assert barriers in ([[1, 2, 1], [2, 1, 2]] if differ else [[1, 1, 1]])


def test_a_crash_costs_only_its_configuration(tmp_path: Path) -> None:
    """After a crash the launch is repeated without the culprit, and the crash is recorded."""
    backend = _Crashing(_recorded(), launch_s=0.0)
    report = runner.run_campaign(CAMPAIGN, backend, tmp_path, seed=1)
    frame = read_parquet(tmp_path).frame
    crashed = frame[frame["status"] == "crash"]
    assert set(zip(crashed["algorithm"], crashed["msize_bytes"], strict=True)) == {("fast", 64)}
    assert any("openmpi.bcast.fast on 1x4 at 64 bytes: crash" in p for p in report.problems)
    ok = frame[frame["status"] == "ok"]
    assert set(ok[ok["algorithm"] == "slow"]["msize_bytes"]) == set(MSIZES)


def test_nothing_measured_in_the_budget_is_an_error(tmp_path: Path) -> None:
    """A budget that a launch alone eats up ends with a clear error."""
    backend = ReplayBackend(_recorded(), launch_s=1000.0)
    with refused("nothing-measured", BudgetError, budget_s=30.0) as raised:
        runner.run_campaign(CAMPAIGN, backend, tmp_path)
    assert raised.value.values["enough_s"] > 1000.0


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    """An interrupt during a launch stores the complete repetitions and is passed on."""
    with pytest.raises(KeyboardInterrupt):
        runner.run_campaign(CAMPAIGN, _Scripted(_interrupted), tmp_path)
    (kept,) = read_parquet(tmp_path).measurements()
    assert kept.times_s == (1e-6, 2e-6)
    assert salvage_all(tmp_path, _Scripted(_interrupted)) == 0


def test_an_interrupt_while_storing_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch's measurements are stored once and whole, though the user stops just then."""

    def interrupted(*words: Any) -> Path:
        signal.raise_signal(signal.SIGINT)
        return append(*words)

    monkeypatch.setattr(runner, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner.run_campaign(CAMPAIGN, ReplayBackend(_recorded(), launch_s=0.0), tmp_path, seed=1)
    (file,) = tmp_path.glob("*.parquet")
    assert _phase(file) == "survey"
    assert len(read_parquet(file)) == 9
    assert all((folder / "done").exists() for folder in (tmp_path / "raw").iterdir())


def test_the_next_run_salvages_a_killed_one(tmp_path: Path) -> None:
    """Raw output that a killed run left is added once; that of a living run is left alone."""
    backend = _Scripted(_interrupted)
    cells = (_cell("fast", 8),)
    facts: Mapping[str, str] = {"host": "h"}
    with new_launch(tmp_path, CONTEXT, facts) as (launch, folder):
        _leave_raw_output(folder, cells, launch)
        assert salvage_all(tmp_path, backend) == 0
    assert salvage_all(tmp_path, backend) == 1
    assert salvage_all(tmp_path, backend) == 0
    dataset = read_parquet(tmp_path)
    assert dataset.context == CONTEXT
    assert [m.configuration for m in dataset.measurements()] == [cells[0].configuration]


def test_another_backends_output_waits_for_it(tmp_path: Path) -> None:
    """What one backend's killed launch left is not thrown away by another backend's run."""
    backend = _Scripted(_interrupted)
    with new_launch(tmp_path, CONTEXT, {"backend": "native"}) as (launch, folder):
        _leave_raw_output(folder, (_cell("fast", 8),), launch)
    assert salvage_all(tmp_path, backend) == 0
    assert not (folder / "done").exists()
    backend.provenance = lambda: {"backend": "native"}  # type: ignore[method-assign]
    assert salvage_all(tmp_path, backend) == 1


def test_a_launch_killed_at_its_start_leaves_nothing_to_salvage(tmp_path: Path) -> None:
    """A folder without a list of cells, or with half of one, is passed over."""
    for number, text in enumerate(["", '{"version": 1, "la']):
        folder = tmp_path / "raw" / str(number)
        folder.mkdir(parents=True)
        launch = {"context": asdict(CONTEXT), "provenance": {}}
        (folder / "launch.json").write_text(json.dumps(launch))
        if text:
            (folder / "cells.json").write_text(text)
    assert salvage_all(tmp_path, _Scripted(_interrupted)) == 0


def test_a_file_in_the_way_is_an_error_before_measuring(tmp_path: Path) -> None:
    """A dataset folder that cannot be made is an error that names it."""
    (tmp_path / "d").write_text("")
    with refused("cannot-write", OutputError):
        runner.run_campaign(CAMPAIGN, ReplayBackend(_recorded()), tmp_path / "d")


def test_why_nothing_could_be_started_is_told(tmp_path: Path) -> None:
    """That there is nothing to salvage of such a launch does not hide it."""

    def unbuilt(_plan: LaunchPlan, _launch: str, _folder: Path) -> LaunchResult:
        raise OutputError("cache: is writable by others")

    with pytest.raises(OutputError, match="cache: is writable by others"):
        runner.run_campaign(CAMPAIGN, _Scripted(unbuilt), tmp_path)


def test_large_buffers_are_left_out() -> None:
    """Cells whose buffers would be too large on a rank are not measured."""
    campaign = CAMPAIGN.changed(max_buffer_bytes=64)
    cells = cells_of(campaign, ReplayBackend(_recorded()), SHAPE)
    assert {cell.instance.msize_bytes for cell in cells} == {8, 64}


def test_a_launch_that_hangs_before_its_first_cell_is_told(tmp_path: Path) -> None:
    """Where no cell is to blame for a hang, the report says what the program said."""

    def silent(_plan: LaunchPlan, _launch: str, folder: Path) -> LaunchResult | None:
        first = not any(folder.parent.glob("*/done"))
        return None if first else LaunchResult((), Ending.HANG, 0.0, 1.0, message="said nothing")

    report = runner.run_campaign(CAMPAIGN, _Scripted(silent), tmp_path, seed=1)
    assert report.measurements > 0
    assert any("said nothing" in problem for problem in report.problems)


class _Killed(BaseException):
    """Stands for SIGKILL: nothing of the runner can react to it."""


def _dying_in_second(_plan: LaunchPlan, _launch: str, folder: Path) -> None:
    if any(folder.parent.glob("*/done")):
        raise _Killed


def _phase(file: Path) -> str:
    return read_provenance(file)["phase"]


def _phases(dataset: Path) -> list[str]:
    files = sorted(dataset.glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    return list(map(_phase, files))


def test_a_killed_campaign_goes_on_where_it_was(tmp_path: Path) -> None:
    """Its survey is not repeated, its budget goes on, and after its end it starts anew."""
    with pytest.raises(_Killed):
        runner.run_campaign(CAMPAIGN, _Scripted(_dying_in_second), tmp_path, seed=1)
    assert _phases(tmp_path) == ["survey"]
    backend = ReplayBackend(_recorded(), launch_s=0.0)
    resumed = runner.run_campaign(CAMPAIGN, backend, tmp_path, seed=1)
    assert _phases(tmp_path) == ["survey", "refine"]
    assert resumed.earlier_s > 0
    assert resumed.unmeasured_cells == 0
    again = runner.run_campaign(CAMPAIGN, backend, tmp_path, seed=1)
    assert again.earlier_s == 0
    assert _phases(tmp_path)[2:] == ["survey", "refine", "refine"]


def test_a_process_can_be_bound_more_tightly_than_its_campaign(tmp_path: Path) -> None:
    """What `within_s` leaves of the budget is for the next process, which goes on."""
    backend = ReplayBackend(_recorded(), launch_s=0.0)
    nothing = runner.run_campaign(CAMPAIGN, backend, tmp_path, within_s=0.0)
    assert (nothing.finished, nothing.launches) == (False, 0)
    rest = runner.run_campaign(CAMPAIGN, backend, tmp_path, within_s=20.0)
    assert (rest.finished, rest.unmeasured_cells) == (True, 0)
    assert len(list((tmp_path / "campaigns").glob("*.jsonl"))) == 1


def test_a_requeued_job_that_is_complete_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same batch job finds its campaign ended and launches nothing."""
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    backend = ReplayBackend(_recorded(), launch_s=0.0)
    runner.run_campaign(CAMPAIGN, backend, tmp_path, seed=1)
    again = runner.run_campaign(CAMPAIGN, backend, tmp_path, seed=1)
    assert again.complete_before
    assert again.launches == 0


class _NodesGone(_Crashing):
    """The launch dies, and after that no launch starts any more."""

    def answers(self, shape: Shape, within_s: float) -> bool:
        return False


def test_a_node_that_vanished_is_not_blamed_on_an_algorithm(tmp_path: Path) -> None:
    """No crash is recorded where the nodes no longer answer; what was timed is kept."""
    report = runner.run_campaign(CAMPAIGN, _NodesGone(_recorded(), launch_s=0.0), tmp_path, seed=1)
    assert set(read_parquet(tmp_path).frame["status"]) == {"ok"}
    assert any("no longer answer" in problem for problem in report.problems)
    assert "no more launches on 1x4" in report.problems


def _two_shapes() -> PerformanceDataset:
    one = _recorded()
    frame = one.frame.assign(nodes=2)
    return replace(one, frame=pd.concat([one.frame, frame], ignore_index=True))


def test_the_rest_of_a_campaign_goes_on_without_a_shape(tmp_path: Path) -> None:
    """A shape that cannot be launched is given up with a problem; the other is measured."""

    class OneShapeFails(ReplayBackend):
        measures_subshapes = False

        def run(self, plan: LaunchPlan, *words: Any) -> LaunchResult:
            if plan.shape.nodes == 2:
                raise ProgramError("mpirun: no such node n2")
            return super().run(plan, *words)

    campaign = CAMPAIGN.changed(nodes=(1, 2))
    backend = OneShapeFails(_two_shapes(), launch_s=0.0)
    report = runner.run_campaign(campaign, backend, tmp_path, seed=1)
    assert {shape.nodes for shape in read_parquet(tmp_path).shapes()} == {1}
    assert any("no such node n2" in problem for problem in report.problems)
    with pytest.raises(ProgramError, match="no such node n2"):
        runner.run_campaign(CAMPAIGN.changed(nodes=(2,)), backend, tmp_path / "d", seed=1)


def test_one_launch_holds_the_smaller_shapes(tmp_path: Path) -> None:
    """With sub-shapes one launch of the largest shape surveys them all."""
    campaign = CAMPAIGN.changed(nodes=(1, 2))
    backend = ReplayBackend(_two_shapes(), launch_s=0.0)
    report = runner.run_campaign(campaign, backend, tmp_path, seed=1)
    assert report.launches == 3
    files = sorted(tmp_path.glob("*.parquet"))
    assert {read_provenance(file)["shape"] for file in files} == {"2x4"}
    assert {s.nodes for file in files for s in read_parquet(file).shapes()} == {1, 2}
    apart = runner.run_campaign(campaign.changed(subshapes=False), backend, tmp_path / "d", seed=1)
    assert apart.launches == 6


class _OneByOne(ReplayBackend):
    """Needs a launch per configuration."""

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        return grouped(cells, lambda cell: cell.configuration)


def test_what_cannot_be_switched_gets_a_launch_per_configuration(tmp_path: Path) -> None:
    """No launch holds two configurations, and every cell is measured."""
    report = runner.run_campaign(CAMPAIGN, _OneByOne(_recorded(), launch_s=0.0), tmp_path, seed=1)
    files = sorted(tmp_path.glob("*.parquet"))
    assert all(len(set(read_parquet(file).frame["algorithm"])) == 1 for file in files)
    assert report.unmeasured_cells == 0
    # a survey of three, and twice what is near the best, and the default
    assert Counter(map(_phase, files)) == {"survey": 3, "refine": 4}


def test_what_is_predicted_not_to_fit_is_recorded_as_skipped(tmp_path: Path) -> None:
    """A configuration that was slow at one size is skipped at others that there is no time for."""
    frame = _recorded().frame
    slow = frame["algorithm"] == "slow"
    for name in ("time_s", "time_mean_s", "time_min_s", "time_p90_s", "time_max_s"):
        frame.loc[slow, name] = 9.0
    frame.loc[slow, "times_s"] = frame[slow]["times_s"].map(lambda _: (9.0,))
    recorded = PerformanceDataset(CONTEXT, frame)
    narrow = CAMPAIGN.changed(msizes_bytes=(8,))
    backend = ReplayBackend(recorded, launch_s=0.0)
    with journal.opened(tmp_path, CAMPAIGN) as log:
        log.begin("x", 0, "survey", SHAPE, 0.0)
    runner.run_campaign(narrow, backend, tmp_path / "first", seed=1)
    known = read_parquet(tmp_path / "first").measurements()
    survey = next(m.launch for m in known if m.configuration.algorithm == "slow")
    told = [replace(m, launch="x") for m in known if m.launch == survey]
    append(tmp_path, CONTEXT, told, {})
    report = runner.run_campaign(CAMPAIGN, backend, tmp_path, seed=1)
    rows = read_parquet(tmp_path).frame
    skipped = rows[rows["status"] == "skipped"]
    assert set(skipped["algorithm"]) == {"slow"}
    assert report.skipped == len(skipped) == 1
    assert report.unmeasured_cells == 0


def test_a_glob_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    """An algorithm that the release does not have is an error that names what there is."""
    campaign = CAMPAIGN.changed(only=("*.bcast.quick",))
    with refused("matches-nothing", CampaignError):
        runner.run_campaign(campaign, ReplayBackend(_recorded()), tmp_path)


class _Telling(ReplayBackend):
    """Replays, and tells after each visit which ones have begun."""

    begun: tuple[int, ...] = ()

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        for step in plan.steps:
            self.begun = (*self.begun, step.cell)
            progress(0.0)
        return super().run(plan, launch, folder, progress)


def test_a_campaign_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch, phase, the cell under way, cells done of all, and the budget, are told."""
    monkeypatch.setattr(runner, "_TELL_S", 0.0)
    told: list[CampaignProgress] = []
    backend = _Telling(_recorded(), launch_s=0.0)
    runner.run_campaign(CAMPAIGN, backend, tmp_path, seed=1, within_s=20.0, progress=told.append)
    first, second, last = told[0], told[1], told[-1]
    assert (first.what, first.shape, first.launch, first.now) == ("survey", SHAPE, 1, None)
    assert (first.measured, first.cells, first.budget_s) == (0, 9, 30.0)
    assert 19.0 < first.ends_s < 25.0
    assert second.now is not None
    assert (second.now.instance.shape, second.measured) == (SHAPE, 1)
    assert (last.measured, last.launch) == (9, 3)
    assert all(a.spent_s <= b.spent_s for a, b in itertools.pairwise(told))


def test_what_could_not_be_had_is_told_at_once(tmp_path: Path) -> None:
    """A launch's note is told before the next launch, once, and stands in the report."""
    told: list[CampaignProgress] = []
    replaying = ReplayBackend(_recorded(), launch_s=0.0)

    def noting(plan: LaunchPlan, launch: str, folder: Path) -> LaunchResult:
        return replace(replaying.run(plan, launch, folder, lambda _s: None), note="barriers")

    backend = _Scripted(noting)
    report = runner.run_campaign(CAMPAIGN, backend, tmp_path, seed=1, progress=told.append)
    assert report.problems == ["barriers"]
    noted = [at for at, now in enumerate(told) if now.note]
    assert [told[at].note for at in noted] == ["barriers"]
    assert told[noted[0] + 1].launch == 2


def test_a_cell_that_lost_its_windows_is_tried_again(tmp_path: Path) -> None:
    """What one launch lost, a later one may keep."""
    lost: list[str] = []
    replaying = ReplayBackend(_recorded(), launch_s=0.0)

    def losing(plan: LaunchPlan, launch: str, folder: Path) -> LaunchResult | None:
        if lost:
            return None
        lost.append(launch)
        result = replaying.run(plan, launch, folder, lambda _s: None)
        none = tuple(
            replace(m, status=RunStatus.NO_WINDOW, times_s=(), summary=None)
            for m in result.measurements
        )
        return replace(result, measurements=none)

    report = runner.run_campaign(CAMPAIGN, _Scripted(losing), tmp_path, seed=1)
    dataset = read_parquet(tmp_path)
    assert report.unmeasured_cells == 0
    assert len(dataset.cells()) == len(TIMES) * len(MSIZES)
    first = dataset.frame[dataset.frame["launch"] == lost[0]]
    assert set(first["status"]) == {"no_window"}


def test_one_hang_costs_a_small_share_of_the_budget(tmp_path: Path) -> None:
    """The limit of a hang follows from the budget; what else was measured is used."""
    seen: list[float] = []

    def hanging(plan: LaunchPlan, launch: str, _folder: Path) -> LaunchResult | None:
        seen.append(plan.patience_s)
        if not any(plan.cells[step.cell] == _cell("fast", 64) for step in plan.steps):
            return None
        cell = _cell("fast", 64)
        hang = Measurement(cell.instance, cell.configuration, launch, RunStatus.TIMEOUT)
        return LaunchResult((hang,), Ending.HANG, 0.0, 1.0, cell)

    report = runner.run_campaign(CAMPAIGN, _Scripted(hanging), tmp_path / "short", seed=0)
    assert report.measurements
    assert max(seen) <= 0.2 * CAMPAIGN.total_s
    seen.clear()
    long = CAMPAIGN.changed(total_s=10000.0)
    runner.run_campaign(long, _Scripted(hanging), tmp_path / "long", seed=0)
    assert set(seen) == {15.0}
