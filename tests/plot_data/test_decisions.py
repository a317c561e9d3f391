"""What a report says is decided, beside what the selector decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.plot_data.decisions import REASONS, DecisionMap, Why, decision_map
from colltune.plot_data.summaries import (
    decision_runs,
    reason_counts,
    shape_gains,
    usages,
)
from colltune.selector.argmin import ModelSelector
from tests.models.machines import FORMULAS, configuration, measured


def _near(algorithm: str, instance: Instance) -> bool:
    return algorithm != "default" and instance.msize_bytes > 20000 and instance.shape.nodes > 4


@pytest.fixture(scope="module")
def selector() -> ModelSelector:
    """Return a selector whose large messages on many nodes know the default alone."""
    return ModelSelector(fit(measured(left_out=_near, noise=0.1), "knn"))


@pytest.fixture(scope="module")
def found(selector: ModelSelector) -> DecisionMap:
    """Return its decisions."""
    return decision_map(selector, Collective.BCAST)


def test_every_field_is_what_the_selector_selects(
    selector: ModelSelector, found: DecisionMap
) -> None:
    """Configuration, times, gain, bound and range of all fields equal those of select."""
    for at, _ in np.ndenumerate(found.chosen):
        selection = selector.select(found.grid.instance(Collective.BCAST, *at))
        assert found.configuration(*at) == selection.configuration
        assert found.extrapolated[at] == selection.extrapolated
        assert found.gain[at] == pytest.approx(selection.gain)
        assert selection.prediction is not None
        assert selection.default is not None
        assert found.chosen_s[at] == pytest.approx(selection.prediction.time_s)
        assert found.upper_s[at] == pytest.approx(selection.prediction.upper_s)
        assert found.default_s[at] == pytest.approx(selection.default.time_s)
        bound = np.nan if selection.gain_bound is None else selection.gain_bound
        assert found.bound[at] == pytest.approx(bound, nan_ok=True)


def test_reasons_agree_with_the_words_of_select(
    selector: ModelSelector, found: DecisionMap
) -> None:
    """Each field's reason says what the selection's own reason says, and all kinds occur."""
    words = {
        Why.GAIN: "faster than the default",
        Why.FASTEST: "the default is predicted fastest",
        Why.NOTHING: "no other configuration is known to run",
        Why.FAR: "far from what was measured",
    }
    seen = set()
    for at, code in np.ndenumerate(found.why):
        why = REASONS[int(code)]
        seen.add(why)
        selection = selector.select(found.grid.instance(Collective.BCAST, *at))
        assert selection.configuration.is_default != why.is_replaced
        if why in words:
            assert words[why] in selection.reason
        else:
            assert selection.reason.startswith("default kept: predicted ")
            assert selection.extrapolated == (why is Why.OUTSIDE)
    assert set(words) <= seen


def test_without_a_measured_default_nothing_is_compared_with_it() -> None:
    """All that is chosen is chosen as fastest predicted, and no gain is claimed."""
    algorithms = [name for name in FORMULAS if name != "default"]
    bundle = fit(measured(algorithms=algorithms), "knn")
    found = decision_map(ModelSelector(bundle), Collective.BCAST)
    kinds = {REASONS[code] for code in np.unique(found.why).tolist()}
    assert Why.NO_DEFAULT in kinds
    assert kinds <= {Why.NO_DEFAULT, Why.FAR, Why.NOTHING}
    assert (found.gain == 1).all()
    assert np.isnan(found.bound).all()
    assert all(run.gains is None for run in decision_runs(found))


def test_runs_tell_the_whole_map(found: DecisionMap) -> None:
    """The runs of each shape adjoin, cover all sizes, and hold the decision of every one."""
    runs = list(decision_runs(found))
    for at, shape in enumerate(found.grid.shapes):
        told = [
            (run.configuration, run.why, run.extrapolated)
            for run in runs
            if run.shape == shape
            for size in found.grid.msize_bytes.tolist()
            if run.first_bytes <= size <= run.last_bytes
        ]
        expected = [
            (found.configuration(at, m), REASONS[int(found.why[at, m])], found.extrapolated[at, m])
            for m in range(len(found.grid.msize_bytes))
        ]
        assert told == expected


def test_the_gain_of_a_run_is_that_at_its_middle(found: DecisionMap) -> None:
    """It lies within the gains of the run, and is that of the size nearest to the middle."""
    sizes = found.grid.msize_bytes
    for run in decision_runs(found):
        assert run.gain is not None
        assert run.gains is not None
        assert run.gains[0] <= run.gain <= run.gains[1]
        row = found.considered[found.grid.shapes.index(run.shape)]
        inside = np.flatnonzero((sizes >= run.first_bytes) & (sizes <= run.last_bytes))
        middle = np.sqrt(float(max(run.first_bytes, 1)) * max(run.last_bytes, 1))
        far = np.abs(np.log(np.maximum(sizes[inside], 1) / middle))
        near = inside[far <= far.min() + 0.4]  # a middle is a whole number of bytes
        assert run.gain in row[near]


def test_counts_add_up(found: DecisionMap) -> None:
    """Uses and reasons count every field once."""
    rows = usages(found)
    assert sum(row.fields for row in rows) == found.inside.sum()
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert [row.fields for row in rows] == sorted((row.fields for row in rows), reverse=True)
    counts = reason_counts(found)
    assert sum(a + b for a, b in counts.values()) == found.why.size
    assert sum(a for a, _ in counts.values()) == found.inside.sum()


def test_gains_of_a_shape_are_geometric_means_over_measured_sizes(found: DecisionMap) -> None:
    """A shape's gain is the geometric mean over measured sizes, its largest is among them."""
    for at, row in enumerate(shape_gains(found, None)):
        gain = found.gain[at, found.grid.known_size]
        assert row.gain == pytest.approx(float(np.exp(np.log(gain).mean())))
        assert row.largest == gain.max()
        size = found.grid.msize_bytes.tolist().index(row.largest_bytes)
        assert found.gain[at, size] == row.largest
        assert row.outcome is None


def test_what_was_measured_again_is_its_own_reason() -> None:
    """The map tells confirmed and withdrawn fields apart from predicted ones, with their bounds."""
    shape = Shape(8, 4)
    won = Confirmation(
        Collective.BCAST, shape, 0, 1000, Status.CONFIRMED, configuration("binomial"),
        configuration("binomial"), 1.2, 1.1, 1.3, 1, "2026-11-22T10:00:00+00:00",
    )  # fmt: skip
    default = Configuration.default("openmpi", Collective.BCAST)
    lost = replace(
        won, first_bytes=1001, last_bytes=None, status=Status.WITHDRAWN, configuration=default
    )
    bundle = fit(measured(), "knn").with_confirmations([won, lost])
    found = decision_map(ModelSelector(bundle), Collective.BCAST)
    at = found.grid.shapes.index(shape)
    small = found.grid.msize_bytes <= 1000
    names = np.array(REASONS)[found.why[at]]
    assert set(names[small]) == {Why.CONFIRMED}
    assert set(names[~small]) == {Why.WITHDRAWN}
    assert set(found.bound[at]) == {1.1}
    assert found.replaced[at].tolist() == small.tolist()
    others = np.delete(found.why, at, axis=0)
    assert not {Why.CONFIRMED, Why.WITHDRAWN} & {REASONS[k] for k in others.ravel()}
