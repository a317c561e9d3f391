"""How far cells' times can be trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.frame import TIME_COLUMNS, join
from colltune.domain import Collective, Measurement
from colltune.evaluation.folds import FoldSource
from colltune.models.cells import cell_matrices
from tests.models.machines import CONTEXT, measured


def repeated(spread: float, repetitions: int) -> PerformanceDataset:
    """Return the made-up machine with so many repetitions, log-normally scattered."""
    rng = np.random.default_rng(0)
    cells = []
    for one in measured(nodes=(2, 4)).measurements():
        assert one.summary is not None
        times = one.summary.time_s * rng.lognormal(0, spread, repetitions)
        cells.append(
            Measurement(one.instance, one.configuration, "one", one.status, tuple(times.tolist()))
        )
    return PerformanceDataset.of(CONTEXT, cells)


def launches(spread: float, n: int) -> PerformanceDataset:
    """Return n launches of one repetition; each cell of each is off by its own factor."""
    rng = np.random.default_rng(0)
    parts = []
    for number in range(n):
        data = measured()
        factor = rng.lognormal(0, spread, len(data))
        times = {c: data.frame[c] * factor for c in TIME_COLUMNS}
        frame = data.frame.assign(launch=f"l{number}", **times)
        frame["times_s"] = [()] * len(frame)
        parts.append(replace(data, frame=frame))
    return join(parts)


def deviations(data: PerformanceDataset, *, one_launch: bool = False) -> np.ndarray:
    """Return the standard deviations of all cells."""
    cells = cell_matrices(data)[Collective.BCAST]
    return np.sqrt(FoldSource(data).noise.variance(cells, one_launch=one_launch))


def test_one_repetition_in_one_launch_tells_nothing() -> None:
    """Without repetitions or launches the noise is unknown, not zero."""
    assert np.isnan(deviations(measured())).all()


def test_repetitions_tell_the_error_of_their_median() -> None:
    """With 25 repetitions of 10 % the median is off by about 0.1 * sqrt(pi / 50)."""
    found = deviations(repeated(0.1, 25))
    assert np.median(found) == pytest.approx(0.1 * np.sqrt(np.pi / 50), rel=0.25)


def test_launches_tell_how_they_differ() -> None:
    """Launches that differ by 10 % make one launch's time uncertain by that, their median less."""
    data = launches(0.1, 4)
    alone, together = (np.median(deviations(data, one_launch=one)) for one in (True, False))
    assert alone == pytest.approx(0.1, rel=0.35)
    assert together < 0.7 * alone


def test_what_changes_all_configurations_alike_is_no_noise() -> None:
    """A launch in which everything is 30 % slower does not disturb the comparison."""
    slower = measured()
    times = {c: slower.frame[c] * 1.3 for c in TIME_COLUMNS}
    frame = slower.frame.assign(launch="slow", **times)
    data = join([measured(), replace(slower, frame=frame)])
    assert deviations(data).max() < 1e-3
