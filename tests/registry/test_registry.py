"""The registry of bundles, in a folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from colltune.domain import Collective
from colltune.errors import BundleError, OutputError, RegistryConflict
from colltune.registry import Action, Registry
from colltune.registry.events import Cause
from colltune.registry.registry import NOTHING
from tests.refusals import refused
from tests.registry.small import small

SLOT = "openmpi-4.1.4"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """Return a registry with three bundles of one slot, none in force."""
    registry = Registry(tmp_path / "registry")
    for number in range(3):
        registry.add(small(number))
    return registry


def root(registry: Registry) -> Path:
    """Return the folder of `registry`."""
    return Path(registry.store.where)


def test_what_was_added_is_loaded(registry: Registry, tmp_path: Path) -> None:
    """A bundle lies in the folder of its id, from memory or from a folder, once."""
    ids = {small(n).id for n in range(3)}
    saved = small(1).save(tmp_path / "saved")
    assert registry.add(saved) == small(1).id
    assert {p.name for p in (root(registry) / "bundles").iterdir()} == ids == set(registry.ids())
    loaded = registry.load(small(1).id)
    assert (loaded.id, loaded.created_utc) == (small(1).id, small(1).created_utc)
    assert registry.path(loaded.id) == root(registry) / "bundles" / loaded.id
    assert list((root(registry) / "work").iterdir()) == []


def test_entries_tell_about_bundles(registry: Registry) -> None:
    """An entry has what lists show; a damaged bundle is left out and `entry` says why."""
    entry = registry.entry(small(2).id)
    assert (entry.slot, entry.collectives, entry.objective) == (
        SLOT,
        (Collective.BCAST,),
        small(2).objective,
    )
    files = registry.path(entry.id).iterdir()
    assert entry.size_bytes == sum(f.stat().st_size for f in files)
    assert entry in registry.entries()
    assert len(registry.entries()) == 3
    (registry.path(entry.id) / "manifest.json").write_text("{")
    assert entry.id not in {e.id for e in Registry(root(registry)).entries()}
    with refused("bundle-file-damaged", BundleError):
        registry.entry(entry.id)


def test_adding_again_replaces_a_damaged_bundle(registry: Registry) -> None:
    """A bundle that does not fit its hashes is put right by adding it again."""
    (registry.path(small().id) / "bcast.arrays").write_bytes(b"x")
    with refused("hash-differs", BundleError):
        registry.load(small().id)
    assert registry.add(small()) == small().id
    assert registry.load(small().id).id == small().id


def test_a_bundle_is_found_by_how_it_begins(registry: Registry) -> None:
    """At least four digits name a bundle, if no other begins with them."""
    for bundle_id in registry.ids():
        assert registry.find(bundle_id[:10]) == bundle_id
    with refused("no-bundle-begins", BundleError, prefix="ffffffff0"):
        registry.find("ffffffff0")
    twin = registry.ids()[0][:63]
    (root(registry) / "bundles" / (twin + "0")).mkdir()
    (root(registry) / "bundles" / (twin + "1")).mkdir()
    with refused("several-bundles-begin", BundleError):
        registry.find(twin)


def test_promotions_are_told_in_order(registry: Registry) -> None:
    """The latest promotion is in force, in the history, and what the link points to."""
    first = registry.promote(small(0).id, by="ann")
    second = registry.promote(small(1).id, by="bob", note="better")
    assert (first.sequence, first.previous_id, first.action) == (1, None, Action.PROMOTE)
    assert (second.sequence, second.previous_id, second.note) == (2, small(0).id, "better")
    assert Registry(root(registry)).history() == (first, second) == registry.history(SLOT)
    assert registry.current() == {SLOT: second}
    link = root(registry) / "current" / SLOT
    assert link.readlink() == Path("..", "bundles", small(1).id)
    assert link.resolve() == registry.path(small(1).id).resolve()


def test_what_was_measured_on_shared_cores_is_not_promoted(registry: Registry) -> None:
    """It would be handed to jobs whose processes have a core each."""
    bundle = small(7)
    shared = replace(bundle.context, cores_shared="4 processes on 2 cores per node")
    revised = replace(bundle, context=shared).with_confirmations(())
    registry.add(revised)
    assert registry.load(revised.id).context == shared
    registry.promote(small(0).id, by="ann")
    for bring in (registry.promote, partial(registry.step, share=0.5)):
        with refused("shared-cores", BundleError):
            bring(revised.id, by="ann")


def test_slots_are_apart(registry: Registry) -> None:
    """Each release has its own bundle in force."""
    other = registry.add(small(0, "5.0.8"))
    first = registry.promote(small(0).id, by="ann")
    second = registry.promote(other, by="ann")
    assert registry.current() == {SLOT: first, "openmpi-5.0.8": second}
    assert second.previous_id is None
    assert registry.history("openmpi-5.0.8") == (second,)


def test_what_is_in_force_is_not_promoted_twice(registry: Registry) -> None:
    """Promoting it again makes no event, so that a retry after a crash changes nothing."""
    event = registry.promote(small().id, by="ann")
    (root(registry) / "current" / SLOT).unlink()
    assert registry.promote(small().id, by="bob") == event
    assert registry.history() == (event,)
    assert registry.store.pointed(SLOT) == small().id


def test_rollbacks_undo_promotions_one_by_one(registry: Registry) -> None:
    """Each goes back by one promotion that still stands; a new promotion stands on what is left."""
    a, b, c = (small(n).id for n in range(3))
    for bundle_id in (a, b, c):
        registry.promote(bundle_id, by="ann")
    assert registry.rollback(SLOT, by="bob", note="slow").bundle_id == b
    assert registry.rollback(SLOT, by="bob").bundle_id == a
    with refused("first-bundle", BundleError):
        registry.rollback(SLOT, by="bob")
    registry.promote(c, by="ann")
    event = registry.rollback(SLOT, by="bob")
    assert (event.bundle_id, event.previous_id, event.action) == (a, c, Action.ROLLBACK)
    assert registry.current()[SLOT] == event
    assert registry.store.pointed(SLOT) == a
    with refused("nothing-to", BundleError, slot="openmpi-5.0.8"):
        registry.rollback("openmpi-5.0.8", by="bob")


def test_a_rollback_to_what_is_gone_is_refused(registry: Registry) -> None:
    """What does not load is not brought back; what is in force stays."""
    registry.promote(small(0).id, by="ann")
    event = registry.promote(small(1).id, by="ann")
    shutil.rmtree(registry.path(small(0).id))
    with refused("no-such-bundle", BundleError):
        registry.rollback(SLOT, by="bob")
    assert registry.current() == {SLOT: event}


def test_only_what_is_expected_is_replaced(registry: Registry) -> None:
    """With another bundle in force than expected nothing happens."""
    a, b, c = (small(n).id for n in range(3))
    first = registry.promote(a, by="ann", expected=NOTHING)
    with refused("not-as-expected", RegistryConflict, expected="no bundle"):
        registry.promote(b, by="bob", expected=NOTHING)
    with refused("not-as-expected", RegistryConflict, state="in force"):
        registry.promote(c, by="bob", expected=b)
    with pytest.raises(RegistryConflict):
        registry.rollback(SLOT, by="bob", expected=b)
    assert registry.history() == (first,)
    assert registry.promote(b, by="bob", expected=a).previous_id == a


def test_the_order_is_of_numbers_not_of_clocks(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that goes back between promotions changes nothing about what is in force."""
    first = registry.promote(small(0).id, by="ann")

    class Earlier:
        @staticmethod
        def now(_zone: object) -> Earlier:
            return Earlier()

        @staticmethod
        def isoformat(timespec: str) -> str:
            return f"1999-01-01T00:00:00+00:00 {timespec}"

    monkeypatch.setattr("colltune.registry.events.datetime", Earlier)
    second = registry.promote(small(1).id, by="ann")
    assert second.at_utc < first.at_utc
    again = Registry(root(registry))
    assert again.current()[SLOT] == second
    assert again.rollback(SLOT, by="ann").bundle_id == small(0).id


