"""The picture of an application's profile."""

from __future__ import annotations

import pytest
from matplotlib.patches import Rectangle

from colltune.dataset.profile import added_up, parse_profile
from colltune.models.fitting import fit
from colltune.plots.profile import times
from colltune.selector.argmin import ModelSelector
from colltune.selector.profiled import outlook
from tests.dataset.profiles import profile_text, row
from tests.models.machines import measured

ROWS = (
    row("bcast", "8x4", 1024, 100, 1e-3),
    row("allreduce", "8x4", 1024, 300, 1e-3),
    row("allreduce", "8x4", 8, 100, 1e-3),
)


def test_bars_are_shares_of_the_run() -> None:
    """Heights stacked over a bin add up to its share of the run; what is saved is hatched."""
    job, uses = parse_profile(profile_text(ROWS), "job.profile")
    profile = added_up([job], uses)
    foreseen = outlook(profile, ModelSelector(fit(measured(), "knn")))
    (panel,) = times(profile, foreseen).axes
    bars = [p for p in panel.patches if isinstance(p, Rectangle)]
    heights = [bar.get_height() for bar in bars]
    assert heights[:4] == pytest.approx([1.0, 3.0, 0.0, 1.0])
    assert heights[4:] == pytest.approx([0.0, 100 * foreseen.saving.expected_s / 320])
    assert [text.get_text() for text in panel.get_xticklabels()] == ["8 B", "1 KiB"]


def test_a_run_without_collectives_is_an_empty_picture() -> None:
    """A profile without calls can be drawn."""
    job, uses = parse_profile(profile_text(()), "job.profile")
    (panel,) = times(added_up([job], uses)).axes
    assert list(panel.patches) == []
