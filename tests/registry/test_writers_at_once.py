"""Many writers of one registry at once, and writers that are stopped midway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colltune.errors import BundleError, OutputError, RegistryConflict
from colltune.process import run
from colltune.registry import Registry
from colltune.registry.garbage import Collection
from tests.refusals import refused
from tests.registry.small import small

SLOT = "openmpi-4.1.4"
WRITERS = 4
TURNS = 6
PROMOTER = """
import json, sys
from dataclasses import asdict
from colltune.registry import Registry
registry, name, turns, *ids = Registry(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:]
sys.stdin.readline()
for turn in range(turns):
    event = registry.promote(ids[turn % len(ids)], by=name)
    print(json.dumps(asdict(event)), flush=True)
"""
KILLED = """
import os, signal, sys
from colltune.registry import Registry
where, when, bundle_id, root = sys.argv[1:]
real = getattr(os, where)
def stopped(source, target, **options):
    if when == "after":
        real(source, target, **options)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, where, stopped)
Registry(root).promote(bundle_id, by="the killed one")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a registry of four bundles of one slot."""
    registry = Registry(tmp_path / "registry")
    for number in range(4):
        registry.add(small(number))
    return tmp_path / "registry"


def test_promotions_of_many_processes_have_one_order(root: Path) -> None:
    """Each event follows the one before, none is lost, and the link ends where history does."""
    ids = [small(n).id for n in range(4)]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", PROMOTER, str(root), str(n), str(TURNS), *ids[n:], *ids[:n]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    told = [json.loads(line) for w in writers for line in w.communicate(timeout=60)[0].splitlines()]
    assert [w.returncode for w in writers] == [0] * WRITERS
    assert len(told) == WRITERS * TURNS
    events = Registry(root).history()
    assert [e.sequence for e in events] == list(range(1, len(events) + 1))
    assert [e.previous_id for e in events] == [None, *(e.bundle_id for e in events[:-1])]
    assert {(e.sequence, e.by) for e in events} == {(t["sequence"], t["by"]) for t in told}
    assert Registry(root).store.pointed(SLOT) == events[-1].bundle_id
    assert list((root / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("where", "when", "took_place"),
    [
        ("link", "before", False),
        ("link", "after", True),
        ("replace", "before", True),
        ("replace", "after", True),
    ],
)
def test_a_killed_promoter_leaves_all_or_nothing(
    root: Path, where: str, when: str, took_place: bool
) -> None:
    """Killed at any point, the event is there whole or not at all, and others go on."""
    before = Registry(root).promote(small(0).id, by="ann")
    # os.link makes the marks that a bundle is in use, too
    killed = KILLED.replace("def stopped(source, target, **options):", KILLED_ONLY_FOR_EVENTS)
    done = subprocess.run(
        [sys.executable, "-c", killed, where, when, small(1).id, str(root)],
        check=False,
        timeout=60,
    )
    assert done.returncode == -9
    after = Registry(root).current()[SLOT]
    assert after.bundle_id == (small(1) if took_place else small(0)).id
    assert after.sequence == before.sequence + took_place
    event = Registry(root).promote(small(2).id, by="bob")
    assert (event.sequence, event.previous_id) == (after.sequence + 1, after.bundle_id)
    assert Registry(root).store.pointed(SLOT) == small(2).id


KILLED_ONLY_FOR_EVENTS = """def stopped(source, target, **options):
    if "work" in str(target):
        return real(source, target, **options)"""


def test_a_stale_listing_delays_nobody(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer whose file system shows old listings asks by name and decides on what is true."""
    registry, late = Registry(root), Registry(root)
    registry.promote(small(0).id, by="ann")
    listing = late.store.names("history")
    for number in (1, 2, 3):
        registry.promote(small(number).id, by="ann")
    names = late.store.names
    monkeypatch.setattr(
        late.store,
        "names",
        lambda folder, *, fresh=False: listing if folder == "history" else names(folder),
    )
    with pytest.raises(RegistryConflict):
        late.promote(small(2).id, by="bob", expected=small(0).id)
    event = late.promote(small(0).id, by="bob")
    assert (event.sequence, event.previous_id) == (5, small(3).id)
    assert registry.current() == {SLOT: event}


