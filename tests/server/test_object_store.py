"""A service whose bundles lie in an object store."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from colltune.registry import Registry
from colltune.server.app import create_app
from colltune.server.settings import ServiceSettings
from tests.object_store import s3_bucket, s3_server
from tests.registry.small import small
from tests.server.conftest import await_ready


def test_a_service_follows_a_registry_in_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It serves what is in force there, takes up a promotion, and goes on without the store."""
    monkeypatch.setenv("COLLTUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with ExitStack() as store, ExitStack() as environment:
        address = store.enter_context(s3_server())
        url = environment.enter_context(s3_bucket(address, "colltune-served"))
        registry = Registry(f"{url}/site")
        registry.promote(registry.add(small(0)), by="ann")
        app = create_app(ServiceSettings(registry=f"{url}/site"))
        with TestClient(app, raise_server_exceptions=False) as client:
            await_ready(client)
            assert in_force(client) == small(0).id
            registry.promote(registry.add(small(1)), by="ann")
            app.state.service.watcher.refresh()
            assert in_force(client) == small(1).id
            store.close()
            app.state.service.watcher.refresh()
            assert not app.state.service.watcher.reachable
            assert in_force(client) == small(1).id


def in_force(client: TestClient) -> str:
    """Return the bundle that answers."""
    answer = client.get("/v1/select?nodes=4&ppn=1&collective=bcast&library=openmpi")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["bundle"])
