"""Keeps what was measured of legal programs out of tests of something else.

Measurements are repeated, and what they find changes; tests of formats are about what is written
of the choices that may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from colltune.mpi import programs

_ABOUT_THEM = ("test_programs", "test_program_outcomes")


@pytest.fixture(autouse=True, scope="module")
def catalogue_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the catalogue alone say what is safe, but in tests of the measurements themselves."""
    if request.module.__name__.rpartition(".")[2] in _ABOUT_THEM:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "FOLDER", Path("/nowhere"))
        yield
