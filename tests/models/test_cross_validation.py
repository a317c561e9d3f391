"""What is held out, and how good the decisions on it are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.cross_validation import HeldOut, folds
from colltune.models.guard import Guard
from colltune.models.launch_noise import LaunchNoise
from tests.models.machines import measured


@pytest.mark.parametrize(
    ("nodes", "ppn", "attribute"),
    [((2, 4, 8, 16), (1, 4), "nodes"), ((2, 4), (1, 4), "nprocs"), ((2,), (4,), "msize_bytes")],
)
def test_whole_groups_are_held_out(
    nodes: Iterable[int], ppn: Iterable[int], attribute: str
) -> None:
    """Node counts are held out whole if there are three, else shapes, else message sizes."""
    (cells,) = cell_matrices(measured(nodes=nodes, ppn=ppn)).values()
    fold_of = folds(cells)
    groups = getattr(cells, attribute)
    assert len(set(fold_of.tolist())) == min(5, len(set(groups.tolist())))
    for value in set(groups.tolist()):
        assert len(set(fold_of[groups == value].tolist())) == 1


def test_a_single_instance_cannot_be_held_out() -> None:
    """One shape and one message size make one fold, which means none."""
    (cells,) = cell_matrices(measured(nodes=(2,), ppn=(1,), msizes=(64,))).values()
    assert folds(cells).tolist() == [0]


def test_figures_of_held_out_decisions() -> None:
    """The best choices have all of the gain and no harm, the worst ones harm everywhere."""
    (cells,) = cell_matrices(measured(nodes=(2, 3, 4, 6, 8, 12, 16), ppn=(1, 2))).values()
    perfect = held_out(cells, cells.time_s)
    assert perfect.figures(cells, Guard()) == {
        "instances": len(cells),
        "regret": 0.0,
        "share": 1.0,
        "harm": 0.0,
    }
    worst = held_out(cells, 1.0 / cells.time_s).figures(cells, Guard())
    lost = np.log(cells.time_s.max(axis=1) / cells.time_s.min(axis=1)).mean()
    assert worst["regret"] == pytest.approx(lost)
    assert worst["harm"] == pytest.approx(1.0, abs=0.1)
    nothing = held_out(cells, np.full_like(cells.time_s, np.nan))
    assert nothing.figures(cells, Guard())["instances"] == 0


def test_harm_within_noise_and_choices_that_did_not_run_are_none() -> None:
    """They count as the default's time, or as no harm."""
    (cells,) = cell_matrices(measured(nodes=(2, 3, 4, 6, 8, 12, 16), ppn=(1, 2))).values()
    worst = held_out(cells, 1.0 / cells.time_s)
    noisy = replace(cells, noise=LaunchNoise(own=10.0))
    assert worst.figures(noisy, Guard())["harm"] == 0.0
    column = cells.default_column
    only_default = np.where(np.arange(cells.time_s.shape[1]) == column, cells.time_s, np.nan)
    absent = worst.figures(replace(cells, time_s=only_default), Guard())
    assert (absent["regret"], absent["harm"]) == (0.0, 0.0)


def held_out(cells: CellMatrix, predicted_s: NDArray[np.float64]) -> HeldOut:
    """Return forecasts without doubt."""
    n, shape = len(cells), cells.time_s.shape
    return HeldOut(
        predicted_s, np.ones(shape, np.bool_), np.zeros(shape), np.zeros(n), np.zeros(n, np.bool_)
    )
