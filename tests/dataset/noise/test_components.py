"""Variance components of simulated datasets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from colltune.dataset.noise import Component, Group, measured, noise_report
from colltune.evidence.repetitions import median_factor
from tests.dataset.noise.simulated import Machine, simulate


def _overall(machine: Machine, seed: int = 1) -> Group:
    dataset, allocations = simulate(machine, seed)
    table = measured(dataset, allocations)
    return noise_report(table, dataset.context, allocations).overall


def _holds(component: Component | None, true_sd: float, relative: float) -> bool:
    assert component is not None
    assert component.sd is not None
    assert component.low <= component.sd <= component.high
    return component.sd == pytest.approx(true_sd, rel=relative)


def test_all_three_components_are_recovered() -> None:
    """Known noise within, between launches and between allocations is told apart."""
    machine = Machine(within=0.10, launch=0.04, allocation=0.08, allocations=8, launches=4, reps=60)
    group = _overall(machine)
    assert group.within.spread == pytest.approx(0.10, rel=0.1)
    assert group.within.p90_over_median == pytest.approx(math.exp(1.2816 * 0.10), rel=0.03)
    assert _holds(group.between_launches, 0.04, 0.15)
    assert _holds(group.between_allocations, 0.08, 0.15)
    assert not group.includes_launches


@pytest.mark.parametrize("reps", [5, 15, 80])
def test_scatter_of_few_repetitions_is_not_taken_for_noise_between_launches(reps: int) -> None:
    """Launches that differ by chance only, however few repetitions they have, differ by nothing.

    The medians of 5 repetitions that scatter by 30 % differ by 17 %; none of it is the launches'.
    """
    group = _overall(Machine(within=0.30, launches=4, reps=reps))
    between = group.between_launches
    assert between is not None
    naive = 0.3 * math.sqrt(median_factor(reps))
    assert between.typical_ratio > math.exp(0.9 * 0.6745 * math.sqrt(2) * naive)
    assert between.high < 0.7 * naive
    assert between.sd is None or between.sd < 0.4 * naive


def test_launches_that_differ_are_not_taken_for_noise_between_allocations() -> None:
    """Allocations of two launches each that differ by 15 % differ themselves by nothing."""
    group = _overall(Machine(within=0.05, launch=0.15, allocations=6, launches=2, msizes=40))
    assert _holds(group.between_launches, 0.15, 0.2)
    between = group.between_allocations
    assert between is not None
    assert between.typical_ratio > math.exp(0.08)
    assert math.sqrt(between.variance) < 0.05


def test_small_noise_between_launches_is_seen_beneath_large_scatter() -> None:
    """5 % between launches is found although medians of 15 repetitions scatter by 10 %."""
    group = _overall(Machine(within=0.30, launch=0.05, launches=6, reps=15, msizes=100))
    assert _holds(group.between_launches, 0.05, 0.3)


def test_repetitions_that_resemble_each_other_count_for_fewer() -> None:
    """Autocorrelated repetitions are not taken for noise between launches."""
    machine = Machine(within=0.20, correlation=0.8, launches=4, reps=200)
    group = _overall(machine)
    assert group.within.autocorrelation == pytest.approx(0.8, abs=0.08)
    between = group.between_launches
    assert between is not None
    # nine times fewer independent ones: medians scatter by 5 %, which must not be left over
    assert between.typical_ratio > math.exp(0.04)
    assert math.sqrt(between.variance) < 0.03


def test_summaries_tell_the_same() -> None:
    """From medians, p90 and repetitions counts alone, the components are recovered too."""
    machine = Machine(within=0.10, launch=0.04, launches=6, reps=60, msizes=80, raw=False)
    group = _overall(machine)
    assert _holds(group.between_launches, 0.04, 0.25)
    assert group.within.raw_share == 0
    assert group.within.spread == pytest.approx(0.10, rel=0.15)
    assert (group.within.warm_up, group.within.drifting_share) == (None, None)


def test_shift_of_a_whole_launch_does_not_disturb_comparisons() -> None:
    """What hits all configurations of a launch alike is between launches, but cancels in ratios."""
    machine = Machine(within=0.05, launch=0.02, launch_shift=0.10, launches=20, msizes=20)
    group = _overall(machine)
    assert _holds(group.between_launches, math.hypot(0.10, 0.02), 0.4)
    assert _holds(group.comparing_launches, 0.02, 0.2)
    assert group.decisions is not None
    assert group.decisions.smallest_detectable is not None
    assert group.decisions.smallest_detectable < math.expm1(1.96 * 0.10)


def test_one_launch_per_allocation_cannot_tell_launches_from_allocations() -> None:
    """Then both are told as one, and it is said so."""
    group = _overall(Machine(within=0.05, launch=0.06, allocation=0.08, allocations=6, launches=1))
    assert group.between_launches is None
    assert group.includes_launches
    assert _holds(group.between_allocations, 0.10, 0.2)


def test_one_launch_tells_nothing_between() -> None:
    """With a single launch the components are unknown, not zero, and the bound is a lower one."""
    group = _overall(Machine(within=0.05, launches=1))
    assert (group.between_launches, group.between_allocations) == (None, None)
    assert group.decisions is not None
    assert group.decisions.is_lower_bound
    assert (group.decisions.launches_here, group.decisions.allocations) == (None, None)


def test_outliers_do_not_decide() -> None:
    """One launch in ten that is 5x slower leaves the component as it is."""
    dataset, allocations = simulate(Machine(within=0.05, launch=0.05, launches=10))
    hit = np.random.default_rng(3).random(len(dataset.frame)) < 0.1
    dataset.frame.loc[hit, "time_s"] *= 5
    dataset.frame["times_s"] = [
        tuple(5 * t for t in times) if slow else times
        for times, slow in zip(dataset.frame["times_s"], hit, strict=True)
    ]
    table = measured(dataset, allocations)
    group = noise_report(table, dataset.context, allocations).overall
    assert _holds(group.between_launches, 0.05, 0.4)
    assert group.between_launches is not None
    assert group.between_launches.p95_ratio > 4


@pytest.mark.parametrize("seed", range(4))
def test_interval_holds_the_truth_with_many_launches(seed: int) -> None:
    """With launches that shift as a whole, the interval tells the scatter over launches."""
    machine = Machine(within=0.05, launch_shift=0.10, launches=8, msizes=10, reps=20)
    between = _overall(machine, seed).between_launches
    assert between is not None
    assert between.low < 0.10 < between.high
