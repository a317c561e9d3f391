"""A real Intel MPI runs the presets that `decide` says, of random files and variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration import differential_intelmpi

pytestmark = [pytest.mark.mpi, pytest.mark.slow]
FEWEST = 150
"""Calls that must be told apart by time, of 480 that are made."""


def test_what_runs_is_what_is_said(tmp_path: Path) -> None:
    """By time, in alternation with both presets forced, every call that can be told apart."""
    found = list(differential_intelmpi.agreements(tmp_path))
    assert [line for _, _, others in found for line in others] == []
    assert sum(compared for _, compared, _ in found) >= FEWEST
