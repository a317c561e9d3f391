"""Running campaigns, with the replay backend or a scripted one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from colltune.bench import runner
from colltune.bench.backends import raw
from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult
from colltune.bench.backends.replay import ReplayBackend
from colltune.bench.campaign import Campaign
from colltune.bench.cells import cells_of
from colltune.bench.launch_folder import new_launch, salvage_all
from colltune.bench.schedule import Cell
from colltune.dataset import PerformanceDataset, read_parquet
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import BudgetError, OutputError

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


class _Interrupted(ReplayBackend):
    """Is interrupted in its first launch, which leaves raw output behind."""

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        _leave_raw_output(folder, plan.cells, launch)
        raise KeyboardInterrupt

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        cells, launch = raw.load_cells(folder / "cells.json")
        return raw.measurements(raw.read_raw(folder / "raw.txt"), cells, launch)


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
    with pytest.raises(BudgetError, match="nothing could be measured within 30 s"):
        runner.run_campaign(CAMPAIGN, backend, tmp_path)


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    """An interrupt during a launch stores the complete repetitions and is passed on."""
    with pytest.raises(KeyboardInterrupt):
        runner.run_campaign(CAMPAIGN, _Interrupted(_recorded()), tmp_path)
    (kept,) = read_parquet(tmp_path).measurements()
    assert kept.times_s == (1e-6, 2e-6)
    assert salvage_all(tmp_path, _Interrupted(_recorded())) == 0


def test_the_next_run_salvages_a_killed_one(tmp_path: Path) -> None:
    """Raw output that a killed run left is added once; that of a living run is left alone."""
    backend = _Interrupted(_recorded())
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


def test_a_launch_killed_at_its_start_leaves_nothing_to_salvage(tmp_path: Path) -> None:
    """A folder without a list of cells, or with half of one, is passed over."""
    for number, text in enumerate(["", '{"version": 1, "la']):
        folder = tmp_path / "raw" / str(number)
        folder.mkdir(parents=True)
        launch = {"context": asdict(CONTEXT), "provenance": {}}
        (folder / "launch.json").write_text(json.dumps(launch))
        if text:
            (folder / "cells.json").write_text(text)
    assert salvage_all(tmp_path, _Interrupted(_recorded())) == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_place_is_an_error_before_measuring(tmp_path: Path) -> None:
    """A dataset folder that cannot be written is an error that names it."""
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="name a writable folder"):
        runner.run_campaign(CAMPAIGN, ReplayBackend(_recorded()), tmp_path / "d")


def test_a_file_in_the_way_is_an_error_before_measuring(tmp_path: Path) -> None:
    """A dataset folder that cannot be made is an error that names it."""
    (tmp_path / "d").write_text("")
    with pytest.raises(OutputError, match="cannot write the dataset"):
        runner.run_campaign(CAMPAIGN, ReplayBackend(_recorded()), tmp_path / "d")


def test_large_buffers_are_left_out() -> None:
    """Cells whose buffers would be too large on a rank are not measured."""
    campaign = CAMPAIGN.changed(max_buffer_bytes=64)
    cells = cells_of(campaign, ReplayBackend(_recorded()), SHAPE)
    assert {cell.instance.msize_bytes for cell in cells} == {8, 64}


class _Silent(ReplayBackend):
    """Replays its first launch; every later one hangs before its first cell."""

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        if any(folder.parent.glob("*/done")):
            return LaunchResult((), Ending.HANG, 0.0, 1.0, message="mpirun said nothing")
        return super().run(plan, launch, folder, progress)


def test_a_launch_that_hangs_before_its_first_cell_is_told(tmp_path: Path) -> None:
    """Where no cell is to blame for a hang, the report says what the program said."""
    report = runner.run_campaign(CAMPAIGN, _Silent(_recorded(), launch_s=0.0), tmp_path, seed=1)
    assert report.measurements > 0
    assert any("mpirun said nothing" in problem for problem in report.problems)
