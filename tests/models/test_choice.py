"""Which learner decides."""

from __future__ import annotations

import json

import numpy as np
import pytest

from colltune.domain import Collective
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.choice import PREFERRED, choose, figures_of
from colltune.models.cross_validation import HeldOut
from colltune.models.fitting import fit
from tests.models.machines import measured


def cells_of(nodes: tuple[int, ...] = (2, 3, 4, 6, 8, 12, 16)) -> CellMatrix:
    """Return the cells of the made-up machine."""
    (cells,) = cell_matrices(measured(nodes=nodes, ppn=(1, 2))).values()
    return cells


def perfect(cells: CellMatrix) -> HeldOut:
    """Return predictions that are the truth."""
    return HeldOut(cells.time_s, np.isfinite(cells.time_s))


def upside_down(cells: CellMatrix) -> HeldOut:
    """Return predictions that choose the worst."""
    return HeldOut(1.0 / cells.time_s, np.isfinite(cells.time_s))


def test_a_rival_that_is_better_beyond_chance_is_taken() -> None:
    """With seven node counts a learner that is always right replaces one that is always wrong."""
    cells = cells_of()
    choice = choose({PREFERRED: upside_down(cells), "knn": perfect(cells)}, cells)
    assert (choice.learner, choice.figures["knn"]["regret"]) == ("knn", 0.0)
    assert "beyond chance" in choice.reason


def test_few_node_counts_compare_nothing() -> None:
    """With three node counts the preferred learner stays, whatever they say, and says why."""
    cells = cells_of((2, 4, 8))
    choice = choose({PREFERRED: upside_down(cells), "knn": perfect(cells)}, cells)
    assert choice.learner == PREFERRED
    assert choice.reason.startswith("too few node counts")


def test_equals_change_nothing() -> None:
    """A rival that is not better does not replace the preferred learner."""
    cells = cells_of()
    assert choose({PREFERRED: perfect(cells), "knn": perfect(cells)}, cells).learner == PREFERRED
    without = choose({"gam": upside_down(cells), "knn": perfect(cells)}, cells)
    assert without.learner == "knn"


def test_figures_of_held_out_decisions() -> None:
    """The best choices have all of the gain and no harm, the worst ones harm everywhere."""
    cells = cells_of()
    best, worst = figures_of(perfect(cells), cells), figures_of(upside_down(cells), cells)
    assert best == {"instances": len(cells), "regret": 0.0, "share": 1.0, "harm": 0.0}
    assert worst["harm"] == pytest.approx(1.0, abs=0.1)
    nothing = HeldOut(np.full_like(cells.time_s, np.nan), np.isfinite(cells.time_s))
    assert figures_of(nothing, cells)["instances"] == 0


def test_the_manifest_tells_the_choice_and_its_evidence() -> None:
    """What stands in a bundle is JSON, and names the learner that its models have."""
    bundle = fit(measured(nodes=(2, 4, 8), ppn=(1,), msizes=(1, 1024)), jobs=1)
    told = json.loads(json.dumps(dict(bundle.evidence)))
    assert told["choice"]["bcast"]["learner"] == bundle.model(Collective.BCAST).learner
    assert set(told["learners"]["bcast"]) == {bundle.model(Collective.BCAST).learner}
