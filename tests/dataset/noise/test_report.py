"""The noise report as a whole."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import join
from colltune.dataset.noise import Allocations, NoiseLevel, NoiseReport, measured, noise_report
from colltune.domain import (
    Collective,
    Configuration,
    Instance,
    LaunchStatistics,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import DataError
from tests.dataset.noise.simulated import CONTEXT, Machine, simulate
from tests.refusals import refused


def _report(dataset: PerformanceDataset, allocations: Allocations) -> NoiseReport:
    return noise_report(measured(dataset, allocations), dataset.context, allocations)


def test_collectives_are_told_apart() -> None:
    """A quiet and a noisy collective of one dataset have their own components."""
    quiet = Machine(within=0.02, launch=0.01, launches=4)
    noisy = replace(quiet, within=0.2, launch=0.1, collective=Collective.ALLREDUCE)
    parts = [simulate(machine) for machine in (quiet, noisy)]
    report = _report(join([dataset for dataset, _ in parts]), parts[0][1])
    allreduce, bcast = report.collectives
    assert (allreduce.name, bcast.name) == ("allreduce", "bcast")
    assert allreduce.between_launches is not None
    assert bcast.between_launches is not None
    assert allreduce.between_launches.variance == pytest.approx(0.01, rel=0.6)
    assert bcast.between_launches.variance == pytest.approx(0.0001, rel=0.6)
    assert all(cell.configuration.startswith("openmpi.allreduce.") for cell in report.noisiest)


def test_smallest_detectable_difference_follows_from_the_components() -> None:
    """With 4 % between launches and 4 launches, it is 1.96 standard errors of two medians."""
    report = _report(*simulate(Machine(within=0.01, launch=0.04, launches=4, allocations=3)))
    decisions = report.overall.decisions
    assert decisions is not None
    assert not decisions.is_lower_bound
    assert (decisions.launches_per_cell, decisions.allocations_per_cell) == (12, 3)
    # the median of 12 varies by pi / (2 * 12 + pi - 2) = 0.125
    expected = math.expm1(1.96 * math.sqrt(2 * 0.125) * 0.04)
    assert decisions.smallest_detectable == pytest.approx(expected, rel=0.2)
    assert decisions.main_source is NoiseLevel.LAUNCHES


def test_launches_that_show_five_percent_do() -> None:
    """A dataset with as many launches as were asked for tells 5 % apart."""
    machine = Machine(within=0.05, launch=0.06, launches=3)
    asked = _report(*simulate(machine)).overall.decisions
    assert asked is not None
    assert asked.smallest_detectable is not None
    assert asked.smallest_detectable > 0.05
    assert asked.launches_here is not None
    answer = _report(*simulate(replace(machine, launches=asked.launches_here))).overall.decisions
    assert answer is not None
    assert answer.smallest_detectable == pytest.approx(0.05, rel=0.25)


def test_noise_between_allocations_is_not_helped_by_more_launches() -> None:
    """When allocations differ by 20 %, no number of launches in two of them shows 5 %."""
    machine = Machine(within=0.02, allocation=0.2, allocations=2, launches=3)
    decisions = _report(*simulate(machine)).overall.decisions
    assert decisions is not None
    assert decisions.main_source is NoiseLevel.ALLOCATIONS
    assert decisions.launches_here is None
    assert decisions.allocations is not None
    assert decisions.allocations > 20


def test_gain_over_the_default_is_seen_when_it_is_beyond_the_noise() -> None:
    """A configuration that is twice as fast as the default is; one that is not is not."""
    dataset, allocations = simulate(Machine(within=0.02, launch=0.02, algorithms=("default", "x")))
    instance = dataset.frame["msize_bytes"].map({8 * (i + 1): i for i in range(25)})
    level = np.where(dataset.frame["algorithm"] == "x", np.where(instance < 10, 0.5, 1.0), 1.0)
    by_cell = dataset.frame.groupby(["msize_bytes", "algorithm"])["time_s"].transform("median")
    dataset.frame["time_s"] *= level * 1e-5 / by_cell
    decisions = _report(dataset, allocations).overall.decisions
    assert decisions is not None
    assert decisions.default_beaten_share == pytest.approx(10 / 25)


def test_groups_borrow_what_they_do_not_tell() -> None:
    """A collective with a single launch is judged by what launches of the others differ by."""
    many, allocations = simulate(Machine(within=0.02, launch=0.05, launches=6))
    few, _ = simulate(Machine(within=0.02, launches=1, collective=Collective.SCAN))
    report = _report(join([many, few]), allocations)
    bcast, scan = report.collectives
    assert (bcast.borrows, scan.borrows) == (False, True)
    assert scan.between_launches is None
    assert scan.decisions is not None
    assert scan.decisions.smallest_detectable is not None
    assert scan.decisions.smallest_detectable > math.expm1(1.96 * math.sqrt(2) * 0.03)


def test_two_modes_are_listed() -> None:
    """A cell that alternates between two times is named with their ratio."""
    dataset, allocations = simulate(Machine(within=0.02, launch=0.02))
    times = list(dataset.frame["times_s"])
    times[7] = tuple(t * (1 + 2 * (i % 2)) for i, t in enumerate(times[7]))
    dataset.frame["times_s"] = times
    report = _report(dataset, allocations)
    assert report.bimodal_cells == 1
    assert report.bimodal[0].configuration == "openmpi.bcast.ring"
    assert report.bimodal[0].msize_bytes == 16
    assert report.bimodal[0].modes_ratio == pytest.approx(3, rel=0.05)


def test_poorest_dataset_is_told_without_numbers(subtests: pytest.Subtests) -> None:
    """One measurement of one time has a report: nothing is known, and it is fit for JSON."""
    for summary in (None, LaunchStatistics(1, 1e-6, *[math.nan] * 4)):
        with subtests.test(summary=summary):
            measurement = Measurement(
                Instance(Collective.BARRIER, Shape(2, 1), 0),
                Configuration.default("openmpi", Collective.BARRIER),
                "a",
                RunStatus.OK,
                () if summary else (1e-6,),
                summary,
            )
            dataset = PerformanceDataset.of(CONTEXT, [measurement])
            report = _report(dataset, Allocations({"a": "job"}, {}))
            told = json.loads(json.dumps(asdict(report), allow_nan=False))["overall"]
            assert (told["cells"], told["decisions"], told["between_launches"]) == (1, None, None)
            assert told["within"]["spread"] is None


def test_zero_times_of_a_coarse_clock_do_no_harm() -> None:
    """Repetitions of 0 s neither fail nor make a component infinite."""
    dataset, allocations = simulate(Machine(within=0.05, launch=0.02))
    dataset.frame["times_s"] = [(0.0, *times[1:]) for times in dataset.frame["times_s"]]
    between = _report(dataset, allocations).overall.between_launches
    assert between is not None
    assert math.isfinite(between.high)


def test_nothing_measured_well_is_an_error() -> None:
    """A dataset of crashes has no noise."""
    crash = Measurement(
        Instance(Collective.BCAST, Shape(2, 1), 8),
        Configuration.default("openmpi", Collective.BCAST),
        "a",
        RunStatus.CRASH,
    )
    with refused("no-noise", DataError):
        measured(PerformanceDataset.of(CONTEXT, [crash]), Allocations({"a": "job"}, {}))
