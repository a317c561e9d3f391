"""What tests of several folders share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what tests make out of the user's own list of bundles."""
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data-home"))


@pytest.fixture
def entered() -> Iterator[Path]:
    """Return a new folder that other users may enter, so that modes of what is in it matter.

    Above pytest's own folders there is one that others may not.
    """
    with tempfile.TemporaryDirectory(prefix="colltune-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


# their tests start MPI programs, Slurm, browsers, builds: `make test-all` runs them
_SLOW = ("integration", "docs", "extension", "packaging", "foreign", "test_notebooks.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves out: slow folders, and what starts R."""
    root = Path(__file__).parents[1]
    for item in items:
        is_slow = item.path.relative_to(root).parts[1] in _SLOW or "mgcv" in item.nodeid
        if is_slow and not item.get_closest_marker("quick"):
            item.add_marker(pytest.mark.slow)
