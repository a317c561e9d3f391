"""The pictures of gains."""

from __future__ import annotations

import numpy as np

from colltune.domain import Collective, Instance, Shape
from colltune.models.fitting import fit
from colltune.plots.gains import guard
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
