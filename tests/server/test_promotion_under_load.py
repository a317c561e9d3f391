"""Several servers over one registry take up what is promoted while they are asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from colltune.models.bundle import load
from colltune.models.fitting import fit
from colltune.registry import Registry
from tests.models.machines import measured
from tests.server.load import Load
from tests.server.serving_process import PATIENCE_S, Server

pytestmark = pytest.mark.slow

PATH = "/v1/config/openmpi/4.1.4?nodes=4&ppn=4"
SETTINGS = {"COLLTUNE_SERVER_POLL_S": "0.2"}


def await_that(fact: Callable[[], bool]) -> None:
    """Wait until `fact` is."""
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_no_request_is_lost_and_no_answer_goes_back(bundle_path: Path, tmp_path: Path) -> None:
    """Promotion and rollback reach all workers of two servers, once each, and none fails."""
    registry = Registry(tmp_path / "registry")
    old = registry.add(load(bundle_path))
    new = registry.add(fit(measured(noise=0.1), "knn"))
    slot = registry.promote(old, by="a test").slot
    options = ("--registry", tmp_path / "registry")
    one = Server(*options, "--uds", tmp_path / "one.sock", environment=SETTINGS)
    two = Server(*options, "--workers", 2, environment=SETTINGS)
    with one, two:
        one.await_ready()
        two.await_ready()
        with Load([one, two], PATH, connections=2) as clients:
            await_that(lambda: clients.all_have(old))
            registry.promote(new, by="a test")
            await_that(lambda: clients.all_have(new))
            registry.rollback(slot, by="a test")
            await_that(lambda: clients.all_have(old))
        assert clients.failures == []
        assert [client.in_order for client in clients.clients] == [[old, new, old]] * 4
        assert one.stop() == 0
        assert two.stop() == 0
