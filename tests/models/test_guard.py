"""When the default is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from colltune.domain import Collective
from colltune.models.fitting import fit
from colltune.models.guard import Guard
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
    text = str(Guard(caution=2))
    assert text == "gains from 1.025x on, caution 2, held-out harm up to 15%"


def test_noise_counts_fully_where_one_measurement_is_the_prediction() -> None:
    """Elsewhere a prediction is an average over ten cells."""
    model = fit(measured(), "knn").model(Collective.BCAST)
    noisy = replace(model, error=model.error._replace(detectable=0.13))
    noise = noisy.forecast([2, 3], 1, 64).noise
    np.testing.assert_allclose(noise, [0.13, 0.13 / np.sqrt(10)])


def test_a_collective_that_did_harm_is_left_to_the_library() -> None:
    """More than 15 % of at least 20 decisions, which reached less than half of the gain."""
    for instances, harm, share, expected in (
        (20, 0.16, 0.4, True),
        (20, 0.16, None, True),
        (20, 0.15, 0.4, False),
        (20, 0.16, 0.5, False),
        (19, 0.5, 0.0, False),
        (20, None, None, False),
    ):
        figures = {"instances": instances, "harm": harm, "share": share}
        assert Guard().withholds(figures) is expected, figures
        assert not Guard(most_harm=1.0).withholds(figures)


def test_bundles_without_held_out_figures_are_followed() -> None:
    """Those of older versions, and of one instance, have none."""
    assert not Guard().withholds({})
