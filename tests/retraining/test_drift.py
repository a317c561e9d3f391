"""Drift: a slower machine is noticed, the luck of allocations is not taken for it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from colltune.dataset import PerformanceDataset, read_parquet
from colltune.domain import Collective, Instance, Shape
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.retraining.drift import Drift, drift
from colltune.retraining.site_file import DriftLimits
from tests.retraining.site import SHAPES, Factor, launch, unchanged

Fitted = tuple[Bundle, list[str]]
_SOME = SHAPES[::2]


def _launches(folder: Path, names: list[str], seed: int, factor: Factor = unchanged) -> list[str]:
    for k, name in enumerate(names):
        launch(folder, name, seed=seed + k, shapes=_SOME, factor=factor)
    return names


def _times(by: float, _algorithm: str, _instance: Instance) -> float:
    return by


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Bundle, list[str]]:
    """Return a dataset of ten launches, the bundle fitted to it, and the launches."""
    folder = tmp_path_factory.mktemp("old")
    old = _launches(folder, [f"old {k}" for k in range(10)], 0)
    return folder, fit(read_parquet(folder), "gam", jobs=1), old


@pytest.fixture
def fitted(base: tuple[Path, Bundle, list[str]], tmp_path: Path) -> tuple[Bundle, list[str]]:
    """Return bundle and launches, the dataset copied to where the test adds to it."""
    folder, bundle, old = base
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return bundle, old


def _found(folder: Path, bundle: Bundle, known: list[str], order: list[str]) -> Drift:
    measured = read_parquet(folder)
    return drift(bundle, measured, {name: name for name in order}, known, order, DriftLimits())


def test_a_slower_fabric_is_noticed(fitted: Fitted, tmp_path: Path) -> None:
    """Ten allocations that take 1.3x the time, amid 10 % of noise between allocations, alarm."""
    bundle, old = fitted
    new = _launches(tmp_path, [f"new {k}" for k in range(10)], 100, lambda _a, _i: 1.3)
    found = _found(tmp_path, bundle, old, [*old, *new])
    assert {"all", "bcast"} <= {shift.of for shift in found.alarms}
    assert found.ratio is not None
    assert 1.15 < found.ratio < 1.45
    assert (found.judged, found.not_judged) == (10 * 48, 0)


@pytest.mark.parametrize("seed", [1000, 2000])
def test_the_luck_of_allocations_is_no_drift(fitted: Fitted, tmp_path: Path, seed: int) -> None:
    """Launches that differ by 10 % between allocations, and by nothing else, are silent."""
    bundle, old = fitted
    new = _launches(tmp_path, [f"new {k}" for k in range(6)], seed)
    found = _found(tmp_path, bundle, old, [*old, *new])
    assert found.shifts
    assert not found.alarms


def test_one_odd_launch_is_no_drift(fitted: Fitted, tmp_path: Path) -> None:
    """A single allocation three times as slow as all others is not taken for the machine."""
    bundle, old = fitted
    new = _launches(tmp_path, [f"new {k}" for k in range(5)], 100)
    new += _launches(tmp_path, ["odd"], 200, lambda _a, _i: 3.0)
    assert not _found(tmp_path, bundle, old, [*old, *new]).alarms


def test_launches_of_one_allocation_are_one_witness(fitted: Fitted, tmp_path: Path) -> None:
    """Ten slow launches alarm; the same ten do not if they all ran in one allocation."""
    bundle, old = fitted
    new = _launches(tmp_path, [f"new {k}" for k in range(10)], 100, lambda _a, _i: 1.3)
    order = [*old, *new]
    together = {name: "the same" if name in new else name for name in order}
    measured, limits = read_parquet(tmp_path), DriftLimits()
    apart = {name: name for name in order}
    assert drift(bundle, measured, apart, old, order, limits).alarms
    assert not drift(bundle, measured, together, old, order, limits).alarms


def test_one_configuration_that_became_slow_is_named(fitted: Fitted, tmp_path: Path) -> None:
    """Where one algorithm alone takes twice the time, it is named, and no collective is."""
    bundle, old = fitted

    def slow(algorithm: str, _instance: object) -> float:
        return 2.0 if algorithm == "binomial" else 1.0

    new = _launches(tmp_path, [f"new {k}" for k in range(8)], 100, slow)
    found = _found(tmp_path, bundle, old, [*old, *new])
    assert {shift.of for shift in found.alarms} == {"bcast: binomial"}
    assert found.alarm


def test_bundles_that_are_fitted_anew_do_not_hide_it(fitted: Fitted, tmp_path: Path) -> None:
    """If the bundle in force was fitted to the slow launches, too, the latest still tell."""
    _, old = fitted
    new = _launches(tmp_path, [f"new {k}" for k in range(10)], 100, lambda _a, _i: 1.4)
    bundle = fit(read_parquet(tmp_path), "gam", jobs=1)
    order = [*old, *new]
    found = _found(tmp_path, bundle, order[:-1], order)
    assert {shift.since for shift in found.alarms} == {"latest"}
    assert not _found(tmp_path, bundle, order, order[::-1]).judged


def test_what_the_bundle_does_not_know_is_not_judged(fitted: Fitted, tmp_path: Path) -> None:
    """New shapes and new collectives are counted as not judged, and cause no alarm."""
    bundle, old = fitted
    launch(tmp_path, "new", seed=9, shapes=[Shape(32, 4)], factor=lambda _a, _i: 9.0)
    launch(tmp_path, "other", seed=9, collectives=[Collective.SCAN])
    found = _found(tmp_path, bundle, old, [*old, "new", "other"])
    assert (found.judged, found.not_judged) == (0, 12 + 96)
    assert not found.alarms


def test_without_reference_predictions_count_with_their_error(
    fitted: Fitted, tmp_path: Path
) -> None:
    """Where none of the bundle's own launches are left, only a large change alarms."""
    bundle, old = fitted
    frames = {}
    for name, by in (("same", 1.0), ("ten", 10.0)):
        folder = tmp_path / name
        _launches(folder, [f"new {k}" for k in range(8)], 100, partial(_times, by))
        frames[name] = _found(folder, bundle, old, [f"new {k}" for k in range(8)])
    assert not frames["same"].alarms
    assert frames["ten"].alarms


def test_nothing_new_is_no_drift(fitted: Fitted, tmp_path: Path) -> None:
    """Without a new launch, or without any timed row, nothing is found and nothing fails."""
    bundle, old = fitted
    assert _found(tmp_path, bundle, old, old).ratio is None
    measured = read_parquet(tmp_path)
    crashed = PerformanceDataset(measured.context, measured.frame.assign(status="crash"))
    order = {name: name for name in old}
    found = drift(bundle, crashed, order, [], old, replace(DriftLimits(), ratio=1.0))
    assert (found.shifts, found.judged) == ((), 0)
