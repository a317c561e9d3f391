"""The pictures of gains."""

from __future__ import annotations

import numpy as np

from colltune.domain import Collective, Instance, Shape
from colltune.models.cells import cell_matrices
from colltune.models.fitting import fit
from colltune.plot_data.measured import Calibration, MeasuredSummary, compare
from colltune.plot_data.summaries import ShapeGain
from colltune.plots.gains import calibration, guard, of_shapes, predicted_and_measured
from colltune.selector.argmin import ModelSelector
from tests.models.machines import measured


def test_gains_their_bounds_and_what_is_kept_are_shown() -> None:
    """Lines are those of the selections; grey covers exactly the sizes left to the default."""
    data = measured(nodes=(2, 3, 4, 6), ppn=(1, 2), collectives=(Collective.BCAST,))
    bundle = fit(data, "knn", jobs=1)
    selector = ModelSelector(bundle)
    sizes = [2**k for k in range(0, 26, 2)]
    instances = [Instance(Collective.BCAST, Shape(4, 2), size) for size in sizes]
    figure = guard(selector, instances)
    (panel,) = figure.axes
    gains, bounds, _ = panel.lines
    unguarded = ModelSelector(bundle, guard=False).select_many(instances)
    assert np.asarray(gains.get_ydata()).tolist() == [s.gain for s in unguarded]
    guarded = selector.select_many(instances)
    expected = [np.nan if s.gain_bound is None else s.gain_bound for s in guarded]
    assert np.array_equal(np.asarray(bounds.get_ydata(), float), expected, equal_nan=True)
    assert len(panel.patches) == sum(s.configuration.is_default for s in guarded)
    # the last is far beyond the largest measured message
    assert guarded[-1].configuration.is_default
    figure.canvas.draw()


def test_each_shape_has_its_gain_bound_and_measured_gain() -> None:
    """Rows go down; dots, bars and crosses are the figures of the summaries."""
    outcome = MeasuredSummary(5, 5, 1.8, 2.0, 0.85, 1.9, 1.5, 0.0, 1.1)
    rows = [
        ShapeGain(Shape(2, 1), True, 1.0, 1.3, 1.1, 1.4, 64, None),
        ShapeGain(Shape(4, 1), True, 1.0, 1.9, None, 2.2, 64, outcome),
    ]
    (panel,) = of_shapes(rows).axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["2x1", "4x1"]
    drawn = [np.asarray(line.get_xdata()).tolist() for line in panel.lines]
    np.testing.assert_array_equal(drawn[0], [1.3, 1.9])
    np.testing.assert_array_equal(drawn[1], [np.nan, 1.8])
    bars = [np.asarray(p.vertices)[:, 0].tolist() for p in panel.collections[0].get_paths()]
    assert bars[0] == [1.1, 1.3]
    assert panel.yaxis_inverted()


def test_calibration_tells_shares_by_nodes() -> None:
    """A bar reaches to the share inside; a node count without times has none."""
    rows = [
        Calibration(None, 20, 0.8, 0.1, 0.1, 1.2),
        Calibration(4, 0, None, None, None, None),
    ]
    (panel,) = calibration(rows).axes
    assert [text.get_text() for text in panel.texts] == ["80% of 20"]
    np.testing.assert_array_equal(np.asarray(panel.lines[0].get_xdata()), [0.8, np.nan])
    (bar, *_) = panel.collections[0].get_paths()
    assert np.asarray(bar.vertices)[:, 0].tolist() == [0, 0.8]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["all", "4"]


def test_measured_gains_are_drawn_over_predicted_ones() -> None:
    """Every replaced decision that was measured is a point; without one there is no picture."""
    data = measured(nodes=(2, 3, 4, 6), ppn=(1, 2), collectives=(Collective.BCAST,))
    selector = ModelSelector(fit(data, "knn", jobs=1))
    found = compare(selector, cell_matrices(data)[Collective.BCAST])
    figure = predicted_and_measured(found)
    assert figure is not None
    (panel,) = figure.axes
    points = [line for line in panel.lines if line.get_linestyle() == "None"]
    assert sum(len(np.asarray(line.get_xdata())) for line in points) == found.replaced.sum()
    nothing = found.rows(~found.replaced)
    assert predicted_and_measured(nothing) is None
