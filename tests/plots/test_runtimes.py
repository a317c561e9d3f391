"""Runtime curves."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.plot_data.decisions import ALL, Pick, spread_shapes
from colltune.plot_data.maps import decided
from colltune.plot_data.runtimes import measured, predicted
from colltune.plots import maps, runtimes
from colltune.selector.argmin import ModelSelector
from tests.plots.conftest import NODES, PPN, SIZES, measurements
from tests.plots.drawn import areas, every_line, labels, legends, lines, panels
from tests.refusals import refused

ONE = Pick((Collective.BCAST,), shapes=(Shape(8, 4),))


def _measured(dataset: PerformanceDataset, pick: Pick = ALL) -> Figure:
    return runtimes.draw(measured(dataset, pick))


def _predicted(bundle: Bundle, pick: Pick, dataset: PerformanceDataset) -> Figure:
    return runtimes.draw(predicted(ModelSelector(bundle), pick, dataset))


def test_measured_runtimes(dataset: PerformanceDataset) -> None:
    """Each configuration is a thin line; default and best are thick, with bands over launches."""
    figure = _measured(dataset, pick=ONE)
    (panel,) = panels(figure)
    assert panel.get_title() == "MPI_Bcast, 8x4"
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    drawn = lines(panel)
    assert set(drawn) == {
        "openmpi.bcast.binomial",
        "openmpi.bcast.chain",
        "default",
        "chosen",
        "chosen: binomial",
        "chosen: chain",
    }
    base_s = 1e-6 * 32**0.5 + np.array(SIZES) * 1e-9
    np.testing.assert_allclose(drawn["default"].y, 2 * base_s)
    np.testing.assert_allclose(drawn["chosen"].y, base_s)
    assert drawn["chosen"].width > drawn["openmpi.bcast.chain"].width
    assert list(drawn["chosen: binomial"].x) == [8, 64, 512]
    bands = areas(panel)
    assert bands["chosen band"].every[:, 1].min() == pytest.approx(0.99 * base_s[0])
    assert bands["default band"].every[:, 1].max() == pytest.approx(2.02 * base_s[-1])
    texts = legends(figure)[-1]
    assert texts == [
        "best measured",
        "default",
        "other configurations",
        "fastest to slowest launch",
    ]


def test_axes_have_units(dataset: PerformanceDataset) -> None:
    """Sizes are labelled in bytes and KiB, runtimes in µs."""
    figure = _measured(dataset, pick=ONE)
    (panel,) = panels(figure)
    assert labels(panel, "x") == ["32 B", "1 KiB", "32 KiB"]
    assert "10 µs" in labels(panel, "y")
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("message size", "runtime")


def test_predicted_runtimes(bundle: Bundle, dataset: PerformanceDataset) -> None:
    """A bundle's lines are predictions in intervals, crosses are measured, grey is outside."""
    figure = _predicted(bundle, pick=ONE, dataset=dataset)
    (panel,) = panels(figure)
    drawn = lines(panel)
    measured = drawn["chosen measured"]
    assert list(measured.x) == list(SIZES)
    base_s = 1e-6 * 32**0.5 + np.array(SIZES) * 1e-9
    np.testing.assert_allclose(measured.y, base_s, rtol=0.02)
    x = drawn["chosen"].x
    assert x.min() < SIZES[0]
    assert x.max() > SIZES[-1]
    assert areas(panel)["chosen band"].every[:, 1].min() < np.nanmin(drawn["chosen"].y)
    assert len(panel.patches) == (x < SIZES[0]).sum() + (x > SIZES[-1]).sum()
    texts = legends(figure)[-1]
    assert texts[-2:] == ["measured", "outside what was measured"]


def test_shapes_that_were_not_measured(bundle: Bundle) -> None:
    """Predictions are drawn for the shapes asked for, without points."""
    pick = Pick((Collective.BCAST,), nodes=(12,))
    found = predicted(ModelSelector(bundle), pick)
    assert [str(panel.shape) for panel in found.panels] == ["12x1", "12x4"]
    assert all(panel.points is None for panel in found.panels)


def test_panels_are_bounded() -> None:
    """Of 50 shapes 24 are drawn, the smallest and the largest among them; the title says so."""
    shapes = [Shape(2 + n, p) for n in range(25) for p in (1, 2)]
    many = measurements((Collective.BCAST,), shapes, sizes=(8, 4096), launches=(1.0,))
    figure = _measured(many)
    titles = [panel.get_title() for panel in panels(figure)]
    assert len(titles) == 24
    assert (titles[0], titles[-1]) == ("MPI_Bcast, 2x1", "MPI_Bcast, 26x2")
    assert "not shown: 26 more shapes of bcast" in figure.get_suptitle()


def test_all_shapes_are_drawn_if_there_is_room(dataset: PerformanceDataset) -> None:
    """With few shapes there is a panel for each of both collectives."""
    figure = _measured(dataset)
    assert len(panels(figure)) == 2 * len(NODES) * len(PPN)
    assert "not shown" not in figure.get_suptitle()


def test_without_a_measured_default() -> None:
    """Data without the default have a line for it that shows nothing."""
    part = measurements((Collective.BCAST,), [Shape(4, 1)])
    without = part.where(part.frame["algorithm"] != "default")
    (panel,) = panels(_measured(without))
    assert np.isnan(lines(panel)["default"].y).all()


def test_an_empty_dataset() -> None:
    """Data without a usable time are an error."""
    part = measurements((Collective.BCAST,), [Shape(4, 1)])
    with refused("nothing-there", DataError):
        _measured(part.where(part.frame["nodes"] > 4))


def test_shapes_are_thinned_by_node_count_and_ppn() -> None:
    """Of 11 node counts with 4 ppn, 12 panels have 3 node counts with all ppn."""
    shapes = [Shape(n, p) for n in range(4, 26, 2) for p in (1, 4, 8, 16)]
    kept = spread_shapes(shapes, 12)
    assert {s.nodes for s in kept} == {4, 14, 24}
    assert {s.ppn for s in kept} == {1, 4, 8, 16}


def test_shapes_without_a_grid_are_thinned_as_many() -> None:
    """Where node counts and ppn do not combine, there are as many shapes as there is room for."""
    shapes = [Shape(2 + k, 1 + k) for k in range(30)]
    kept = spread_shapes(shapes, 12)
    assert len(kept) == 12
    assert spread_shapes(shapes, 1) == [Shape(31, 30)]
    assert spread_shapes(shapes, 40) == shapes


def test_one_launch_has_no_band() -> None:
    """Without a second launch no interval is shown, nor named."""
    once = measurements((Collective.BCAST,), [Shape(4, 1)], launches=(1.0,))
    assert "fastest to slowest launch" not in legends(_measured(once))[-1]


def test_measured_empty_messages_lie_on_their_predictions() -> None:
    """0 bytes are at the same place in predictions and measurements, whatever sizes these have."""
    shapes = [Shape(n, 1) for n in NODES]
    fitted = fit(measurements((Collective.BCAST,), shapes, sizes=(0, 1, 64)), "knn", jobs=1)
    few = measurements((Collective.BCAST,), shapes[:1], sizes=(0, 64))
    (panel,) = panels(_predicted(fitted, dataset=few, pick=Pick(nodes=(2,))))
    drawn = lines(panel)
    assert drawn["chosen measured"].x.tolist() == [0.5, 64]
    assert drawn["chosen"].x[0] == 0.5
    (top,) = panels(maps.draw(decided(ModelSelector(fitted), Pick(nodes=(2,)), few)))
    assert [point.x[0] for _, point in every_line(top)] == [0.5, 64]
