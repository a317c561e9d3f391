"""Regret plots."""

from __future__ import annotations

import numpy as np

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.plot_data.decisions import Pick
from colltune.plot_data.regrets import held_out, of_bundle
from colltune.plots import regret
from colltune.selector.argmin import ModelSelector
from tests.plots.conftest import NODES, PPN, SIZES, measurements
from tests.plots.drawn import legends, lines, panels
from tests.refusals import refused

LEARNER = "regret_trees"


def test_held_out_predictions(dataset: PerformanceDataset) -> None:
    """Default, single best and held-out choices are compared with the best, all and each."""
    figure = regret.draw(held_out(dataset, learners=[LEARNER], jobs=1))
    shown = panels(figure)
    assert [panel.get_title() for panel in shown[::2]] == [
        "all collectives, 80 instances",
        "MPI_Allreduce, 40 instances",
        "MPI_Bcast, 40 instances",
    ]
    drawn = lines(shown[0])
    assert set(drawn) == {"default", "single best", f"{LEARNER}, held out"}
    assert set(np.round(drawn["default"].x, 6)[1:]) == {2.0}
    assert set(np.round(drawn[f"{LEARNER}, held out"].x, 6)[1:]) == {1.0}
    assert shown[0].get_xscale() == "log"
    assert legends(figure)[0] == [
        "default\n2.00x; 2.00x",
        "single best\n1.74x; 4.00x",
        f"{LEARNER}, held out\n1.00x; 1.00x",
    ]
    assert "leave nodes out" in figure.get_suptitle()


def test_over_message_size(dataset: PerformanceDataset) -> None:
    """The second panel has the geometric mean per size: the one best loses where others win."""
    pick = Pick((Collective.BCAST,))
    figure = regret.draw(held_out(dataset, learners=[LEARNER], pick=pick, jobs=1))
    _, panel = panels(figure)
    drawn = lines(panel)
    single = drawn["single best"]
    assert list(single.x) == list(SIZES)
    np.testing.assert_allclose(single.y, [1, 1, 1, 4, 4])
    assert len(panel.collections) == 3
    assert panel.get_ylabel() == "time over best measured"


def test_a_single_node_holds_out_ppn() -> None:
    """Where no node count can be left out, each ppn is, and the title says so."""
    one = measurements((Collective.BCAST,), [Shape(1, p) for p in (2, 3, 4, 6)])
    figure = regret.draw(held_out(one, learners=[LEARNER], jobs=1))
    assert "leave ppn out" in figure.get_suptitle()
    with refused("no-evaluation", DataError):
        regret.draw(held_out(one, learners=[LEARNER], split="leave-nodes-out", jobs=1))


def test_decisions_of_a_bundle(bundle: Bundle, dataset: PerformanceDataset) -> None:
    """A bundle's own decisions are judged by the data, and what it was fitted to is said."""
    figure = regret.draw(of_bundle(ModelSelector(bundle), dataset))
    drawn = lines(panels(figure)[0])
    name = f"bundle {bundle.id[:8]}"
    assert set(drawn) == {"default", name}
    assert set(np.round(drawn[name].x, 6)[1:]) == {1.0}
    n = 2 * len(NODES) * len(PPN) * len(SIZES)
    assert f"{n} of {n} on shapes fitted to" in figure.get_suptitle()


def test_nothing_can_be_held_out() -> None:
    """One shape and one size are an error that says what each way to hold out needs."""
    one = measurements((Collective.BCAST,), [Shape(1, 2)], sizes=(8,))
    with refused("no-evaluation", DataError):
        regret.draw(held_out(one, learners=[LEARNER], jobs=1))


def test_an_unknown_split(dataset: PerformanceDataset) -> None:
    """An unknown way to hold out is an error that names those there are."""
    with refused("unknown", DataError, what="split", name="nothing"):
        regret.draw(held_out(dataset, split="nothing"))