def test_no_name_leaves_the_registry(registry: Registry, subtests: pytest.Subtests) -> None:
    """What is no id, slot, release or kind of report is refused wherever one is asked for."""
    promote, rollback = partial(registry.promote, by="eve"), partial(registry.rollback, by="eve")
    reports = (partial(registry.put_report, content={}), registry.latest_report)
    of_ids = (registry.load, registry.path, registry.find, registry.entry, promote, *reports)
    expecting = partial(registry.promote, small().id, by="eve")
    for name in ("../../secret", "/etc", "", "a" * 63, "A" * 64, f"{'a' * 64}\n", "é"):
        calls: list[Callable[[], object]] = [partial(call, name) for call in of_ids]
        if name:
            calls.append(partial(expecting, expected=name))
        if name.lower()[:63] != "a" * 63 or "\n" in name:
            calls += [partial(rollback, name), partial(registry.history, name)]
        for call in calls:
            with (
                subtests.test(name=name, call=call),
                pytest.raises(BundleError) as raised,
            ):
                call()
            assert raised.value.code in _NOT_FOUND
    for release in ("../x", "4.1/4", " ", "é", "4" * 200):
        with refused("not-a-slot", BundleError):
            registry.add(small(0, release))
    assert registry.history() == ()


def test_symbolic_links_are_no_bundles(registry: Registry, tmp_path: Path) -> None:
    """A bundle that is a link, or one of whose files is, is neither loaded nor promoted."""
    target = registry.path(small(0).id).rename(tmp_path / "elsewhere")
    (root(registry) / "bundles" / small(0).id).symlink_to(target)
    arrays = (registry.path(small(1).id) / "bcast.arrays").rename(tmp_path / "arrays")
    (registry.path(small(1).id) / "bcast.arrays").symlink_to(arrays)
    for number, message in ((0, "not-a-folder-of-its-own"), (1, "not-regular")):
        with refused(message, BundleError):
            registry.load(small(number).id)
        with refused(message, BundleError):
            registry.promote(small(number).id, by="eve")
    assert registry.history() == ()