def test_a_lost_answer_is_no_conflict(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a repeated request finds that the first one did it, the event counts, once."""
    link = os.link

    def repeated(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", repeated)
    event = Registry(root).promote(small(0).id, by="ann")
    assert Registry(root).history() == (event,)


def test_no_hard_links_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that cannot link nothing is promoted in a weaker way."""

    def unlinkable(_source: Path, _target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unlinkable)
    with refused("cannot-write", OutputError, why="this file system has no hard links"):
        Registry(root).promote(small(0).id, by="ann")


def test_two_rollbacks_undo_one_promotion(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who undoes a promotion that somebody else undoes at that moment gets a conflict."""
    registry = Registry(root)
    for number in (0, 1, 2):
        registry.promote(small(number).id, by="ann")
    slow = Registry(root)
    local = slow.store.local

    def meanwhile(folder: str, *, fresh: bool) -> Path:
        monkeypatch.undo()
        registry.rollback(SLOT, by="bob")
        return local(folder, fresh=fresh)

    monkeypatch.setattr(slow.store, "local", meanwhile)
    with refused("not-as-expected", RegistryConflict):
        slow.rollback(SLOT, by="eve")
    assert [e.by for e in Registry(root).history()] == ["ann", "ann", "ann", "bob"]


def test_what_is_in_force_survives_collectors(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However adding, promoting and removing meet, what is in force always loads."""
    monkeypatch.setattr("colltune.registry.garbage.LEAST_AGE_S", -1e9)
    stop: list[int] = []

    def collect() -> int:
        removed = 0
        while not stop:
            work = Collection(Registry(root), keep_events=0, min_age_s=-1e9)
            removed += len(work.remove(work.plan().doomed))
        return removed

    def promote() -> int:
        registry, promoted = Registry(root), 0
        for turn in range(2000):  # on a busy machine collectors win many times in a row
            if promoted == 5:
                break
            try:
                registry.promote(registry.add(small(turn % 4)), by="ann")
                promoted += 1
            except (RegistryConflict, BundleError):
                continue
            registry.load(registry.current()[SLOT].bundle_id)
        return promoted

    with ThreadPoolExecutor(2) as pool:
        collecting = pool.submit(collect)
        try:
            promoted = pool.submit(promote).result(timeout=60)
        finally:
            stop.append(1)
        assert promoted > 0
        assert collecting.result(timeout=60) > 0
    assert list((root / "work").iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system of 256 KiB of its own."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "colltune-test", str(folder)], timeout_s=10
    )
    if not mounted.ok:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr}")
    try:
        yield folder
    finally:
        run(["umount", str(folder)], timeout_s=10)


def fill(path: Path) -> None:
    """Write a file until there is no room."""
    with path.open("wb", buffering=0) as stream:
        while True:
            stream.write(b"x" * 4096)


@pytest.mark.root
def test_a_disk_that_is_full_or_read_only(small_disk: Path) -> None:
    """What is in force stays and is read; nothing is left behind; with room again it goes on."""
    registry = Registry(small_disk / "registry")
    for number in (0, 1):
        registry.add(small(number))
    event = registry.promote(small(0).id, by="ann")
    before = sorted(small_disk.rglob("*"))
    with pytest.raises(OSError, match="No space"):
        fill(small_disk / "filler")
    for write in (lambda: registry.promote(small(1).id, by="ann"), lambda: registry.add(small(2))):
        with refused("cannot-write", OutputError, why="No space left on device"):
            write()
        assert Registry(small_disk / "registry").current() == {SLOT: event}
    (small_disk / "filler").unlink()
    assert sorted(small_disk.rglob("*")) == before
    run(["mount", "-o", "remount,ro", str(small_disk)], timeout_s=10)
    with refused("cannot-write", OutputError, why="Read-only file system"):
        registry.promote(small(1).id, by="ann")
    assert Registry(small_disk / "registry").load(small(0).id).id == event.bundle_id
    run(["mount", "-o", "remount,rw", str(small_disk)], timeout_s=10)
    assert registry.promote(small(1).id, by="ann").sequence == 2
