"""A service over a small bundle."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune.domain import Collective
from colltune.models.fitting import fit
from colltune.server.app import create_app
from colltune.server.settings import ServiceSettings
from tests.models.machines import measured

with warnings.catch_warnings():
    # the client works with httpx, and says that it would rather have another library
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

BOTH = (Collective.ALLREDUCE, Collective.BCAST)
_PATIENCE_S = 120.0


@pytest.fixture(scope="session")
def bundle_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle of two collectives for Open MPI 4.1.4."""
    path = tmp_path_factory.mktemp("served") / "bundle"
    return fit(measured(collectives=BOTH), "knn").save(path)


@pytest.fixture(scope="module")
def client(bundle_path: Path) -> Iterator[TestClient]:
    """Return a client of a service that serves `bundle_path` and is ready."""
    app = create_app(ServiceSettings(bundle=bundle_path))
    with TestClient(app, raise_server_exceptions=False) as client:
        await_ready(client)
        yield client


def await_ready(client: TestClient) -> None:
    """Wait until the service behind `client` is ready."""
    deadline = time.monotonic() + _PATIENCE_S
    while client.get("/health/ready").status_code != 200:
        assert time.monotonic() < deadline, client.get("/health/ready").text
        time.sleep(0.01)
