"""Wall times as people write them."""

from __future__ import annotations

import pytest

from colltune.bench import durations
from colltune.errors import CampaignError


def test_wall_times_are_understood() -> None:
    """Hours, minutes, seconds and their sums are understood; a bare number is seconds."""
    seconds: dict[str | float, float] = {"90": 90, "90s": 90, "30m": 1800, "4h": 14400}
    seconds |= {"1h30m": 5400, 2.5: 2.5, "1d 2h": 93600, "0.5h": 1800, " 4H ": 14400}
    assert {text: durations.seconds(text) for text in seconds} == seconds


def test_other_texts_are_refused() -> None:
    """What is no positive wall time is refused, with an example of one."""
    for text in ("", "h", "4 weeks", "-1", "1h-3m", "0", "0s", "nan", "1,5h", -3.0):
        with pytest.raises(CampaignError) as raised:
            durations.seconds(text)
        assert raised.value.code in ("malformed", "not-positive")


def test_wall_times_are_shown_in_fitting_units() -> None:
    """Seconds, minutes and hours are used where they are read best."""
    shown = [durations.text(seconds) for seconds in (42.0, 420.0, 14700.0)]
    assert shown == ["42 s", "7 min", "4 h 05 min"]
