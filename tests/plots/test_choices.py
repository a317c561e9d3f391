"""The pictures of what statistics choose."""

from __future__ import annotations

import numpy as np
import pandas as pd

from colltune.dataset.noise.choices import Payoff, Statistic
from colltune.plots.choices import disagreements, payoffs


def test_the_map_shows_each_share_once_in_either_half() -> None:
    """Shares are written as percents; a statistic agrees with itself, which is left out."""
    shares = pd.DataFrame(
        [[0.0, 0.25], [0.25, 0.0]], index=["min", "mean"], columns=["min", "mean"]
    )
    (panel,) = disagreements(shares).axes
    assert [text.get_text() for text in panel.texts] == ["", "25 %", "25 %", ""]
    assert np.asarray(panel.images[0].get_array()).tolist() == shares.to_numpy().tolist()


def test_each_statistic_has_a_panel_with_promise_and_gain() -> None:
    """Lines go over the number of launches, in ascending order."""
    found = [
        Payoff(statistic, launches, 1.2 + launches / 100, 1.1, 1.0, 1.2, 5)
        for statistic in (Statistic.MIN, Statistic.MEAN)
        for launches in (3, 1)
    ]
    panels = payoffs(found).axes
    assert [panel.get_title() for panel in panels] == ["chosen by the min", "chosen by the mean"]
    for panel in panels:
        promised, gained, _ = panel.lines
        assert np.asarray(promised.get_xdata()).tolist() == [1, 3]
        assert np.asarray(promised.get_ydata()).tolist() == [1.21, 1.23]
        assert np.asarray(gained.get_ydata()).tolist() == [1.1, 1.1]
