"""The registry of bundles, in an object store."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from colltune.errors import BundleError, OutputError, RegistryConflict
from colltune.files.remote import opened
from colltune.registry import Registry
from colltune.registry.garbage import Collection
from colltune.registry.object_store import ObjectStore
from tests.object_store import SECRET, s3_bucket, s3_server
from tests.refusals import refused
from tests.registry.small import small

SLOT = "openmpi-4.1.4"
_COUNT = itertools.count()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return this machine's folder of copies, empty."""
    monkeypatch.setenv("COLLTUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Return the address of an S3 server."""
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(s3: str) -> Iterator[str]:
    """Return the URL of an empty bucket."""
    with s3_bucket(s3, f"colltune-{next(_COUNT)}") as url:
        yield url


@pytest.fixture(params=["memory", "s3"])
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty folder in a store."""
    if request.param == "memory":
        return str(request.getfixturevalue("memory"))
    return f"{request.getfixturevalue('bucket')}/site/registry"


@pytest.fixture
def memory() -> str:
    """Return the URL of an empty folder in this process's memory."""
    return f"memory://registry-{next(_COUNT)}"


def test_the_life_of_a_registry(url: str, cache: Path) -> None:
    """Adding, promoting, going back and listing work as in a folder, and others see the same."""
    registry = Registry(url)
    with refused("no-such-registry", BundleError):
        registry.current()
    ids = [registry.add(small(number)) for number in range(3)]
    assert registry.current() == {}
    events = [registry.promote(bundle_id, by="ann", note="good") for bundle_id in ids]
    events.append(registry.rollback(SLOT, by="bob"))
    assert [e.sequence for e in events] == [1, 2, 3, 4]
    other = Registry(url)
    assert other.history() == tuple(events)
    assert other.current() == {SLOT: events[-1]}
    assert other.store.pointed(SLOT) == ids[1]
    assert {e.id for e in other.entries()} == set(other.ids()) == set(ids)
    assert all(e.size_bytes > 1000 for e in other.entries())
    assert other.find(ids[0][:12]) == ids[0]
    assert other.promote(ids[1], by="eve") == events[-1]
    step = registry.step(ids[0], 0.05, by="ann")
    assert other.trials() == {SLOT: step}
    with pytest.raises(RegistryConflict):
        other.step(ids[2], 0.05, by="eve", expected=ids[2])
    assert other.stop(SLOT, by="eve", note="slow").sequence == 6
    assert (registry.trials(), registry.store.pointed(SLOT)) == ({}, ids[1])
    with pytest.raises(RegistryConflict):
        other.promote(ids[2], by="eve", expected=ids[0])
    other.put_report("drift", {"psi": 0.5})
    assert registry.latest_report("drift") == {"psi": 0.5}
    assert other.store.names("work") == []


def test_bundles_are_copied_whole_and_once(url: str, cache: Path) -> None:
    """The copy is a bundle like any other; what is in the store is not asked for again."""
    registry = Registry(url)
    bundle_id = registry.add(small())
    path = registry.path(bundle_id)
    assert path == cache / "bundles" / bundle_id
    assert sorted(p.name for p in path.iterdir()) == ["bcast.arrays", "manifest.json"]
    assert [p.name for p in path.parent.iterdir()] == [bundle_id]
    registry.add(small(1))
    registry.store.remove(f"bundles/{bundle_id}")
    assert registry.load(bundle_id).id == bundle_id
    with refused("no-bundle-begins", BundleError):
        registry.promote(bundle_id, by="ann")
    registry.store.forget_local(f"bundles/{bundle_id}")
    with refused("no-such-bundle", BundleError):
        registry.load(bundle_id)


def test_a_damaged_copy_is_made_again(memory: str) -> None:
    """One changed byte in the copy is noticed and mended from the store, links are refused."""
    registry = Registry(memory)
    bundle_id = registry.add(small())
    arrays = registry.path(bundle_id) / "bcast.arrays"
    content = arrays.read_bytes()
    arrays.write_bytes(content[:-1])
    assert registry.load(bundle_id).id == bundle_id
    assert arrays.read_bytes() == content
    moved = arrays.rename(arrays.parents[2] / "elsewhere")
    arrays.symlink_to(moved)
    assert registry.load(bundle_id).id == bundle_id
    assert not arrays.is_symlink()
    arrays.write_bytes(b"")
    assert registry.promote(bundle_id, by="ann").bundle_id == bundle_id


@pytest.mark.parametrize("file", ["bcast.arrays", "manifest.json"])
def test_a_tampered_bundle_is_refused(memory: str, file: str) -> None:
    """What does not fit its hashes in the store is not promoted, whatever copies there are."""
    registry = Registry(memory)
    event = registry.promote(registry.add(small(0)), by="ann")
    bundle_id = registry.add(small(1))
    key = f"bundles/{bundle_id}/{file}"
    content = bytearray(registry.store.read(key) or b"")
    content[content.index(b"4.1.4") if file == "manifest.json" else -3] ^= 1
    store: Any = registry.store
    store._write(key, bytes(content))
    with pytest.raises(
        BundleError, match=rf"{bundle_id}.*{file}: .*(damaged|does not match the bundle's id)"
    ):
        registry.promote(bundle_id, by="eve")
    assert registry.current() == {SLOT: event}
    assert registry.add(small(1)) == bundle_id
    assert registry.promote(bundle_id, by="ann").sequence == 2


def test_a_damaged_event_is_named(memory: str) -> None:
    """A cut event is one error with its URL; who knew it goes on."""
    registry = Registry(memory)
    event = registry.promote(registry.add(small(0)), by="ann")
    store: Any = registry.store
    store._write("history/00000001.json", b'{"for')
    with refused("damaged-event", BundleError):
        Registry(memory).current()
    assert registry.current() == {SLOT: event}


def test_removing_what_nobody_needs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ages are the store's own; what is removed is gone with all its objects."""
    registry = Registry(url)
    ids = [registry.add(small(number)) for number in range(3)]
    registry.promote(ids[0], by="ann")
    store: Any = registry.store
    store._write(f"bundles/{ids[1]}/manifest.json", b"{")
    work = Collection(registry, keep_events=5, min_age_s=0.0)
    assert work.plan().doomed == ()
    monkeypatch.setattr("colltune.registry.garbage.LEAST_AGE_S", -10.0)
    work = Collection(registry, keep_events=5, min_age_s=-10.0)
    assert {item.bundle_id for item in work.plan().doomed} == set(ids[1:])
    assert len(work.remove(work.plan().doomed)) == 2
    assert registry.ids() == (ids[0],)
    assert registry.store.names(f"bundles/{ids[1]}") == []
    assert registry.store.names("work") == []


def test_promotions_at_once_have_one_order(bucket: str) -> None:
    """Of many writers at once each gets a number of its own, and none is lost."""
    ids = [Registry(bucket).add(small(number)) for number in range(3)]

    def promote(writer: int) -> list[int]:
        registry = Registry(bucket)
        return [registry.promote(i, by=f"{writer}").sequence for i in ids[writer:] + ids[:writer]]

    with ThreadPoolExecutor(3) as pool:
        told = {number for numbers in pool.map(promote, range(3)) for number in numbers}
    events = Registry(bucket).history()
    assert {e.sequence for e in events} == told == set(range(1, len(events) + 1))
    assert [e.previous_id for e in events] == [None, *(e.bundle_id for e in events[:-1])]
    assert Registry(bucket).store.pointed(SLOT) == events[-1].bundle_id


def test_a_lost_answer_is_no_conflict(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a repeated request is refused although the first one did it, the event counts, once."""
    registry = Registry(bucket)
    bundle_id = registry.add(small())
    store: Any = registry.store
    put = store._system.pipe_file

    def repeated(path: str, content: bytes, **options: Any) -> None:
        put(path, content, **options)
        if options:
            put(path, content, **options)

    monkeypatch.setattr(store._system, "pipe_file", repeated)
    event = registry.promote(bundle_id, by="ann")
    assert Registry(bucket).history() == (event,)


def test_a_store_that_replaces_is_found_out(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where If-None-Match is ignored nothing is promoted, but what is there is read."""
    registry = Registry(bucket)
    event = registry.promote(registry.add(small(0)), by="ann")
    late = Registry(bucket)
    store: Any = late.store
    put = store._system.pipe_file
    monkeypatch.setattr(store._system, "pipe_file", lambda path, content, **_: put(path, content))
    with refused("store-replaces", OutputError):
        late.add(small(1))
    assert late.current() == {SLOT: event}


def test_a_store_without_exclusive_creation_is_read_only(memory: str) -> None:
    """For other kinds of stores the reason is told, and reading works."""
    event = Registry(memory).promote(Registry(memory).add(small()), by="ann")
    registry = Registry(memory)
    registry.store = ObjectStore(replace(opened(memory, BundleError), kind="webdav"))
    with refused("no-exclusive-creation", OutputError, kind="webdav"):
        registry.promote(small().id, by="ann")
    assert registry.current() == {SLOT: event}


def test_secrets_stay_secret(bucket: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither logs nor errors hold the key that is in the environment; none goes into a URL."""
    with caplog.at_level(logging.DEBUG):
        Registry(bucket).add(small())
        with pytest.raises(BundleError) as missing:
            Registry("s3://no-such-bucket/x").current()
    assert SECRET not in caplog.text
    assert SECRET not in str(missing.value)
    for wrong in (f"s3://me:{SECRET}@bucket/x", f"s3://bucket/x?secret={SECRET}"):
        with refused("url-with-options", BundleError) as raised:
            Registry(wrong)
        assert SECRET not in str(raised.value)


def test_what_no_package_reads_is_said() -> None:
    """A URL of an unknown kind, or one whose package is missing, names it."""
    with refused("cannot-read", BundleError, place="nosuch://x"):
        Registry("nosuch://x")
    with refused("package-missing", BundleError, url="gs://bucket/x"):
        Registry("gs://bucket/x")


def test_a_url_survives_being_a_path(bucket: str, tmp_path: Path) -> None:
    """A URL that went through `Path` is still one; file:// is a folder; what exists is a folder."""
    assert str(Registry(Path(bucket + "/x"))) == f"{bucket}/x"
    assert str(Registry(f"file://{tmp_path}")) == str(tmp_path)
    assert str(Registry(tmp_path / "s3:")) == f"{tmp_path}/s3:"


def test_events_are_json_for_anybody(memory: str) -> None:
    """What lies in the store can be read without colltune."""
    registry = Registry(memory)
    registry.promote(registry.add(small()), by="ann")
    event = json.loads(registry.store.read("history/00000001.json") or b"")
    assert (event["format"], event["bundle_id"]) == ("colltune-registry-event", small().id)
