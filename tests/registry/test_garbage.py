"""Removing bundles that nobody needs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from subprocess import PIPE

import pytest

from colltune.errors import RegistryConflict
from colltune.files import temporary
from colltune.files.temporary import ABANDONED_S
from colltune.registry import Registry
from colltune.registry.garbage import KEPT_REPORTS, LEAST_AGE_S, Collection
from tests.registry.small import small

SLOT = "openmpi-4.1.4"
DAY_S = 86400.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a registry of six bundles a hundred days old, the last three promoted in order."""
    registry = Registry(tmp_path / "registry")
    for number in range(6):
        registry.add(small(number))
        age(registry.path(small(number).id), 100 * DAY_S)
    for number in (3, 4, 5):
        registry.promote(small(number).id, by="ann")
    return tmp_path / "registry"


def age(path: Path, age_s: float) -> None:
    """Make a file, or a folder's files, look older."""
    then = time.time() - age_s
    for file in (path, *(path.iterdir() if path.is_dir() else ())):
        os.utime(file, (then, then))


def numbers(ids: Iterable[str | None]) -> set[int]:
    """Return which of the six bundles have these ids."""
    known = set(ids)
    return {n for n in range(6) if small(n).id in known}


def test_what_is_needed_stays(root: Path) -> None:
    """In force, in the latest events, or what a rollback goes back to stays; the rest goes."""
    registry = Registry(root)
    plan = Collection(registry, keep_events=1, min_age_s=DAY_S).plan()
    assert numbers(i.bundle_id for i in plan.kept) == {4, 5}
    assert numbers(i.bundle_id for i in plan.doomed) == {0, 1, 2, 3}
    why = {item.bundle_id: item.why for item in plan.kept}
    assert why[small(5).id] == f"in force in {SLOT}"
    assert len(registry.ids()) == 6
    collection = Collection(registry, keep_events=2, min_age_s=DAY_S)
    removed = collection.remove(collection.plan().doomed)
    assert numbers(i.bundle_id for i in removed) == {0, 1, 2}
    assert numbers(registry.ids()) == {3, 4, 5}
    assert registry.rollback(SLOT, by="ann").bundle_id == small(4).id
    assert list((root / "work").iterdir()) == []
    assert [p.name for p in (root / "bundles").iterdir() if p.name.startswith(".")] == []


def test_young_bundles_stay(root: Path) -> None:
    """What was added within the given age stays, and what was added just now whatever is given."""
    registry = Registry(root)
    age(registry.path(small(0).id), 10 * DAY_S)
    age(registry.path(small(1).id), LEAST_AGE_S / 2)
    registry.add(small(2))
    for min_age_s, kept in ((20 * DAY_S, {0, 1, 2}), (0.0, {1, 2})):
        plan = Collection(registry, keep_events=5, min_age_s=min_age_s).plan()
        assert numbers(i.bundle_id for i in plan.kept) == kept | {3, 4, 5}


def test_what_came_into_force_meanwhile_stays(root: Path) -> None:
    """A bundle that is promoted or added between plan and removal is not removed."""
    registry = Registry(root)
    collection = Collection(registry, keep_events=1, min_age_s=DAY_S)
    plan = collection.plan()
    Registry(root).promote(small(0).id, by="bob")
    Registry(root).add(small(1))
    removed = collection.remove(plan.doomed)
    assert numbers(i.bundle_id for i in removed) == {2, 3}
    assert Registry(root).load(small(0).id).id == small(0).id


def test_whoever_comes_second_gives_way(root: Path) -> None:
    """A bundle in use is not removed; one that is being removed is neither added nor promoted."""
    registry = Registry(root)
    collection = Collection(registry, keep_events=1, min_age_s=DAY_S)
    plan = collection.plan()
    using = root / "work" / f"using-{small(0).id}-00"
    using.touch()
    assert numbers(i.bundle_id for i in collection.remove(plan.doomed)) == {1, 2, 3}
    (root / "work" / f"removing-{small(0).id}").touch()
    refused = pytest.raises(RegistryConflict, match="is being removed")
    with refused:
        registry.promote(small(0).id, by="ann")
    with refused:
        registry.add(small(0))
    assert collection.remove(plan.doomed) == ()