def test_a_pipe_does_not_hang_readers(registry: Registry, tmp_path: Path) -> None:
    """A pipe in the place of a file is refused, not waited for, in a registry and before."""
    saved = small(1).save(tmp_path / "saved")
    (saved / "manifest.json").unlink()
    os.mkfifo(saved / "manifest.json")
    with refused("not-regular", BundleError):
        registry.add(saved)
    arrays = registry.path(small().id) / "bcast.arrays"
    arrays.unlink()
    os.mkfifo(arrays)
    with refused("not-regular", BundleError):
        registry.load(small().id)
    (root(registry) / "history").mkdir()
    os.mkfifo(root(registry) / "history" / "00000001.json")
    with refused("cannot-read", BundleError):
        registry.current()


def test_a_tampered_bundle_is_not_promoted(registry: Registry) -> None:
    """One changed byte is refused, and what was in force stays."""
    event = registry.promote(small(0).id, by="ann")
    for number, file in ((1, "bcast.arrays"), (2, "manifest.json")):
        path = registry.path(small(number).id) / file
        content = bytearray(path.read_bytes())
        content[content.index(b"4.1.4") if file == "manifest.json" else -3] ^= 1
        path.write_bytes(bytes(content))
        with pytest.raises(BundleError) as raised:
            registry.promote(small(number).id, by="eve")
        assert raised.value.code in ("hash-differs", "content-of-another-id")
    assert registry.current() == {SLOT: event}


def test_another_bundle_under_a_name_is_refused(registry: Registry) -> None:
    """A whole bundle in the folder of another one is not taken for it."""
    folder = registry.path(small(0).id)
    shutil.rmtree(folder)
    shutil.copytree(registry.path(small(1).id), folder)
    with refused("another-bundle", BundleError):
        registry.load(small(0).id)


def test_a_newer_bundle_is_refused(registry: Registry) -> None:
    """A bundle of a format of the future says that colltune must be upgraded."""
    manifest = registry.path(small().id) / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format_version": 99}))
    with refused("newer-bundle", BundleError, version=99):
        registry.promote(small().id, by="ann")


_DAMAGED: tuple[bytes | dict[str, object], ...] = (
    b"",
    b"\xff\x00garbage",
    b"[1]",
    b"[" * 100_000,
    {"sequence": 7},
    {"slot": "../x"},
    {"bundle_id": "../x"},
    {"action": "explode"},
    {"by": 3},
    {"share": 0.5},
    {"action": "step", "share": 2},
    {"action": "step"},
    {"extra": 1},
    {"format_version": 99},
)
_NOT_FOUND = (
    "no-bundle-begins",
    "no-such-report",
    "not-a-prefix",
    "not-a-slot",
    "not-an-id-of-a-bundle",
)


def test_earlier_withdrawals_are_known_by_who_made_them(registry: Registry) -> None:
    """Before events had a cause, the service's own note told; the same words of others do not."""
    note = "withdrawn by production: binomial of bcast"
    for number, by in enumerate(("production (service)", "ann")):
        registry.promote(small(number).id, by=by, note=note)
    causes = [event.cause for event in Registry(root(registry)).history()]
    assert causes == [Cause.WITHDRAWAL, None]


def test_a_damaged_event_is_named(registry: Registry) -> None:
    """It is one error with the file's name; who knew the event goes on; removing it mends."""
    registry.promote(small(0).id, by="ann")
    second = registry.promote(small(1).id, by="ann")
    file = root(registry) / "history" / "00000002.json"
    whole = file.read_text()
    for damage in _DAMAGED:
        newer = isinstance(damage, dict) and "format_version" in damage
        code = "format-version" if newer else "damaged-event"
        if isinstance(damage, dict):
            damage = json.dumps(json.loads(whole) | damage).encode()  # noqa: PLW2901
        file.write_bytes(damage)
        again = Registry(root(registry))
        for ask in (again.current, again.history, partial(again.promote, small(2).id, by="ann")):
            with refused(code, BundleError) as raised:
                ask()
            assert raised.value.values["place"].endswith("history/00000002.json")
        assert registry.current() == {SLOT: second}, damage
    file.unlink()
    assert again.current()[SLOT].bundle_id == small(0).id
    assert again.promote(small(2).id, by="ann").sequence == 2


