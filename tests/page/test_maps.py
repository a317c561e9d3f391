"""The decision map as the page draws it, and what is predicted for one of its fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.json_text import encoded
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.models.guard import Guard
from colltune.page.maps import configuration_views, map_view, prediction_view
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Target, selector_for
from tests.models.machines import FORMULAS, measured

BCAST = Collective.BCAST
SLOT = "openmpi-4.1.4"
SMALL, LARGE = Instance(BCAST, Shape(8, 4), 64), Instance(BCAST, Shape(8, 4), 4194304)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle of bcast."""
    return fit(measured(), "knn")


def test_every_field_is_what_the_selector_says(bundle: Bundle) -> None:
    """Configuration, gain, its bound and the side of the range are those of the selection."""
    selector = ModelSelector(bundle)
    view = map_view(selector, "openmpi-4.1.4", BCAST)
    assert view.bundle == bundle.id
    fields = 0
    for row in view.rows:
        for at in range(0, len(view.msize_bytes), 3):
            instance = Instance(BCAST, Shape(row.nodes, row.ppn), view.msize_bytes[at])
            said = selector.select(instance)
            assert view.configurations[row.chosen[at]].id == said.configuration.id
            assert row.gain[at] == pytest.approx(said.gain, rel=1e-3)
            assert (row.bound[at] is None) == (said.gain_bound is None)
            assert row.bound[at] is None or row.bound[at] == pytest.approx(
                said.gain_bound, rel=1e-3
            )
            assert row.extrapolated[at] == said.extrapolated
            replaced = view.reasons[row.why[at]].replaced
            assert replaced != said.configuration.is_default
            fields += replaced
    assert fields > 10


def test_counts_fit_the_fields(bundle: Bundle) -> None:
    """How often a configuration is used and a reason holds adds up to all fields."""
    view = map_view(ModelSelector(bundle), "openmpi-4.1.4", BCAST)
    fields = len(view.rows) * len(view.msize_bytes)
    assert sum(one.fields for one in view.configurations) == fields
    assert sum(why.fields for why in view.reasons) == fields
    used = {c for row in view.rows for c in row.chosen}
    assert {c for c, one in enumerate(view.configurations) if one.fields} == used


def test_codes_tell_configurations_apart() -> None:
    """Letters go to algorithms by use, numbers to configurations of one, no code comes twice."""

    def named(algorithm: str, **parameters: int) -> Configuration:
        return Configuration("openmpi", BCAST, algorithm, tuple(parameters.items()))

    portfolio = (
        named("default"),
        named("chain", fanout=2),
        named("chain", fanout=4),
        named("binomial"),
        *(named(f"x{i:02d}") for i in range(30)),
    )
    views = configuration_views(portfolio, [9, 1, 2, 8] + [0] * 30)
    assert [one.code for one in views[:5]] == ["·", "B2", "B1", "A", "C"]
    assert [one.rank for one in views[:5]] == [0, 2, 2, 1, 3]
    assert views[-1].code == "AF"
    assert len({one.code for one in views}) == len(views)


def test_an_unmeasured_default_is_in_the_map_all_the_same() -> None:
    """Without measurements of the default nothing is compared, and the JSON has no NaN."""
    data = measured(algorithms=("linear", "binomial"))
    view = map_view(ModelSelector(fit(data, "knn")), "openmpi-4.1.4", BCAST)
    assert [one.is_default for one in view.configurations] == [False, False, True]
    assert {bound for row in view.rows for bound in row.bound} == {None}
    assert view.mean_bound is None

    def refuse(name: str) -> Any:
        raise AssertionError(name)

    json.loads(encoded(view), parse_constant=refuse)


@pytest.fixture(scope="module")
def noisy() -> Bundle:
    """Return a bundle of bcast."""
    return fit(measured(noise=0.02), "regret_trees")


def test_all_configurations_are_told_the_fastest_first(noisy: Bundle) -> None:
    """Times and intervals are the models' own, in the order of the times."""
    view = prediction_view(ModelSelector(noisy), SLOT, LARGE)
    model = noisy.model(BCAST)
    assert sorted(one.column for one in view.configurations) == list(range(4))
    assert [one.time_s for one in view.configurations] == sorted(
        one.time_s for one in view.configurations
    )
    for one in view.configurations:
        assert one.id == model.configurations[one.column].id
        told = model.forecast(8, 4, LARGE.msize_bytes)
        times = [t[0, one.column] for t in (told.time_s, told.lower_s, told.upper_s)]
        assert (one.time_s, one.lower_s, one.upper_s) == pytest.approx(times, rel=1e-5)


def test_a_replaced_default_is_told_with_its_gain_and_bound(noisy: Bundle) -> None:
    """The gain, its lower bound and what the guard asked for are those of what is chosen."""
    selector = ModelSelector(noisy)
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
