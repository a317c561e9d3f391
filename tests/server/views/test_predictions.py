"""What is predicted for one instance, and why the guard decided so."""

from __future__ import annotations

import pytest

from colltune.domain import Collective, Instance, Shape
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.models.guard import Guard
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Target, selector_for
from colltune.server.views.maps import prediction_view
from tests.models.machines import FORMULAS, measured

BCAST = Collective.BCAST
SLOT = "openmpi-4.1.4"
SMALL, LARGE = Instance(BCAST, Shape(8, 4), 64), Instance(BCAST, Shape(8, 4), 4194304)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle of bcast."""
    return fit(measured(noise=0.02), "regret_trees")


def test_all_configurations_are_told_the_fastest_first(bundle: Bundle) -> None:
    """Times and intervals are the models' own, in the order of the times."""
    view = prediction_view(ModelSelector(bundle), SLOT, LARGE)
    model = bundle.model(BCAST)
    assert sorted(one.column for one in view.configurations) == list(range(4))
    assert [one.time_s for one in view.configurations] == sorted(
        one.time_s for one in view.configurations
    )
    for one in view.configurations:
        assert one.id == model.configurations[one.column].id
        told = model.forecast(8, 4, LARGE.msize_bytes)
        times = [t[0, one.column] for t in (told.time_s, told.lower_s, told.upper_s)]
        assert (one.time_s, one.lower_s, one.upper_s) == pytest.approx(times, rel=1e-5)


def test_a_replaced_default_is_told_with_its_gain_and_bound(bundle: Bundle) -> None:
    """The gain, its lower bound and what the guard asked for are those of what is chosen."""
    selector = ModelSelector(bundle)
    view, said = prediction_view(selector, SLOT, LARGE), selector.select(LARGE)
    assert view.replaced
    assert view.measured
    assert view.considered == view.chosen
    assert view.gain == pytest.approx(said.gain, rel=1e-3)
    assert view.gain_bound == pytest.approx(said.gain_bound, rel=1e-3)
    assert view.gain_required is not None
    assert 1.0 < view.gain_required < said.gain


def test_an_abstention_tells_what_was_asked_and_what_was_there() -> None:
    """Under great caution the default is kept, beside the gain that was not enough."""
    bundle = fit(measured(noise=0.2), "knn")
    careful = ModelSelector(bundle, guard=Guard(caution=20.0))
    view = prediction_view(careful, SLOT, LARGE)
    assert not view.replaced
    assert view.chosen == view.default
    assert view.considered not in (None, view.default)
    assert view.gain is not None
    assert view.gain_required is not None
    assert 1.0 < view.gain < view.gain_required
    assert "have been wrong by up to" in view.reason


def test_what_cannot_be_chosen_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """An algorithm that the release does not have, or that nothing was measured of, says so."""
    monkeypatch.setitem(FORMULAS, "made_up", FORMULAS["binomial"])
    bundle = fit(measured(algorithms=(*FORMULAS, "made_up")), "knn")
    target = Target.named("openmpi", "4.1.4")
    selector = selector_for(bundle, target)
    view = prediction_view(selector, SLOT, SMALL, target)
    excluded = {one.name: one.excluded for one in view.configurations}
    assert "4.1.4" in excluded["made_up"]
    assert excluded["binomial"] == excluded["default"] == ""
    single = prediction_view(selector, SLOT, Instance(BCAST, Shape(1, 8), 64), target)
    assert {one.excluded for one in single.configurations if one.column != single.default} == {
        "not measured near enough to this shape and size"
    }
    assert not single.measured
    assert single.extrapolated


def test_without_a_measured_default_nothing_is_weighed() -> None:
    """Then there is no gain to tell, and the default has no time."""
    bundle = fit(measured(algorithms=("linear", "binomial")), "knn")
    view = prediction_view(ModelSelector(bundle), SLOT, SMALL)
    assert (view.gain, view.gain_bound, view.gain_required, view.considered) == (None,) * 4
    assert view.default == 2
    assert [one.column for one in view.configurations if one.column == view.default] == []
