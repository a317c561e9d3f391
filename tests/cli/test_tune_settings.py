"""How `colltune tune` divides its budget."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from colltune.bench.campaign_file import laptop
from colltune.cli.tune_settings import Settings
from colltune.errors import BudgetError


def _settings(spent_s: float) -> Settings:
    campaign = laptop().changed(total_s=30.0)
    return Settings(campaign, Path("out"), "auto", False, 0, time.monotonic() - spent_s)


def test_measuring_gets_a_part_of_what_is_left() -> None:
    """Fitting and verifying need the rest."""
    assert 0 < _settings(0.0).measuring_s() < 30.0 - 8.0


def test_a_budget_that_preparing_used_up_says_so() -> None:
    """On a busy machine the error tells what happened to the budget, and the mend."""
    with pytest.raises(BudgetError, match=r"of the budget of 30 s, 29 s went by.*give more"):
        _settings(29.0).measuring_s()
