"""Wall times as people write them."""

from __future__ import annotations

import pytest

from colltune.bench import durations
from colltune.errors import CampaignError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("30m", 1800),
        ("1h30m", 5400),
        ("4h", 14400),
        (2.5, 2.5),
        ("1d 2h", 93600),
        ("0.5h", 1800),
        (" 4H ", 14400),
    ],
)
def test_wall_times_are_understood(text: str | float, seconds: float) -> None:
    """Hours, minutes, seconds and their sums are understood; a bare number is seconds."""
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "4 weeks", "-1", "1h-3m", "0", "0s", "nan", "1,5h", -3.0]
)
def test_other_texts_are_refused(text: str | float) -> None:
    """What is no positive wall time is refused, with an example of one."""
    with pytest.raises(CampaignError, match="wall time"):
        durations.seconds(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(42.0, "42 s"), (420.0, "7 min"), (14700.0, "4 h 05 min")]
)
def test_wall_times_are_shown_in_fitting_units(seconds: float, text: str) -> None:
    """Seconds, minutes and hours are used where they are read best."""
    assert durations.text(seconds) == text
