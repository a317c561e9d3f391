"""What follows from a judgement: withdrawals, steps of trials, notes of drift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Shape
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.production.arms import Arm, Production
from colltune.production.consequences import MOST_SHAPES, REPORT, ConsequenceKind, act
from colltune.production.judgement import (
    Judgement,
    ProductionDrift,
    ProductionFinding,
    ProductionVerdict,
    Range,
    SavedNodeHours,
    TrialStep,
    TrialVerdict,
)
from colltune.registry import Action, Registry
from colltune.registry.events import Cause
from colltune.selector.configuration import render, selector_for, target_of
from colltune.selector.decision_table import intervals
from tests.models.machines import configuration, measured

SLOT = "openmpi-4.1.4"
BINOMIAL, DEFAULT = configuration("binomial"), Configuration.default("openmpi", Collective.BCAST)
CLASS = Range(Collective.BCAST, 4, 7, 4, 256, 1023)
SHAPES = tuple(Shape(n, p) for n in (2, 3, 4, 5, 6, 7, 8, 16) for p in (1, 4))
JUDGED = Judgement(
    "2026-11-23T00:00:00+00:00",
    *((), (), ()),
    SavedNodeHours(0, 0, 0),
    *({}, {}, ()),
    *({}, {}),
    *(0, 0, 0, 0, 0),
)
REFUTED = ProductionFinding(
    SLOT,
    CLASS,
    BINOMIAL.id,
    Arm.TUNED,
    "a" * 64,
    {Arm.TUNED: 120, Arm.CONTROL: 9},
    *(0.5, 0.45, 0.6),
    ProductionVerdict.REFUTED,
    *(0.0, 0.0, 0.0),
    (Shape(4, 4),),
    "2026-11-22T00:00:00+00:00",
)
SETTINGS = Production(record=True)


@cache
def fitted(noise: float = 0.0) -> Bundle:
    """Return a bundle of bcast that chooses binomial for small messages."""
    return fit(measured(noise=noise), "knn")


@pytest.fixture(params=["folder", "memory"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Registry:
    """Return a registry, in a folder or an object store, with a bundle in force and another."""
    root = tmp_path / "registry" if request.param == "folder" else f"memory://{tmp_path.name}"
    registry = Registry(root)
    for bundle in (fitted(), fitted(0.02)):
        registry.add(bundle)
    registry.promote(fitted().id, by="ann")
    return registry


def judged(*found: ProductionFinding, **changes: Any) -> Judgement:
    return replace(JUDGED, findings=found, **changes)


def decided(bundle: Bundle) -> dict[tuple[Shape, int], Configuration]:
    """Return what is chosen on each shape for a dense row of message sizes."""
    selector = selector_for(bundle, target_of(bundle))
    sizes = [0, 1, 255, *range(256, 1024, 64), 1023, 1024, 4000, 65536, 1 << 20]
    found = {s: intervals(selector, Collective.BCAST, s, describe=False) for s in SHAPES}
    return {
        (shape, size): next(
            i.configuration for i in found[shape] if i.last_bytes is None or size <= i.last_bytes
        )
        for shape in SHAPES
        for size in sizes
    }


def test_a_refuted_decision_is_withdrawn_in_its_range_alone(registry: Registry) -> None:
    """Every shape of the class gets the default there, all else stays; the history says why."""
    [done] = act(judged(REFUTED), registry, SETTINGS, "the service")
    event = registry.current()[SLOT]
    assert (done.kind, done.slot, done.bundle_id) == (
        ConsequenceKind.WITHDRAWN,
        SLOT,
        event.bundle_id,
    )
    assert (event.previous_id, event.by) == (fitted().id, "the service")
    why = "binomial of bcast on 4 to 7 x 4, 256 to 1023 B: production jobs were 2.00x slower"
    assert f"{why} (1.67 to 2.22) in 120 jobs" in event.note
    before, after = decided(fitted()), decided(registry.load(event.bundle_id))
    changed = {key for key in before if before[key] != after[key]}
    inside = {(s, m) for s, m in before if s.ppn == 4 and 4 <= s.nodes <= 7 and 256 <= m <= 1023}
    assert changed == inside
    assert {before[key] for key in changed} == {BINOMIAL}
    assert {after[key] for key in changed} == {DEFAULT}


def test_a_jobs_file_changes_in_that_range_alone(registry: Registry) -> None:
    """The rules of the layout are split at the range; a file of another shape is the same."""
    act(judged(REFUTED), registry, SETTINGS, "the service")
    old, new = fitted(), registry.load(registry.current()[SLOT].bundle_id)

    def text(bundle: Bundle, shape: Shape) -> str:
        target = target_of(bundle)
        return render(selector_for(bundle, target), shape, target).written.texts[""]

    assert text(old, Shape(2, 4)) == text(new, Shape(2, 4))
    # 0: the library decides; 6: binomial; the rest of the file is as it was
    before, after = (text(bundle, Shape(4, 4)).splitlines() for bundle in (old, new))
    added = [line for line in after if line not in before]
    assert any(line.split()[:2] == ["256", "0"] for line in added)
    assert any(line.split()[:2] == ["1024", "6"] for line in added)
    assert [line for line in before if line not in after] != before


def test_nothing_is_done_twice_or_against_what_was_measured_since(registry: Registry) -> None:
    """A second look finds nothing to do; nor does one after `confirm` proved the decision."""
    act(judged(REFUTED), registry, SETTINGS, "the service")
    events = registry.history()
    assert act(judged(REFUTED), registry, SETTINGS, "the service") == ()
    proven = Confirmation(
        Collective.BCAST,
        Shape(4, 4),
        *(0, 5000),
        Status.CONFIRMED,
        *(BINOMIAL, BINOMIAL),
        *(1.4, 1.3, 1.5),
        *(3, "2026-11-23T08:00:00+00:00"),
    )
    bundle = registry.load(events[-1].bundle_id).with_confirmations([proven])
    registry.promote(registry.add(bundle), by="confirm")
    assert act(judged(REFUTED), registry, SETTINGS, "the service") == ()
    early = replace(proven, measured_utc="2026-11-21T00:00:00+00:00")
    registry.promote(registry.add(bundle.with_confirmations([early])), by="confirm")
    [done] = act(judged(REFUTED), registry, SETTINGS, "the service")
    assert "on 4 x 4, 256 to 1023 B" in done.text


def test_a_settled_finding_costs_nothing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was refuted stays in the judgement for months: a bundle is looked at once."""
    act(judged(REFUTED), registry, SETTINGS, "the service")
    act(judged(REFUTED), registry, SETTINGS, "the service")
    monkeypatch.setattr(registry, "load", lambda _id: pytest.fail("the bundle was read again"))
    assert act(judged(REFUTED), registry, SETTINGS, "the service") == ()


