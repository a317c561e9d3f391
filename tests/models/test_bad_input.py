"""Data as they come: too few, too strange, too far. An answer with its reason, never a crash."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.decisions import Selection
from colltune.domain import Collective, Instance, Measurement, RunStatus, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.models.learners import LEARNERS
from colltune.selector.argmin import ModelSelector
from tests.models.machines import CONTEXT, FORMULAS, configuration, measured
from tests.refusals import refused

_R = {n for n, e in LEARNERS.items() if e.program}
_WITH_R = bool(os.environ.get("COLLTUNE_TEST_R")) and shutil.which("Rscript") is not None
_MISSING = set() if _WITH_R else _R
# the same trees, on the same columns in the same order: xgboost's answers are its own, too
_TWINS = {"published_xgboost"}
EVERY = pytest.mark.parametrize(
    "learner",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                name in _MISSING, reason="each fit starts R; set COLLTUNE_TEST_R to try it"
            ),
        )
        for name in LEARNERS
        if name not in _TWINS
    ],
)
# models that know an algorithm's cost do not believe that all algorithms take the same time
_OF_DATA_ALONE = [n for n, e in LEARNERS.items() if not e.informed and n not in _MISSING | _TWINS]
FAR = (
    Instance(Collective.BCAST, Shape(2, 10**6), 4096),
    Instance(Collective.BCAST, Shape(2, 4), 2**40),
    Instance(Collective.BCAST, Shape(10**6, 1), 64),
    Instance(Collective.BCAST, Shape(10**5, 10**5), 2**62),
)


def _times(algorithm: str, instance: Instance, times_s: Iterable[float]) -> Measurement:
    return Measurement(instance, configuration(algorithm), "one", RunStatus.OK, tuple(times_s))


def _small(algorithms: Iterable[str] = tuple(FORMULAS)) -> PerformanceDataset:
    """Return measurements of three node counts, two ppn and three sizes."""
    return measured(nodes=(2, 4, 8), ppn=(1, 4), msizes=(64, 4096, 262144), algorithms=algorithms)


def _bcast(nodes: int, ppn: int, msize: int) -> Instance:
    return Instance(Collective.BCAST, Shape(nodes, ppn), msize)


def _selected(bundle: Bundle, instances: Iterable[Instance]) -> list[Selection]:
    """Return the selections, each with numbers that are numbers and a reason."""
    selections = ModelSelector(bundle).select_many(list(instances))
    for selection in selections:
        assert selection.reason
        for prediction in (selection.prediction, selection.default):
            if prediction is not None:
                assert np.isfinite([prediction.time_s, prediction.lower_s]).all()
                assert 0 < prediction.lower_s <= prediction.upper_s
    return selections


def _grid() -> list[Instance]:
    return [
        _bcast(n, p, m) for n in (1, 2, 3, 4, 8, 9, 16) for p in (1, 3, 4) for m in (0, 64, 5000)
    ]


@EVERY
def test_three_measurements_in_all(learner: str) -> None:
    """Three cells of three configurations at one instance: elsewhere the default is kept."""
    here = _bcast(2, 4, 64)
    rows = [_times(a, here, [t]) for a, t in (("default", 3e-6), ("chain", 1e-6), ("ring", 9e-6))]
    bundle = fit(PerformanceDataset.of(CONTEXT, rows), learner, jobs=1)
    elsewhere = [i for i in _grid() if i.shape != here.shape]
    assert all(s.configuration.is_default for s in _selected(bundle, elsewhere))
    (there,) = _selected(bundle, [here])
    assert there.configuration in (configuration("default"), configuration("chain"))


@EVERY
def test_a_single_measurement(learner: str) -> None:
    """One cell, and not even of the default, is fitted, and the default is kept elsewhere."""
    only = [_times("chain", _bcast(2, 4, 64), [1e-6])]
    bundle = fit(PerformanceDataset.of(CONTEXT, only), learner, jobs=1)
    elsewhere = [i for i in _grid() if i.shape != Shape(2, 4)]
    assert all(s.configuration.is_default for s in _selected(bundle, elsewhere))


@EVERY
def test_one_node_count(learner: str) -> None:
    """Measured on 4 nodes alone, nobody bets on anything but the default on far more."""
    bundle = fit(measured(nodes=(4,), ppn=(1, 4)), learner, jobs=1)
    far = [_bcast(n, 4, 4096) for n in (17, 64, 4096)]
    assert all(s.configuration.is_default for s in _selected(bundle, far))
    _selected(bundle, _grid())


@EVERY
def test_a_configuration_with_one_point(learner: str) -> None:
    """A configuration measured once, very fast, is chosen at no other shape."""
    lucky = _times("lucky", _bcast(4, 4, 4096), [1e-9])
    data = PerformanceDataset.of(CONTEXT, [*_small().measurements(), lucky])
    bundle = fit(data, learner, jobs=1)
    elsewhere = [i for i in _grid() if i.shape != Shape(4, 4)]
    assert "lucky" not in {s.configuration.algorithm for s in _selected(bundle, elsewhere)}


@EVERY
def test_outliers_of_a_thousand(learner: str) -> None:
    """One repetition of each ten 1000 times as long changes no decision and no prediction."""
    clean, dirty = [], []
    for row in _small().measurements():
        (time_s,) = row.times_s
        times_s = time_s * np.linspace(0.98, 1.02, 11)
        clean.append(_times(row.configuration.algorithm, row.instance, times_s))
        times_s[10] *= 1000.0
        dirty.append(_times(row.configuration.algorithm, row.instance, times_s))
    both = [fit(PerformanceDataset.of(CONTEXT, rows), learner, jobs=1) for rows in (clean, dirty)]
    undisturbed, disturbed = (_selected(bundle, _grid()) for bundle in both)
    assert [s.configuration for s in undisturbed] == [s.configuration for s in disturbed]


@EVERY
def test_a_cell_of_a_thousand_times_its_neighbours(learner: str) -> None:
    """A cell that is wrong by 1000 leaves all predictions numbers, or is named in an error."""
    rows = list(_small().measurements())
    bad = rows[len(rows) // 2]
    rows[len(rows) // 2] = _times(
        bad.configuration.algorithm, bad.instance, [1000 * t for t in bad.times_s]
    )
    problem = ""
    try:
        bundle = fit(PerformanceDataset.of(CONTEXT, rows), learner, jobs=1)
        _selected(bundle, _grid())
    except DataError as error:
        problem = str(error)
    assert not problem or (
        problem.startswith(bad.configuration.id) and "Try another learner" in problem
    )


@EVERY
def test_a_bimodal_configuration_does_not_pass_for_its_fast_mode(learner: str) -> None:
    """Fast in six calls of ten and 20 times slower in four, it is not chosen over the default."""
    rows = []
    for row in _small(("default", "linear")).measurements():
        rows.append(row)
        if row.configuration.is_default:
            (time_s,) = row.times_s
            modes = [0.5 * time_s] * 6 + [10 * time_s] * 4
            rows.append(_times("bimodal", row.instance, modes))
    bundle = fit(PerformanceDataset.of(CONTEXT, rows), learner, jobs=1)
    known = [_bcast(n, p, m) for n in (2, 4, 8) for p in (1, 4) for m in (64, 4096, 262144)]
    assert "bimodal" not in {s.configuration.algorithm for s in _selected(bundle, known)}


@EVERY
def test_far_beyond_everything_measured_the_default_is_kept(learner: str) -> None:
    """A million processes per node, a tebibyte, a million nodes: the default, and why."""
    for selection in _selected(fit(_small(), learner, jobs=1), FAR):
        assert selection.configuration.is_default
        assert selection.extrapolated
        assert "far from what was measured" in selection.reason or "default" in selection.reason


@pytest.mark.parametrize("learner", _OF_DATA_ALONE)
def test_equal_times_everywhere_leave_the_default(learner: str) -> None:
    """Where all configurations take the same time there is no gain to be had, and none is seen."""
    rows = [_times(r.configuration.algorithm, r.instance, [5e-6]) for r in _small().measurements()]
    bundle = fit(PerformanceDataset.of(CONTEXT, rows), learner, jobs=1)
    assert all(s.configuration.is_default for s in _selected(bundle, _grid()))


@EVERY
def test_messages_of_no_bytes(learner: str) -> None:
    """Data that include empty messages are fitted and predicted."""
    bundle = fit(measured(nodes=(2, 4, 8), ppn=(1,), msizes=(0, 1, 1024)), learner, jobs=1)
    _selected(bundle, [_bcast(4, 1, 0), _bcast(3, 1, 0)])


@EVERY
def test_times_from_nanoseconds_to_hours(learner: str) -> None:
    """Times over 12 orders of magnitude are learned within a factor of 1000 at the data."""
    rows = [
        _times(a, _bcast(n, 1, 4**k), [1e-9 * 4.0**k * factor])
        for n in (2, 4, 8)
        for k in range(21)
        for a, factor in (("default", 2.0), ("chain", 1.0))
    ]
    bundle = fit(PerformanceDataset.of(CONTEXT, rows), learner, jobs=1)
    for row, selection in zip(rows, _selected(bundle, [r.instance for r in rows]), strict=True):
        assert selection.default is not None
        assert abs(np.log10(selection.default.time_s / row.times_s[0])) < 3


def test_times_that_are_none() -> None:
    """NaN, zero, negative and infinite times are refused with the cell that has them."""
    told = "no-positive-time"
    for bad in (float("nan"), 0.0, -1e-6, float("inf")):
        rows = [*_small().measurements()[1:], _times("linear", _bcast(2, 1, 99), [bad])]
        with refused(told, DataError):
            fit(PerformanceDataset.of(CONTEXT, rows), "knn", jobs=1)


def test_an_unseen_collective() -> None:
    """A collective that was never measured keeps the default, and the reason says so."""
    selector = ModelSelector(fit(_small(), "knn", jobs=1))
    found = selector.select(Instance(Collective.ALLTOALL, Shape(4, 4), 64))
    assert found.configuration.is_default
    assert "alltoall" in found.reason
