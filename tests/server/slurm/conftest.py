"""A site's hooks and a service for them, without Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.slurm.fake_service import FakeService
from tests.server.slurm.site import Site


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeService]:
    """Return a running service."""
    with FakeService(tmp_path_factory.mktemp("s") / "socket").running() as service:
        yield service


@pytest.fixture
def site(tmp_path: Path, service: FakeService) -> Site:
    """Return installed hooks that ask `service`."""
    return Site(tmp_path, service.path)
