"""Taking up what is promoted, and keeping what is good."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from colltune.models.bundle import Bundle
from colltune.registry import Registry
from colltune.server.app import create_app
from colltune.server.settings import ServiceSettings
from colltune.server.watcher import BundleWatcher
from tests.server.conftest import await_ready
from tests.server.registries import bundle

CONFIG = "/v1/config/openmpi/4.1.4"
SHAPE = {"nodes": 8, "ppn": 4}


@pytest.fixture(scope="module")
def bundles() -> tuple[Bundle, Bundle]:
    """Return two bundles for the same release."""
    return bundle(), bundle(largest=16384)


@pytest.fixture
def registry(bundles: tuple[Bundle, Bundle], tmp_path: Path) -> Registry:
    """Return a registry with two bundles, the first in force."""
    found = Registry(tmp_path / "registry")
    for one in bundles:
        found.add(one)
    found.promote(bundles[0].id, by="test")
    return found


@pytest.fixture
def client(registry: Registry) -> Iterator[TestClient]:
    """Return a client of a service over `registry` that looks only when it is told."""
    app = create_app(ServiceSettings(registry=str(registry), poll_s=3600))
    with TestClient(app, raise_server_exceptions=False) as client:
        await_ready(client)
        yield client


def _watcher(client: TestClient) -> BundleWatcher:
    watcher: BundleWatcher = client.app.state.service.watcher  # type: ignore[attr-defined]
    # a bundle that was refused is looked at again at once
    watcher._refused.clear()
    return watcher


def _in_force(client: TestClient) -> str:
    answer = client.get(CONFIG, params=SHAPE)
    assert answer.status_code == 200
    return str(answer.headers["x-colltune-bundle"])


def _metric(client: TestClient, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(name)).rpartition(" ")[2])


def test_a_promoted_bundle_is_taken_up(
    client: TestClient, registry: Registry, bundles: tuple[Bundle, Bundle]
) -> None:
    """After a promotion answers and their tags come from the new bundle, and back again."""
    old = client.get(CONFIG, params=SHAPE)
    assert old.headers["x-colltune-bundle"] == bundles[0].id
    registry.promote(bundles[1].id, by="test")
    _watcher(client).refresh()
    new = client.get(CONFIG, params=SHAPE, headers={"If-None-Match": old.headers["etag"]})
    assert (new.status_code, new.headers["x-colltune-bundle"]) == (200, bundles[1].id)
    pinned = client.get(CONFIG, params={**SHAPE, "bundle": bundles[0].id[:10]})
    assert pinned.text == old.text
    registry.rollback("openmpi-4.1.4", by="test")
    _watcher(client).refresh()
    again = client.get(CONFIG, params=SHAPE, headers={"If-None-Match": old.headers["etag"]})
    assert again.status_code == 304


def test_what_is_asked_for_is_ready_before_the_swap(
    client: TestClient, registry: Registry, bundles: tuple[Bundle, Bundle]
) -> None:
    """The first request after a promotion finds its answer made."""
    _in_force(client)
    registry.promote(bundles[1].id, by="test")
    _watcher(client).refresh()
    before = _metric(client, 'colltune_answers_total{cache="miss"}')
    assert _in_force(client) == bundles[1].id
    assert _metric(client, 'colltune_answers_total{cache="miss"}') == before
    assert _metric(client, 'colltune_answers_total{cache="hit"}') >= 1


def test_no_request_is_lost_while_bundles_are_swapped(
    client: TestClient, registry: Registry, bundles: tuple[Bundle, Bundle]
) -> None:
    """Every answer during promotions is whole and comes from one of the bundles."""
    ended = threading.Event()

    def swap() -> None:
        try:
            for k in range(7):
                registry.promote(bundles[(k + 1) % 2].id, by="test")
                _watcher(client).refresh()
        finally:
            ended.set()

    thread = threading.Thread(target=swap)
    texts: dict[str, set[str]] = {}

    def ask(shape: int) -> None:
        answer = client.get(CONFIG, params={"nodes": 2 + shape % 20, "ppn": 4})
        assert answer.status_code == 200
        texts.setdefault(answer.headers["etag"], set()).add(answer.text)

    ask(0)
    thread.start()
    shape = 0
    while not ended.is_set():
        shape += 1
        ask(shape)
    thread.join()
    ask(shape)
    assert all(len(found) == 1 for found in texts.values())
    ids = {tag.strip('"').partition("-")[0] for tag in texts}
    assert ids == {one.id for one in bundles}


def _cut(path: Path, _other: Path) -> None:
    file = path / "bcast.arrays"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _newer(path: Path, _other: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format_version": 99}))


def _symlink(path: Path, other: Path) -> None:
    path.rename(other / "elsewhere")
    path.symlink_to(other / "elsewhere")


def _file_is_a_symlink(path: Path, other: Path) -> None:
    (path / "bcast.arrays").rename(other / "arrays")
    (path / "bcast.arrays").symlink_to(other / "arrays")


@pytest.mark.parametrize("spoil", [_cut, _newer, _symlink, _file_is_a_symlink])
def test_a_bundle_that_is_not_whole_is_refused(
    client: TestClient,
    registry: Registry,
    bundles: tuple[Bundle, Bundle],
    tmp_path: Path,
    spoil: object,
) -> None:
    """A tampered, newer or linked bundle is not taken up; the old one answers, and all say so."""
    registry.promote(bundles[1].id, by="test")
    assert callable(spoil)
    spoil(registry.path(bundles[1].id), tmp_path)
    _watcher(client).refresh()
    assert _in_force(client) == bundles[0].id
    told = client.get("/health/ready")
    assert told.status_code == 200
    assert bundles[1].id[:12] in told.json()["problems"][0]
    assert _metric(client, 'colltune_bundle_refusals_total{slot="openmpi-4.1.4"}') == 1
    assert _metric(client, 'colltune_bundle_refused{slot="openmpi-4.1.4"}') == 1
    pinned = client.get(CONFIG, params={**SHAPE, "bundle": bundles[1].id})
    assert pinned.status_code == 404


def test_a_registry_that_is_gone_or_garbage_changes_nothing(
    client: TestClient, registry: Registry, bundles: tuple[Bundle, Bundle], tmp_path: Path
) -> None:
    """Without a readable registry the loaded bundle stays and the service is ready."""
    root = Path(str(registry))
    for k, garbage in enumerate((b"", b"\x00\xff", b"[]", b'{"format": 3}')):
        (root / "history" / f"{k + 2:08d}.json").write_bytes(garbage)
        _watcher(client).refresh()
        assert _in_force(client) == bundles[0].id
    shutil.rmtree(root)
    _watcher(client).refresh()
    assert _in_force(client) == bundles[0].id
    assert client.get("/health/ready").status_code == 200
    assert _metric(client, "colltune_registry_reachable") == 0
    assert _metric(client, "colltune_registry_errors_total") == 5
    assert client.get("/v1/bundles").status_code == 503
    root.write_text("a file")
    _watcher(client).refresh()
    assert _in_force(client) == bundles[0].id


def test_a_registry_that_was_emptied_is_told_of(
    client: TestClient, registry: Registry, bundles: tuple[Bundle, Bundle]
) -> None:
    """What was loaded stays in force, with a warning until the registry has it again."""
    history = Path(str(registry)) / "history"
    history.rename(history.with_name("away"))
    _watcher(client).refresh()
    assert _in_force(client) == bundles[0].id
    (problem,) = client.get("/health/ready").json()["problems"]
    assert "no bundle is in force any more" in problem
    assert bundles[0].id[:12] in problem
    history.with_name("away").rename(history)
    _watcher(client).refresh()
    assert client.get("/health/ready").json()["problems"] == []


def test_a_service_that_loads_slowly_takes_no_request_before_it_can_answer(
    registry: Registry, bundles: tuple[Bundle, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request is answered by what is in force, however slow the registry is."""
    refresh = BundleWatcher.refresh

    def slow(watcher: BundleWatcher) -> None:
        time.sleep(0.5)
        refresh(watcher)

    monkeypatch.setattr(BundleWatcher, "refresh", slow)
    with TestClient(create_app(ServiceSettings(registry=str(registry), poll_s=3600))) as client:
        assert _in_force(client) == bundles[0].id


