"""Scatter of replayed measurements."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from colltune.bench.backends.protocol import Ending, LaunchPlan, LaunchResult
from colltune.bench.backends.replay import ReplayBackend, ReplayNoise
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.dataset import PerformanceDataset
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    LaunchStatistics,
    Measurement,
    RunStatus,
    Shape,
)

SHAPE = Shape(4, 2)


def _cell(name: str, shape: Shape = SHAPE) -> Cell:
    configuration = Configuration("openmpi", Collective.BCAST, name)
    return Cell(configuration, Instance(Collective.BCAST, shape, 8))


CELLS = (_cell("plain"), _cell("spread"), _cell("steady"), _cell("plain", Shape(2, 1)))
SUMMARIES = (
    LaunchStatistics(1, 1e-3, *[float("nan")] * 4),
    LaunchStatistics(100, 1e-3, 1e-3, 9e-4, 2e-3, 3e-3),
    LaunchStatistics(100, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3),
    LaunchStatistics(1, 1e-3, *[float("nan")] * 4),
)


def _backend(noise: ReplayNoise | None) -> ReplayBackend:
    record = [
        Measurement(cell.instance, cell.configuration, "l", summary=summary)
        for cell, summary in zip(CELLS, SUMMARIES, strict=True)
    ]
    crashed = _cell("crashes")
    record.append(Measurement(crashed.instance, crashed.configuration, "l", status=RunStatus.CRASH))
    return ReplayBackend(PerformanceDataset.of(Context("m", "openmpi", "5"), record), 1.0, noise)


def _run(
    noise: ReplayNoise | None, cell: int, reps: int, launch: str = "a", budget_s: float = 1e6
) -> LaunchResult:
    steps = (ScheduleStep(cell, reps, 1e6), ScheduleStep(cell, reps, 1e6))
    plan = LaunchPlan(SHAPE, CELLS, steps, budget_s)
    return _backend(noise).run(plan, launch, Path(), lambda _spent_s: None)


def _logs(result: LaunchResult) -> np.typing.NDArray[np.float64]:
    (measurement,) = result.measurements
    return np.log(np.array(measurement.times_s) / 1e-3)


def test_scatters_by_the_default_where_no_spread_is_recorded() -> None:
    """Of a record with one repetition the given scatter is used."""
    logs = _logs(_run(ReplayNoise(repetition=0.2, launch=0.0), 0, 2000))
    assert len(logs) == 4000
    assert abs(logs.std() - 0.2) < 0.01
    assert abs(logs.mean()) < 0.02


def test_scatters_by_the_recorded_spread() -> None:
    """A record's own 90 % quantile is met, and a steady record stays steady."""
    noise = ReplayNoise(repetition=0.2, launch=0.0)
    assert abs(np.quantile(_logs(_run(noise, 1, 2000)), 0.9) - np.log(2.0)) < 0.06
    assert np.ptp(_logs(_run(noise, 2, 50))) == 0.0


def test_a_launch_shifts_a_cell_as_a_whole() -> None:
    """The launch's factor is one for all visits of a cell, and another in the next launch."""
    noise = ReplayNoise(repetition=0.2, launch=0.05)
    first, second = (_logs(_run(noise, 2, 50, launch)) for launch in ("a", "b"))
    assert np.ptp(first) < 1e-12
    assert abs(first[0] - second[0]) > 1e-4


def test_seed_and_launch_determine_the_times() -> None:
    """The same seed and launch give the same times, another seed others."""
    first, again, other = (_logs(_run(ReplayNoise(seed=s), 0, 5)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_time_passes_as_drawn() -> None:
    """A launch takes its start and the very repetitions that it returns."""
    result = _run(ReplayNoise(), 0, 30)
    (measurement,) = result.measurements
    assert abs(result.timed_s - sum(measurement.times_s)) < 1e-12
    assert result.wall_s == 1.0 + result.timed_s


def test_without_noise_the_record_is_repeated() -> None:
    """Without noise every repetition is the recorded median."""
    assert (_logs(_run(None, 0, 3)) == 0).all()


def test_a_smaller_shape_is_replayed_inside_a_larger_launch() -> None:
    """A launch may hold the cells of any shape up to its own."""
    (measurement,) = _run(ReplayNoise(), 3, 2).measurements
    assert measurement.instance.shape == Shape(2, 1)


def test_a_spent_budget_leaves_no_trace_of_what_was_not_reached() -> None:
    """A launch whose budget is its start alone brings nothing."""
    result = _run(ReplayNoise(), 0, 2, budget_s=1.0)
    assert result.measurements == ()
    assert result.ending is Ending.BUDGET


def test_what_crashed_crashes_again() -> None:
    """A recorded crash is replayed as one, without times."""
    backend, cell = _backend(ReplayNoise()), _cell("crashes")
    plan = LaunchPlan(SHAPE, (cell,), (ScheduleStep(0, 3, 1.0),), 9.0)
    (measurement,) = backend.run(plan, "a", Path(), lambda _spent_s: None).measurements
    assert measurement.status is RunStatus.CRASH
    assert measurement.times_s == ()