def test_a_huge_event_is_refused(registry: Registry) -> None:
    """A file that no event can be is not read into memory."""
    (root(registry) / "history").mkdir()
    with (root(registry) / "history" / "00000001.json").open("wb") as stream:
        stream.truncate(1 << 40)
    with refused("cannot-read", BundleError):
        registry.current()


def test_no_name_is_no_registry() -> None:
    """An empty name does not mean the folder one happens to be in."""
    with refused("missing", BundleError):
        Registry("")


def test_asking_what_is_in_force_reads_little(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers that poll list one folder, look at the newest event, and read what is new."""
    registry.promote(small(0).id, by="ann")
    server = Registry(root(registry))
    before = server.current()
    asked: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        original = getattr(server.store, name)

        def call(key: str, **options: bool) -> Any:
            asked.append(key)
            return original(key, **options)

        return call

    for name in ("names", "read"):
        monkeypatch.setattr(server.store, name, noted(name))
    assert server.current() == before
    assert asked == ["history", "history/00000001.json"]
    asked.clear()
    second = registry.promote(small(1).id, by="ann")
    assert server.current() == {SLOT: second}
    assert asked == ["history", "history/00000001.json", "history/00000002.json"]


def test_a_registry_that_is_replaced_is_taken_as_it_is(registry: Registry, tmp_path: Path) -> None:
    """A server that knows a history follows a restored copy, shorter, equally long or empty."""
    here, away = root(registry), tmp_path / "away"
    server = Registry(here)
    first = registry.promote(small(0).id, by="ann")
    shutil.copytree(here, tmp_path / "copy", symlinks=True)
    registry.promote(small(1).id, by="ann")
    assert server.current()[SLOT].bundle_id == small(1).id
    here.rename(away)
    (tmp_path / "copy").rename(here)
    assert server.current() == {SLOT: first}
    other = Registry(here).promote(small(2).id, by="eve")
    assert server.current() == {SLOT: other}
    here.rename(tmp_path / "copy")
    away.rename(here)
    assert server.current()[SLOT].bundle_id == small(1).id
    shutil.rmtree(here / "history")
    assert server.current() == {}


def test_no_registry_is_said(tmp_path: Path) -> None:
    """A folder that is not there is an error for readers and promoters, and is not made."""
    registry = Registry(tmp_path / "typo")
    for ask in (registry.current, registry.entries, registry.ids):
        with refused("no-registry-here", BundleError, what="no such registry"):
            ask()
    with refused("no-registry-here", BundleError, what="no such registry"):
        registry.promote(small().id, by="ann")
    with refused("no-registry-here", BundleError, what="no such registry"):
        registry.rollback(SLOT, by="ann")
    assert not (tmp_path / "typo").exists()


def test_reports_come_back_latest_first(registry: Registry) -> None:
    """The latest that can be read is told, whatever its time; kinds are apart."""
    assert registry.latest_report("drift") is None
    registry.put_report("drift", {"psi": 0.1})
    registry.put_report("drift", {"psi": 0.2})
    registry.put_report("retrain", {"promoted": True})
    assert registry.latest_report("drift") == {"psi": 0.2}
    (root(registry) / "reports" / "drift" / "00000002.json").write_text("{")
    assert registry.latest_report("drift") == {"psi": 0.1}
    with refused("report-not-json", BundleError):
        registry.put_report("drift", {"psi": float("nan")})


def test_a_full_disk_leaves_what_was(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event or bundle that finds no room is an error, and leaves no trace."""
    event = registry.promote(small(0).id, by="ann")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with refused("cannot-write", OutputError, why="No space left on device"):
        registry.promote(small(1).id, by="ann")
    with refused("cannot-write", OutputError):
        registry.add(small(3))
    monkeypatch.undo()
    assert Registry(root(registry)).current() == {SLOT: event}
    left = [p.name for p in root(registry).rglob("*") if ".tmp" in p.name or "using" in p.name]
    assert left == []


def test_a_long_note_is_refused(registry: Registry) -> None:
    """Nobody fills the history with one event."""
    with refused("text-too-long", BundleError, longest_text=10000):
        registry.promote(small().id, by="ann", note="x" * 10_001)
    assert registry.history() == ()