def test_a_registry_that_hangs_does_not_keep_a_service_from_starting(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is alive after a while, and says that it is not ready."""
    let_go = threading.Event()
    monkeypatch.setattr(BundleWatcher, "refresh", lambda _: let_go.wait())
    monkeypatch.setattr("colltune.server.watcher._FIRST_LOOK_S", 0.1)
    with TestClient(create_app(ServiceSettings(registry=str(registry), poll_s=3600))) as client:
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 503
        let_go.set()


def test_an_empty_registry_is_alive_but_not_ready(
    tmp_path: Path, bundles: tuple[Bundle, Bundle]
) -> None:
    """Until something is promoted it says what is missing, and answers 503; then it answers."""
    registry = Registry(tmp_path / "registry")
    registry.add(bundles[0])
    app = create_app(ServiceSettings(registry=str(registry), poll_s=3600))
    with TestClient(app, raise_server_exceptions=False) as client:
        _watcher(client).refresh()
        assert client.get("/health/live").status_code == 200
        told = client.get("/health/ready")
        assert told.status_code == 503
        assert "no bundle has been promoted yet" in told.json()["problems"][0]
        refused = client.get(CONFIG, params=SHAPE)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        registry.promote(bundles[0].id, by="test")
        _watcher(client).refresh()
        assert client.get("/health/ready").json()["bundles"] == {"openmpi-4.1.4": bundles[0].id}
        assert _in_force(client) == bundles[0].id


def test_releases_get_the_bundle_of_their_series(
    client: TestClient, registry: Registry, bundles: tuple[Bundle, Bundle]
) -> None:
    """A release is answered by its own bundle, else by the newest of its series, never another."""
    newer, six = bundle("4.1.10"), bundle("6.0.0")
    for one in (newer, six):
        registry.add(one)
        registry.promote(one.id, by="test")
    _watcher(client).refresh()
    expected = {"4.1.4": bundles[0], "4.1.10": newer, "4.1.6": newer, "6.0.0": six}
    for release, whose in expected.items():
        answer = client.get(f"/v1/config/openmpi/{release}", params=SHAPE)
        assert answer.headers["x-colltune-bundle"] == whose.id
        found = client.get("/v1/select", params={**SHAPE, "library": "openmpi", "release": release})
        assert found.json()["bundle"] == whose.id
    assert client.get("/v1/config/openmpi/5.0.6", params=SHAPE).status_code == 404
    unclear = client.get("/v1/select", params=SHAPE)
    assert unclear.status_code == 422
    assert "openmpi-6.0.0" in unclear.json()["detail"]
    main = client.get("/v1/config/openmpi/6.0.0", params=SHAPE)
    assert main.headers["content-type"] == "application/json"
    assert main.json()
    assert ".dispatch" in main.headers["x-colltune-parts"]
    beside = client.get("/v1/config/openmpi/6.0.0", params={**SHAPE, "part": ".dispatch"})
    assert (beside.status_code, beside.text == main.text) == (200, False)


def test_a_folder_that_gets_another_releases_bundle_serves_both_and_says_so(tmp_path: Path) -> None:
    """What was served stays in force until the service is started anew, with a warning."""
    path = bundle().save(tmp_path / "bundle")
    app = create_app(ServiceSettings(bundle=path, poll_s=3600))
    with TestClient(app, raise_server_exceptions=False) as client:
        await_ready(client)
        bundle("5.0.8").save(path)
        _watcher(client).refresh()
        told = client.get("/health/ready").json()
        assert set(told["bundles"]) == {"openmpi-4.1.4", "openmpi-5.0.8"}
        (problem,) = told["problems"]
        assert problem.startswith("openmpi-4.1.4: no bundle is in force any more; the bundle")
        bundle().save(path)
        _watcher(client).refresh()
        assert "openmpi-5.0.8: no bundle" in client.get("/health/ready").json()["problems"][0]
