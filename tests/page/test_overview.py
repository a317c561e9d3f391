"""What is in force, and how it came there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colltune.domain import Context
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.page.overview import MOST_EVENTS, InForce, overview_view
from colltune.registry.events import Action, Event
from tests.models.machines import measured

SLOT = "openmpi-4.1.4"
OLD = "0" * 64


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle."""
    return fit(measured(), "knn")


def loaded(bundle: Bundle) -> InForce:
    """Return `bundle` as in force."""
    return InForce(SLOT, bundle, "2025-11-20T10:00:00+00:00")


def event(sequence: int, bundle_id: str, note: str = "") -> Event:
    """Return a promotion."""
    at = f"2025-11-{sequence % 28 + 1:02d}T10:00:00+00:00"
    return Event(sequence, SLOT, bundle_id, None, Action.PROMOTE, at, "night", note)


def test_a_slot_tells_what_its_bundle_knows(bundle: Bundle) -> None:
    """Context, age, measured ranges, collectives and formats are those of the bundle."""
    slot = overview_view([loaded(bundle)], (), ()).slots[0]
    assert (slot.slot, slot.library_title, slot.machine) == (SLOT, "Open MPI", "made-up")
    assert (slot.nodes, slot.ppn) == ((2, 16), (1, 4))
    assert slot.since_utc == "2025-11-20T10:00:00+00:00"
    assert slot.created_utc == bundle.created_utc
    assert [one.name for one in slot.collectives] == ["bcast"]
    assert slot.collectives[0].configurations == 4
    assert slot.formats[0].name == "openmpi-classic"
    assert not slot.not_written


def test_a_library_without_catalogue_says_that_nothing_is_written(bundle: Bundle) -> None:
    """Its decisions can be looked at, but there is no file."""
    other = replace(bundle, context=Context("made-up", "smpi", "3.32"))
    slot = overview_view([loaded(other)], (), ()).slots[0]
    assert slot.formats == ()
    assert "smpi" in slot.not_written


def test_the_history_tells_what_this_service_answers_from(bundle: Bundle) -> None:
    """The latest event comes first; one that the service did not take up is not in force."""
    events = (event(1, OLD), event(2, bundle.id))
    found = overview_view([loaded(bundle)], events, ()).history
    assert [one.sequence for one in found] == [2, 1]
    assert [one.in_force for one in found] == [True, False]
    refused = overview_view([loaded(bundle)], (*events, event(3, OLD)), ("refused",))
    assert [one.in_force for one in refused.history] == [False, False, False]
    assert [one.is_latest for one in refused.history] == [True, False, False]
    assert refused.warnings == ("refused",)


def test_the_history_tells_of_trials(bundle: Bundle) -> None:
    """A step does not take the place of what is in force, and says with how many of the jobs."""
    step = replace(event(2, OLD), action=Action.STEP, share=0.05)
    found = overview_view([loaded(bundle)], (event(1, bundle.id), step), ()).history
    assert [(one.in_force, one.is_latest, one.on_trial, one.share) for one in found] == [
        (False, False, True, 0.05),
        (True, True, False, None),
    ]


def test_long_histories_are_cut(bundle: Bundle) -> None:
    """Only so many events and so long notes are sent, and it is told that there are more."""
    events = tuple(event(i, OLD, "n" * 9000) for i in range(1, MOST_EVENTS + 6))
    view = overview_view([loaded(bundle)], events, ())
    assert (len(view.history), view.history_left_out) == (MOST_EVENTS, 5)
    assert view.history[0].sequence == MOST_EVENTS + 5
    assert len(view.history[0].note) < 500
