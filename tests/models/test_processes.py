"""Gaussian processes: those that fill gaps and carry a level, and differences between machines."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.gaussian_process import Level, SharedProcess, StandardisedInputs
from colltune.models.transfer import NOISE, interpolated
from tests.models.machines import measured

Numbers = np.typing.NDArray[np.float64]


def _surface(seed: int = 0, n: int = 150) -> tuple[Numbers, Numbers]:
    """Return inputs (n, 3), the last constant, and log times of three configurations."""
    rng = np.random.default_rng(seed)
    points = np.column_stack([rng.uniform(0, 20, n), rng.integers(1, 7, n), np.full(n, 2.0)])
    bend = np.maximum(points[:, 0] - 10, 0)
    base = -12 + 0.5 * bend + 0.4 * points[:, 1]
    times = np.column_stack([base, base + 0.3 * np.sin(points[:, 0] / 3), 1.2 * base])
    return points, times + rng.normal(0, 0.01, times.shape)


def _process(points: Numbers, times: Numbers) -> SharedProcess:
    return SharedProcess.chosen(
        StandardisedInputs.of(points, (0, 1, 2)), times, 0.01, np.random.default_rng(1)
    )


def test_gaps_are_filled_from_what_is_known() -> None:
    """Cells taken out at random are predicted to 5 % in the median; the others stay as they are."""
    points, times = _surface()
    gaps = times.copy()
    gaps[np.random.default_rng(2).random(times.shape) < 0.2] = np.nan
    filled = _process(points, gaps).filled(gaps, 600, np.random.default_rng(3))
    unknown = np.isnan(gaps)
    assert np.median(np.abs(filled - times)[unknown]) < 0.05
    np.testing.assert_array_equal(filled[~unknown], times[~unknown])


def test_what_never_varies_is_no_input() -> None:
    """A constant column takes no part, a column of two values is no slope of the mean."""
    points, _ = _surface()
    inputs = StandardisedInputs.of(np.column_stack([points, points[:, 0] > 10]), (0, 1, 2, 3))
    assert inputs.columns.tolist() == [0, 1, 3]
    assert inputs.linear.tolist() == [True, True, False]


def test_level_predicts_what_filling_does() -> None:
    """The exported level and the cells filled in are the same process."""
    points, times = _surface()
    gaps = times[:, :1].copy()
    gaps[100:] = np.nan
    process = _process(points, gaps)
    filled = process.filled(gaps, 600, np.random.default_rng(3))[100:, 0]
    known = StandardisedInputs.of(points, (0, 1, 2))
    part = SharedProcess(
        StandardisedInputs(
            known.columns, known.center, known.scale, known.values[:100], known.linear
        ),
        process.lengths,
        process.noise,
    )
    level = part.level(times[:100, 0], 600, np.random.default_rng(3))
    np.testing.assert_allclose(level.log_time(points[100:]), filled, rtol=1e-9)


def test_level_goes_on_along_its_slope() -> None:
    """Far beyond the data the log time rises as it does near its end."""
    points, times = _surface()
    process = _process(points, times)
    level = process.level(times[:, 0], 600, np.random.default_rng(3))
    far = np.array([[40.0, 3.0, 2.0], [60.0, 3.0, 2.0]])
    rise = np.diff(level.log_time(far))[0] / 20
    assert 0.2 < rise < 0.6


def test_level_survives_its_arrays() -> None:
    """Rebuilt from its arrays it predicts the same numbers."""
    points, times = _surface()
    level = _process(points, times).level(times[:, 0], 50, np.random.default_rng(3))
    rebuilt = Level.from_arrays(level.arrays())
    np.testing.assert_array_equal(rebuilt.log_time(points), level.log_time(points))


@pytest.mark.parametrize("n", [1, 2])
def test_hardly_any_point_is_enough(n: int) -> None:
    """One or two instances give their own time back."""
    points, times = np.ones((n, 3)), np.full((n, 2), -12.0)
    level = _process(points, times).level(times[:, 0], 600, np.random.default_rng(3))
    np.testing.assert_allclose(level.log_time(points), -12.0)


def test_long_lengths_are_chosen_for_smooth_times() -> None:
    """An input along which log times are a straight line gets a longer length than a bent one."""
    points, times = _surface()
    lengths = _process(points, times[:, 1:2]).lengths
    assert lengths[0] < lengths[1]


def _cells(nodes: list[int], msizes: list[int]) -> CellMatrix:
    (cells,) = cell_matrices(measured(nodes=nodes, ppn=[1], msizes=msizes)).values()
    return cells


def test_a_difference_fades_with_distance() -> None:
    """At the very instance most of it is kept, far away only what all instances share."""
    found = _cells([4], [1024])
    near, far = (_cells([n], [m]) for n, m in ((4, 1024), (4096, 1 << 30)))
    difference = np.array([[1.0]])
    at = [interpolated(found, difference, c, common=0.5)[0, 0] for c in (found, near, far)]
    assert at[0] == at[1] == pytest.approx(1.5 / (1.5 + NOISE))
    assert at[2] == pytest.approx(0.5 / (1.5 + NOISE), abs=0.01)


def test_many_instances_that_agree_are_believed() -> None:
    """What dense instances say alike is found between them."""
    found = _cells([2, 4, 8, 16], [4**k for k in range(10)])
    between = _cells([6], [3000])
    said = interpolated(found, np.full((len(found), 1), 0.7), between, common=0.3)
    assert said[0, 0] == pytest.approx(0.7, abs=0.03)


def test_columns_do_not_mix_and_unknown_ones_are_zero() -> None:
    """Each column is judged by its own cells; NaN are passed over."""
    found = _cells([4, 8], [1024, 4096])
    first = np.array([1.0, np.nan, 2.0, 0.5])
    columns = np.column_stack([first, np.full(4, np.nan), np.full(4, 3.0)])
    together = interpolated(found, columns, found, common=0.3)
    alone = interpolated(found, first[:, None], found, common=0.3)
    np.testing.assert_allclose(together[:, [0]], alone)
    assert not together[:, 1].any()