def test_all_refuted_ranges_of_a_look_make_one_revision(registry: Registry) -> None:
    """Three ranges are one promotion; where all is withdrawn, the default is left everywhere."""
    others = (
        replace(REFUTED, range=CLASS._replace(first_bytes=1024, last_bytes=2047)),
        replace(REFUTED, range=Range(Collective.BCAST, 2, 3, 1, 256, 511), gain=0.7, upper=0.8),
        replace(REFUTED, slot="openmpi-5.0.8"),
        replace(REFUTED, verdict=ProductionVerdict.PROVEN, range=CLASS._replace(first_bytes=0)),
    )
    [done] = act(judged(REFUTED, *others), registry, SETTINGS, "the service")
    assert [e.action for e in registry.history()] == [Action.PROMOTE] * 2
    assert (
        "; binomial of bcast on 2 to 3 x 1, 256 to 511 B: production jobs were 1.43x" in done.text
    )
    everything = [
        replace(REFUTED, configuration=one.id, range=Range(Collective.BCAST, n, 2 * n - 1, p, 0, m))
        for one in fitted().configurations()
        if not one.is_default
        for n in (2, 4, 8, 16)
        for p in (1, 4)
        for m in (1 << 40,)
    ]
    act(judged(*everything), registry, SETTINGS, "the service")
    assert set(decided(registry.load(registry.current()[SLOT].bundle_id)).values()) == {DEFAULT}


def test_a_bundle_that_decides_otherwise_is_left_alone(registry: Registry) -> None:
    """Evidence against a configuration says nothing of another one in its range."""
    for changes in (
        {"configuration": configuration("linear").id},
        {"configuration": configuration("chain").id},
        {"range": CLASS._replace(collective=Collective.ALLREDUCE)},
        {"range": CLASS._replace(first_bytes=1 << 20, last_bytes=1 << 21)},
    ):
        found = replace(REFUTED, **changes)
        assert act(judged(found), registry, SETTINGS, "the service") == (), changes
    assert len(registry.history()) == 1


def test_what_is_decided_as_a_whole_is_withdrawn_by_who_gave_it(registry: Registry) -> None:
    """Open MPI takes one rule for alltoallv: only the bundle that jobs had is known to have it."""
    collective = Collective.ALLTOALLV
    bundle = fit(measured(collectives=(collective,)), "knn")
    registry.promote(registry.add(bundle), by="ann")
    found = replace(
        REFUTED,
        range=CLASS._replace(collective=collective),
        configuration=configuration("binomial", collective).id,
    )
    assert act(judged(found), registry, SETTINGS, "the service") == ()
    given = replace(found, bundle_id=bundle.id)
    [done] = act(judged(given), registry, SETTINGS, "the service")
    records = registry.load(done.bundle_id).confirmations
    assert {one.shape for one in records} == {Shape(n, 4) for n in (4, 5, 6, 7)}
    again = replace(given, bundle_id=done.bundle_id)
    assert act(judged(again), registry, SETTINGS, "the service") == ()


