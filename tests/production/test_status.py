"""What the page, the command and the report tell of production, from one judgement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colltune.production.arms import Production
from colltune.production.judgement import Judgement, ProductionVerdict, SavedNodeHours
from colltune.production.status import ProductionStatus, status_of
from colltune.registry import Action, Event
from tests.production.judged import (
    EVENTS,
    FIRST,
    JUDGEMENT,
    NOTE,
    REVISION,
    SETTINGS,
    SLOT,
    TRIED,
    event,
    finding,
)


def told(
    judgement: Judgement | None = JUDGEMENT, events: tuple[Event, ...] = EVENTS
) -> ProductionStatus:
    """Return what is told of a site that records."""
    return status_of(judgement, SETTINGS, events, "hydra")


def test_a_site_that_records_nothing_is_told_how() -> None:
    """Nothing else is known of it, and the way to switch it on is named."""
    found = status_of(JUDGEMENT, Production(), EVENTS, "hydra")
    assert (found.recording, found.saved, found.roll_outs) == (False, None, ())
    assert "site init" in found.switch_on


def test_before_the_first_look_a_trial_is_known_already() -> None:
    """The registry tells it; nothing is said of its speed."""
    found = told(None)
    assert (found.recording, found.judged_utc, found.saved) == (True, "", None)
    (one,) = found.roll_outs
    assert (one.bundle_id, one.share, one.jobs, one.lower) == (TRIED, 0.25, 0, None)


def test_figures_are_those_of_the_judgement() -> None:
    """Months come the latest first; each collective has its gain and what it saved."""
    found = told()
    assert [one.period for one in found.months] == ["2026-11", "2026-10"]
    assert found.saved is not None
    assert (found.saved.period, found.saved.node_hours) == ("all", 1412.0)
    assert {one.mpi_name: (one.gain, one.saved_node_hours) for one in found.collectives} == {
        "MPI_Allreduce": (1.2, 170.0),
        "MPI_Bcast": (1.41, 250.0),
        "MPI_Alltoall": (0.53, -8.0),
    }
    assert (found.proven_count, found.refuted_count, found.open_count) == (2, 1, 1)
    assert [one.mpi_name for one in found.proven] == ["MPI_Bcast", "MPI_Allreduce"]


def test_a_roll_out_has_the_jobs_of_its_present_step() -> None:
    """A step that was judged at another share says nothing of this one."""
    (one,) = told().roll_outs
    assert (one.jobs, one.lower, one.upper) == (140, 0.93, 1.01)
    assert (one.shares, one.jobs_wanted) == (SETTINGS.steps, SETTINGS.jobs_per_step)
    earlier = tuple(replace(step, share=0.05) for step in JUDGEMENT.steps)
    (one,) = told(replace(JUDGEMENT, steps=earlier)).roll_outs
    assert (one.jobs, one.lower) == (0, None)


@pytest.mark.parametrize(
    ("events", "withdrawn", "revision"),
    [
        (EVENTS, "2026-11-21T03:00:00+00:00", REVISION),
        (EVENTS[:2], "", ""),
        # another bundle's trial that ends takes nothing away
        ((*EVENTS[:2], event(22, Action.STOP, TRIED, FIRST, share=0.0)), "", ""),
        # what came into force before it was refuted is no answer to that
        ((*EVENTS[:2], event(20, Action.PROMOTE, REVISION, FIRST)), "", ""),
    ],
)
def test_a_refuted_decision_names_what_withdrew_it(
    events: tuple[Event, ...], withdrawn: str, revision: str
) -> None:
    """The revision that took its bundle's place, when and why; nothing where nobody did."""
    (one,) = told(events=events).refuted
    assert (one.withdrawn_utc, one.revision) == (withdrawn, revision)
    assert one.note == (NOTE if revision else "")


def test_a_candidate_is_withdrawn_by_the_end_of_its_trial() -> None:
    """There is no revision then: the bundle in force stays."""
    harmful = finding(ProductionVerdict.REFUTED, 0.5, bundle_id=TRIED)
    stop = event(22, Action.STOP, TRIED, FIRST, share=0.0, note="harm")
    found = told(replace(JUDGEMENT, findings=(harmful,)), (*EVENTS[:2], stop))
    assert [(one.withdrawn_utc, one.revision, one.note) for one in found.refuted] == [
        (stop.at_utc, "", "harm")
    ]
    assert found.roll_outs == ()
    assert [(one.slot, one.bundle_id, one.note) for one in found.stopped] == [(SLOT, TRIED, "harm")]
    promoted = (*EVENTS[:2], stop, event(23, Action.PROMOTE, REVISION, FIRST))
    assert told(events=promoted).stopped == ()
    assert found.refuted[0].slot == SLOT


def test_nothing_is_saved_where_no_job_was_judged() -> None:
    """A look at no job is not the same as jobs that gained nothing."""
    found = told(replace(JUDGEMENT, saved=SavedNodeHours(0.0, 0.0, 0.0)))
    assert (found.saved, found.judged_utc) == (None, JUDGEMENT.at_utc)
