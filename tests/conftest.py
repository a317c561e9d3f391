"""What tests of several folders share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def entered() -> Iterator[Path]:
    """Return a new folder that other users may enter, so that modes of what is in it matter.

    Above pytest's own folders there is one that others may not.
    """
    with tempfile.TemporaryDirectory(prefix="colltune-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