def test_two_who_act_at_once_make_one_revision(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes second, or after somebody promoted something else, changes nothing."""
    add = registry.add

    def meanwhile(change: Callable[[], object]) -> None:
        def adding(bundle: Bundle) -> str:
            monkeypatch.setattr(registry, "add", add)
            change()
            return add(bundle)

        monkeypatch.setattr(registry, "add", adding)

    meanwhile(lambda: act(judged(REFUTED), Registry(registry.store.where), SETTINGS, "another"))
    assert act(judged(REFUTED), registry, SETTINGS, "the service") == ()
    assert [e.by for e in registry.history()] == ["ann", "another"]
    registry.promote(fitted().id, by="ann")
    meanwhile(lambda: registry.promote(fitted(0.02).id, by="bob"))
    assert act(judged(REFUTED), registry, SETTINGS, "the service") == ()
    assert registry.current()[SLOT].bundle_id == fitted(0.02).id
    [done] = act(judged(REFUTED), registry, SETTINGS, "the service")
    assert done.kind is ConsequenceKind.WITHDRAWN


def test_a_class_of_many_shapes_loses_it_where_jobs_used_it(registry: Registry) -> None:
    """Beyond so many shapes only those that jobs used are written into the bundle."""
    wide = Range(Collective.BCAST, 128, 255, 4, 256, 1023)
    assert wide.nodes_last - wide.nodes_first >= MOST_SHAPES
    first, last = Shape(16, 4), Shape(130, 4)
    found = replace(REFUTED, range=wide, shapes=(last, first))
    act(judged(replace(found, range=wide._replace(nodes_first=16))), registry, SETTINGS, "s")
    records = registry.load(registry.current()[SLOT].bundle_id).confirmations
    assert {one.shape for one in records} <= {first, last}
    assert first in {one.shape for one in records}


def step(share: float, **changes: Any) -> TrialStep:
    told: tuple[Any, ...] = (200, 0.97, 1.01, 1.0, TrialVerdict.NO_HARM, True, "no harm")
    return replace(TrialStep(SLOT, fitted(0.02).id, share, *told), **changes)


def test_a_trial_goes_on_by_steps_until_it_is_in_force(registry: Registry) -> None:
    """Each step waits for enough jobs; the last one promotes; a judgement counts once."""
    new = fitted(0.02).id
    registry.step(new, 0.05, by="night")
    waiting = judged(steps=(step(0.05, enough=False),))
    assert act(waiting, registry, SETTINGS, "the service") == ()
    first = judged(steps=(step(0.05),))
    [done] = act(first, registry, SETTINGS, "the service")
    assert (done.kind, registry.trials()[SLOT].share) == (ConsequenceKind.STEP, 0.25)
    assert registry.trials()[SLOT].note.startswith("200 jobs with 5% of all: 0.970 to 1.010 times")
    assert act(first, registry, SETTINGS, "the service") == ()
    [done] = act(judged(steps=(step(0.25),)), registry, SETTINGS, "the service")
    assert (done.kind, done.bundle_id) == (ConsequenceKind.PROMOTED, new)
    assert (registry.current()[SLOT].bundle_id, registry.trials()) == (new, {})


def test_a_trial_that_does_harm_is_stopped(registry: Registry) -> None:
    """Whatever else was judged of it, the bundle in force stays, and the history says why."""
    registry.step(fitted(0.02).id, 0.05, by="night")
    harmed = step(0.05, lower=1.4, upper=1.6, showed=TrialVerdict.HARM)
    other = replace(step(0.05), bundle_id="b" * 64)
    [done] = act(judged(steps=(other, harmed)), registry, SETTINGS, "the service")
    assert (done.kind, registry.trials()) == (ConsequenceKind.STOPPED, {})
    assert registry.current()[SLOT].bundle_id == fitted().id
    event = registry.history()[-1]
    assert (event.action, "1.400 to 1.600 times" in event.note) == (Action.STOP, True)


def test_a_range_is_withdrawn_from_a_trial_too(registry: Registry) -> None:
    """The trial goes on at its share with what is left, beside the revision of the other."""
    registry.step(fitted(0.02).id, 0.25, by="night")
    found = act(judged(REFUTED), registry, SETTINGS, "the service")
    assert [one.kind for one in found] == [ConsequenceKind.WITHDRAWN] * 2
    trial, in_force = registry.trials()[SLOT], registry.current()[SLOT]
    assert (trial.share, in_force.bundle_id, trial.bundle_id) == (
        0.25,
        *[f.bundle_id for f in found],
    )
    for event in (trial, in_force):
        after = decided(registry.load(event.bundle_id))
        assert after[Shape(5, 4), 512] == DEFAULT
    assert act(judged(REFUTED), registry, SETTINGS, "the service") == ()


def test_a_trial_goes_on_where_a_withdrawal_was_interrupted(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is killed after the promotion, which ends the trial, has the next judgement resume it."""

    def killed(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    registry.step(fitted(0.02).id, 0.25, by="night")
    with monkeypatch.context() as patched:
        patched.setattr(registry, "step", killed)
        with pytest.raises(KeyboardInterrupt):
            act(judged(REFUTED), registry, SETTINGS, "the service")
    assert registry.trials() == {}
    [found] = act(judged(REFUTED), registry, SETTINGS, "the service")
    trial = registry.trials()[SLOT]
    assert (trial.share, trial.bundle_id, found.kind) == (
        0.25,
        found.bundle_id,
        ConsequenceKind.WITHDRAWN,
    )
    assert decided(registry.load(trial.bundle_id))[Shape(5, 4), 512] == DEFAULT
    assert act(judged(REFUTED), registry, SETTINGS, "the service") == ()


def test_a_harmful_trial_is_stopped_before_a_promotion_ends_it(registry: Registry) -> None:
    """The history says that it did harm, also where the bundle in force is revised at once."""
    registry.step(fitted(0.02).id, 0.25, by="night")
    found = act(
        judged(REFUTED, steps=(step(0.25, showed=TrialVerdict.HARM),)), registry, SETTINGS, "s"
    )
    assert [one.kind for one in found] == [ConsequenceKind.STOPPED, ConsequenceKind.WITHDRAWN]
    assert [e.action for e in registry.history()][-2:] == [Action.STOP, Action.PROMOTE]


def test_people_have_the_last_word(registry: Registry) -> None:
    """A withdrawal that somebody rolled back is not made again; another range is."""
    act(judged(REFUTED), registry, SETTINGS, "the service")
    registry.rollback(SLOT, by="ann", note="we need it")
    assert act(judged(REFUTED), registry, SETTINGS, "the service") == ()
    assert registry.current()[SLOT].bundle_id == fitted().id
    other = replace(REFUTED, range=CLASS._replace(first_bytes=1024, last_bytes=2047))
    [done] = act(judged(REFUTED, other), registry, SETTINGS, "the service")
    assert "1024 to 2047 B" in done.text
    assert "256" not in done.text


def test_what_the_machine_did_is_told_by_no_note(registry: Registry) -> None:
    """A person's promotion ends a trial, also if its note is copied from a withdrawal."""
    act(judged(REFUTED), registry, SETTINGS, "the service")
    ours = registry.history()[-1]
    registry.step(fitted(0.02).id, 0.25, by="night")
    registry.promote(fitted().id, by="ann", note=ours.note)
    act(judged(REFUTED), registry, SETTINGS, "the service")
    assert registry.trials() == {}
    again = Registry(registry.store.where).history()
    assert [event.cause for event in again][-3:] == [None, None, Cause.WITHDRAWAL]
    assert ours.cause is Cause.WITHDRAWAL


def test_drift_is_noted_once_and_changes_nothing(registry: Registry) -> None:
    """Drift makes no event; it is told when it begins, and reported until it ends."""
    drift = ProductionDrift(
        SLOT, 1.2, "2026-11-22T00:00:00+00:00", "1.20x slower, control group included"
    )
    for expected in (1, 0):
        found = act(judged(drifts=(drift,)), registry, SETTINGS, "the service")
        assert [one.kind for one in found] == [ConsequenceKind.DRIFT] * expected
    assert len(registry.history()) == 1
    report = registry.latest_report(REPORT)
    assert report is not None
    assert list(report["drifts"].values()) == [drift.text]
    act(judged(), registry, SETTINGS, "the service")
    assert (registry.latest_report(REPORT) or {})["drifts"] == {}


def test_a_damaged_bundle_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    """What cannot be done in a slot is a consequence that says so, not an end of all."""
    registry = Registry(tmp_path)
    registry.promote(registry.add(fitted()), by="ann")
    (registry.path(fitted().id) / "bcast.arrays").write_bytes(b"x")
    [done] = act(judged(REFUTED), registry, SETTINGS, "the service")
    assert (done.kind, "bcast.arrays" in done.text) == (ConsequenceKind.FAILED, True)
    assert registry.latest_report(REPORT) is None
