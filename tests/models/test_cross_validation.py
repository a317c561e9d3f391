"""What is held out, and what follows for the choice of a learner."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from colltune.models.cells import cell_matrices
from colltune.models.cross_validation import HeldOut, best_learner, folds
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


def test_regret_is_the_log_of_lost_time() -> None:
    """Regret compares the measured time of what is predicted fastest with the best."""
    (cells,) = cell_matrices(measured(nodes=(4, 8, 16), ppn=(1,))).values()
    perfect = HeldOut(cells.time_s, np.ones(cells.time_s.shape, np.bool_))
    assert perfect.regret(cells) == 0.0
    inverse = HeldOut(1 / cells.time_s, perfect.candidate)
    worst = np.log(cells.time_s.max(axis=1) / cells.time_s.min(axis=1)).mean()
    assert inverse.regret(cells) == pytest.approx(worst)
    nothing = HeldOut(cells.time_s, np.zeros(cells.time_s.shape, np.bool_))
    assert math.isnan(nothing.regret(cells))


@pytest.mark.parametrize(
    ("regrets", "best"),
    [
        ({"knn": 0.1, "gam": 0.05, "xgboost": 0.02}, "xgboost"),
        ({"knn": 0.0225, "gam": 0.0199, "xgboost": 0.02}, "knn"),
        ({"knn": math.nan, "gam": 0.05, "xgboost": 0.2}, "gam"),
        ({"knn": math.nan, "gam": math.nan, "xgboost": math.nan}, "knn"),
    ],
)
def test_the_simplest_of_equals_is_chosen(regrets: dict[str, float], best: str) -> None:
    """The least regret wins, within 0.3 % the simpler learner does, and NaN never."""
    assert best_learner(regrets) == best
