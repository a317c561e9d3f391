"""The decision map as the page draws it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.selector.argmin import ModelSelector
from colltune.server.views.maps import configuration_views, map_view
from tests.models.machines import measured

BCAST = Collective.BCAST


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

    json.loads(view.model_dump_json(), parse_constant=refuse)
