"""What a bundle would change for an application."""

from __future__ import annotations

import pytest

from colltune.dataset.profile import Profile, added_up, parse_profile
from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.models.fitting import fit
from colltune.selector.argmin import ModelSelector
from colltune.selector.profiled import (
    NO_DEFAULT,
    NO_LAYOUT,
    NOT_DEFAULT,
    NOT_MEASURED,
    NOTHING,
    outlook,
)
from tests.dataset.profiles import profile_text, row
from tests.models.machines import FORMULAS, measured
from tests.refusals import refused

SELECTOR = ModelSelector(fit(measured(), "knn"))
DEFAULT_S, BEST_S = (FORMULAS[name](32, 1024) for name in ("default", "binomial"))


def profile(*rows: str, configurations: tuple[str, ...] = (), **head: str) -> Profile:
    """Return the profile of one run with these rows."""
    job, uses = parse_profile(profile_text(rows, configurations, **head), "job.profile")
    return added_up([job], uses)


def test_what_is_saved_is_calls_times_the_difference() -> None:
    """The saving is the default's time less the selection's, times the calls, with bounds."""
    found = outlook(profile(row("bcast", "8x4", 1024, 100, 2 * DEFAULT_S)), SELECTOR)
    (changed,) = found.rows
    assert changed.selection is not None
    assert changed.selection.configuration.algorithm == "binomial"
    assert changed.saving is not None
    assert changed.saving.expected_s == pytest.approx(3200 * (DEFAULT_S - BEST_S), rel=0.05)
    assert 0 < changed.saving.least_s <= changed.saving.expected_s <= changed.saving.most_s
    assert found.saving == changed.saving
    assert found.unknown_s == 0


def test_no_more_is_saved_than_was_spent() -> None:
    """Where calls take less than predicted, their whole time is the most that can be saved."""
    spent = profile(row("bcast", "8x4", 1024, 100, 1e-7))
    (changed,) = outlook(spent, SELECTOR).rows
    assert changed.saving is not None
    assert changed.saving.most_s == pytest.approx(spent.collectives_s)
    assert changed.saving.expected_s <= spent.collectives_s


def test_where_the_default_is_kept_nothing_is_saved() -> None:
    """A size on which the guard keeps the default saves nothing, and is known."""
    (changed,) = outlook(profile(row("bcast", "8x4", 1 << 40, 1, 1.0)), SELECTOR).rows
    assert (changed.saving, changed.unknown) == (NOTHING, "")


def test_what_is_not_known_is_said() -> None:
    """Unknown layouts, collectives without models, and what is tuned already are not guessed."""
    found = outlook(
        profile(
            row("bcast", "-", 1024, 1, 1.0, size=32),
            row("scan", "8x4", 8, 1, 1.0),
            row("bcast", "8x4", 1024, 1, 1.0, configuration=1),
            configurations=("openmpi.bcast.chain:fanout=4,segsize=0",),
        ),
        SELECTOR,
    )
    assert {r.unknown for r in found.rows} == {NO_LAYOUT, NOT_MEASURED, NOT_DEFAULT}
    assert all(r.saving is None for r in found.rows)
    assert found.saving == NOTHING
    assert found.unknown_s == pytest.approx(3 * 32)


def test_without_the_defaults_time_nothing_is_known() -> None:
    """If the default was not measured, a faster configuration saves nobody knows what."""
    selector = ModelSelector(fit(measured(algorithms=("binomial", "linear")), "knn"))
    (changed,) = outlook(profile(row("bcast", "8x4", 1024, 1, 1.0)), selector).rows
    assert (changed.saving, changed.unknown) == (None, NO_DEFAULT)


def test_another_library_is_refused() -> None:
    """A profile of another library than the bundle's is an error that names both."""
    with refused("says-nothing-about", DataError, library="mpich", other="openmpi"):
        outlook(profile(row("bcast", "8x4", 8, 1, 1.0), library="mpich 4.0.2"), SELECTOR)


def test_half_tuned_calls_count_half() -> None:
    """Only the calls that the library decided itself are changed."""
    rows = [row("bcast", "8x4", 1024, 50, DEFAULT_S), row("bcast", "8x4", 1024, 50, DEFAULT_S)]
    rows[1] = row("bcast", "8x4", 1024, 50, DEFAULT_S, configuration=1)
    name = "openmpi.bcast.chain:fanout=4,segsize=0"
    half = outlook(profile(*rows, configurations=(name,)), SELECTOR).saving
    whole = outlook(profile(row("bcast", "8x4", 1024, 100, DEFAULT_S)), SELECTOR).saving
    assert half.expected_s == pytest.approx(whole.expected_s / 2)
    assert Shape(8, 4).nprocs == 32
    assert Collective.BCAST in SELECTOR.bundle.collectives
