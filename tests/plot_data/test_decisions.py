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