def test_what_stopped_processes_left_goes_after_a_day(root: Path) -> None:
    """Half-written files and marks go when nobody can be at them any more, not before."""
    registry = Registry(root)
    names = (
        f"bundles/.{'a' * 64}.{'0' * 12}.tmp",
        f"history/.00000009.json.{'0' * 12}.tmp",
        f"work/using-{small(0).id}-0",
        f"work/removing-{small(1).id}",
    )
    for name in names:
        (root / name).mkdir() if name.startswith("bundles") else (root / name).touch()
    (root / "history" / ".somebody's.tmp").touch()
    age(root / "history" / ".somebody's.tmp", ABANDONED_S + 10)
    collection = Collection(registry, keep_events=9, min_age_s=1000 * DAY_S)
    assert collection.plan().doomed == ()
    for name in names:
        age(root / name, ABANDONED_S + 10)
    plan = collection.plan()
    assert {item.key for item in plan.doomed} == set(names)
    assert len(collection.remove(plan.doomed)) == 4
    assert collection.plan().doomed == ()
    assert len(registry.ids()) == 6


def test_the_next_writer_removes_what_killed_ones_left(root: Path) -> None:
    """Marks and half-written files of processes that are gone, of this host, at once."""
    gone = "import os; from colltune.files import temporary; print(temporary.mark())"
    asked = subprocess.run([sys.executable, "-c", gone], stdout=PIPE, text=True, check=True)
    dead, here = asked.stdout.strip(), temporary.mark()
    marks = {
        f"work/using-{small(0).id}-dead": dead,
        f"work/removing-{small(1).id}": dead,
        f"work/using-{small(0).id}-here": here,
    }
    for name, mark in marks.items():
        (root / name).write_text(mark)
    (root / f"bundles/.{'a' * 64}.{dead}.tmp").mkdir()
    (root / f"history/.00000009.json.{dead}.tmp").touch()
    (root / f"current/.{SLOT}.{dead}.tmp").symlink_to("nowhere")
    found = Collection(Registry(root), keep_events=9, min_age_s=1000 * DAY_S).plan().doomed
    assert len(found) == 5
    registry = Registry(root)
    registry.promote(registry.add(small(1)), by="ann")
    registry.add(small(7))
    left = [p.name for p in root.rglob("*") if p.name.startswith(".") or p.parent.name == "work"]
    assert left == [f"using-{small(0).id}-here"]


def test_a_removal_that_was_stopped_is_taken_up(root: Path) -> None:
    """The mark of a remover that was killed a day ago keeps nobody from removing."""
    mark = root / "work" / f"removing-{small(0).id}"
    mark.touch()
    collection = Collection(Registry(root), keep_events=1, min_age_s=DAY_S)
    doomed = [i for i in collection.plan().doomed if i.bundle_id == small(0).id]
    assert collection.remove(doomed) == ()
    age(mark, ABANDONED_S + 10)
    assert collection.remove(doomed) == tuple(doomed)
    assert not mark.exists()


def test_damaged_bundles_go_too(root: Path) -> None:
    """What no longer loads is no reason to stop, and goes when it is old."""
    registry = Registry(root)
    folder = registry.path(small(0).id)
    for file in folder.iterdir():
        file.unlink()
    age(folder, 100 * DAY_S)
    collection = Collection(registry, keep_events=5, min_age_s=DAY_S)
    assert numbers(i.bundle_id for i in collection.remove(collection.plan().doomed)) == {0, 1, 2}


def test_old_reports_go(root: Path) -> None:
    """Of each kind the latest reports stay."""
    registry = Registry(root)
    registry.put_report("drift", {"n": 1})
    latest = root / "reports" / "drift" / f"{KEPT_REPORTS + 1:08d}.json"
    for number in range(2, KEPT_REPORTS + 2):
        os.link(root / "reports/drift/00000001.json", latest.with_name(f"{number:08d}.json"))
    plan = Collection(registry, keep_events=9, min_age_s=1000 * DAY_S).plan()
    assert [i.key for i in plan.doomed] == ["reports/drift/00000001.json"]
