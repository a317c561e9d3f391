"""A bundle on trial beside the one in force."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.errors import BundleError, RegistryConflict
from colltune.registry import Action, Event, Registry
from colltune.registry.events import at, in_force, standing, trials
from colltune.registry.garbage import Collection
from colltune.registry.registry import NOTHING
from tests.refusals import refused
from tests.registry.small import small
from tests.registry.test_garbage import DAY_S, age

SLOT = "openmpi-4.1.4"
OLD, NEW, OTHER = (small(n).id for n in range(3))


@pytest.fixture(params=["folder", "memory"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Registry:
    """Return a registry, in a folder or an object store, of three bundles, the first in force."""
    root = tmp_path / "registry" if request.param == "folder" else f"memory://{tmp_path.name}"
    registry = Registry(root)
    for number in range(3):
        registry.add(small(number))
    registry.promote(OLD, by="ann")
    return registry


def test_a_trial_goes_on_by_steps_beside_the_bundle_in_force(registry: Registry) -> None:
    """Steps change the trial alone; promoting its bundle ends it; everybody sees the same."""
    link = registry.store.pointed(SLOT)
    first = registry.step(NEW, 0.05, by="bob", note="new cables", expected=NOTHING)
    assert (first.action, first.bundle_id, first.previous_id) == (Action.STEP, NEW, OLD)
    assert registry.step(NEW, 0.05, by="eve") == first
    second = registry.step(NEW, 0.25, by="bob", expected=NEW)
    other = Registry(registry.store.where)
    assert other.trials() == {SLOT: second} == registry.trials()
    assert other.current()[SLOT].bundle_id == OLD
    assert registry.store.pointed(SLOT) == link
    assert standing(registry.history(), SLOT) == [OLD]
    promoted = registry.promote(NEW, by="bob", expected=OLD)
    assert (promoted.previous_id, registry.trials()) == (OLD, {})
    assert registry.rollback(SLOT, by="bob").bundle_id == OLD
    assert registry.trials() == {}


def test_a_trial_that_is_stopped_leaves_the_bundle_in_force(registry: Registry) -> None:
    """A stop names what was on trial; a rollback goes back in promotions and ends a trial, too."""
    registry.step(NEW, 0.05, by="bob")
    stopped = registry.stop(SLOT, by="bob", note="slower", expected=NEW)
    assert (stopped.action, stopped.bundle_id, stopped.share) == (Action.STOP, NEW, 0.0)
    assert (registry.trials(), registry.current()[SLOT].bundle_id) == ({}, OLD)
    registry.promote(OTHER, by="ann")
    registry.step(NEW, 0.05, by="bob")
    assert registry.rollback(SLOT, by="ann").bundle_id == OLD
    assert registry.trials() == {}


def test_what_is_no_trial_is_refused(registry: Registry) -> None:
    """Each refusal says what is wrong, and makes no event."""
    other = registry.add(small(0, "5.0.8"))
    history = registry.history()
    for share in (0.0, -0.5, 1.5, float("nan")):
        with refused("not-a-share", BundleError):
            registry.step(NEW, share, by="bob")
    for bundle_id, there in ((OLD, "this bundle"), (other, "no bundle")):
        with refused("nothing-to-try-against", RegistryConflict, there=there):
            registry.step(bundle_id, 0.05, by="bob")
    with refused("no-trial", RegistryConflict):
        registry.stop(SLOT, by="bob")
    with refused("not-a-slot", BundleError):
        registry.stop("../x", by="bob")
    with refused("not-as-expected", RegistryConflict, state="on trial"):
        registry.step(NEW, 0.05, by="bob", expected=OTHER)
    registry.step(NEW, 0.05, by="ann")
    with refused("not-as-expected", RegistryConflict, expected="no bundle", state="on trial"):
        registry.step(OTHER, 0.05, by="bob", expected=NOTHING)
    assert len(registry.history()) == len(history) + 1


def test_the_past_is_told_by_the_time(registry: Registry) -> None:
    """What was in force and on trial at a time is what the events until then made of it."""
    calls = (registry.step(NEW, 0.05, by="b"), registry.stop(SLOT, by="b"))
    events = [
        replace(event, at_utc=f"2026-11-2{day}T00:00:00+00:00")
        for day, event in enumerate((registry.history()[0], *calls))
    ]
    told: dict[str, tuple[Event | None, Event | None]] = {
        "2026-11-19T23:59:59+00:00": (None, None),
        "2026-11-20T12:00:00+00:00": (events[0], None),
        "2026-11-21T13:00:00+01:00": (events[0], events[1]),
        "2026-11-22T00:00:00Z": (events[0], None),
        "no time": (events[0], None),
    }
    for time, expected in told.items():
        assert at(events, SLOT, time) == expected, time
    assert at(events, "openmpi-5.0.8", "2026-11-22T00:00:00Z") == (None, None)


def test_only_events_of_a_trial_need_a_newer_colltune(tmp_path: Path) -> None:
    """A promotion is written as format 1 had it, and read from there; a step says format 2."""
    registry = Registry(tmp_path)
    for number in range(2):
        registry.add(small(number))
    registry.promote(OLD, by="ann")
    registry.step(NEW, 0.05, by="ann")
    registry.stop(SLOT, by="ann")
    found = [json.loads(p.read_text()) for p in sorted((tmp_path / "history").iterdir())]
    assert [(f["format_version"], f.get("share")) for f in found] == [
        (1, None),
        (2, 0.05),
        (2, 0.0),
    ]
    assert "share" not in found[0]


def test_a_step_without_its_promotion_is_a_trial_of_nothing(tmp_path: Path) -> None:
    """Where someone removed the promotion's event, reading and stopping go on."""
    registry = Registry(tmp_path)
    for number in range(2):
        registry.add(small(number))
    registry.promote(OLD, by="ann")
    registry.step(NEW, 0.05, by="ann")
    (tmp_path / "history" / "00000001.json").unlink()
    again = Registry(tmp_path)
    assert (in_force(again.history()), set(trials(again.history()))) == ({}, {SLOT})
    assert again.stop(SLOT, by="ann").previous_id is None


def test_a_bundle_on_trial_is_not_removed(tmp_path: Path) -> None:
    """However many events came after, it stays, and goes when the trial has ended."""
    registry = Registry(tmp_path)
    for number in range(3):
        registry.add(small(number))
        age(registry.path(small(number).id), 100 * DAY_S)
    registry.promote(OLD, by="ann")
    registry.step(NEW, 0.05, by="ann")
    work = Collection(registry, keep_events=0, min_age_s=DAY_S)
    assert {i.bundle_id: i.why for i in work.plan().kept}[NEW] == f"on trial in {SLOT}"
    assert {i.bundle_id for i in work.remove(work.plan().doomed)} == {OTHER}
    registry.stop(SLOT, by="ann")
    assert NEW in {i.bundle_id for i in work.plan().doomed}
