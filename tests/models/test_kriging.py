"""Differences found at some instances, carried over to others."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.kriging import NOISE, interpolated
from tests.models.machines import measured


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
