"""What is held out, and how good the decisions on it are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from colltune.models.cells import cell_matrices
from colltune.models.cross_validation import HeldOut, folds
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
    perfect = HeldOut(cells.time_s, np.isfinite(cells.time_s))
    assert perfect.figures(cells) == {
        "instances": len(cells),
        "regret": 0.0,
        "share": 1.0,
        "harm": 0.0,
    }
    worst = HeldOut(1.0 / cells.time_s, perfect.candidate).figures(cells)
    lost = np.log(cells.time_s.max(axis=1) / cells.time_s.min(axis=1)).mean()
    assert worst["regret"] == pytest.approx(lost)
    assert worst["harm"] == pytest.approx(1.0, abs=0.1)
    nothing = HeldOut(np.full_like(cells.time_s, np.nan), perfect.candidate)
    assert nothing.figures(cells)["instances"] == 0
