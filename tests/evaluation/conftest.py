"""Evaluations without R."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _without_r(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let published_gam be pygam's, since R takes seconds to start for each fold."""
    monkeypatch.setattr("colltune.models.learners.mgcv.available", lambda: False)
