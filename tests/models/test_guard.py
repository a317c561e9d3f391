"""When the default is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colltune.domain import Collective
from colltune.models.fitting import fit
from colltune.models.guard import Guard, trust_in
from tests.models.machines import measured


def test_the_least_gain_the_doubt_and_the_noise_are_asked_for() -> None:
    """The least gain times the doubt, or what noise can make of a gain where that is more."""
    doubt, noise = np.log([[1.0, 1.2], [1.0, 1.2]]), np.log([1.01, 1.15])
    required = np.exp(Guard().required_log_gain(doubt, noise))
    np.testing.assert_allclose(required, [[1.025, 1.23], [1.15, 1.23]])


def test_caution_is_the_risk_parameter() -> None:
    """Twice the caution asks for twice the log gain; without any, only noise is left."""
    doubt, noise = np.full((1, 1), 0.2), np.array([0.01])
    once, twice, never = (Guard(caution=c).required_log_gain(doubt, noise) for c in (1, 2, 0))
    np.testing.assert_allclose(twice, 2 * once)
    assert never == 0.01


def test_its_limits_read_as_text() -> None:
    """A report's head shows them to people."""
    assert str(Guard(caution=2)) == "gains from 1.025x on, caution 2"


def test_noise_counts_fully_where_one_measurement_is_the_prediction() -> None:
    """Elsewhere a prediction is an average over ten cells."""
    model = fit(measured(), "knn").model(Collective.BCAST)
    noisy = replace(model, error=model.error._replace(detectable=0.13))
    noise = noisy.forecast([2, 3], 1, 64).noise
    np.testing.assert_allclose(noise, [0.13, 0.13 / np.sqrt(10)])


def test_what_comes_true_of_predicted_gains_is_asked_for() -> None:
    """With half the trust twice the log gain, beyond noise as ever; with none, nothing."""
    doubt, noise = np.full((1, 1), 0.1), np.array([0.15])
    found = [Guard(1.0).required_log_gain(doubt, noise, trust)[0, 0] for trust in (1.0, 0.5, 0.0)]
    assert found == [0.15, 0.2, np.inf]


@pytest.mark.parametrize(
    ("figures", "trust"),
    [
        ({"trust": 0.9, "share": 0.4}, 0.9),
        ({"trust": 0.4, "share": 0.9}, 0.4),
        ({"trust": 0.4, "share": -0.1}, 0.4),
        ({"trust": 0.0, "share": -0.1}, 0.0),
        ({"trust": 0.4, "share": None}, 0.4),
        ({"trust": None, "share": None}, 1.0),
        ({"share": 0.2}, 1.0),
        ({"share": -0.2}, 0.0),
        ({}, 1.0),
    ],
)
def test_trust_is_what_held_out_decisions_tell(
    figures: dict[str, float | None], trust: float
) -> None:
    """Bundles that do not tell it are followed, unless they lost against the default."""
    assert trust_in(figures) == trust
