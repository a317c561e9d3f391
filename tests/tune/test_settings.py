"""How `colltune tune` divides its budget."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from colltune import process
from colltune.bench.campaign_file import laptop
from colltune.errors import BudgetError, ProgramError
from colltune.tune.pipeline import TuneSettings
from tests.refusals import refused


def _settings(spent_s: float) -> TuneSettings:
    campaign = laptop().changed(total_s=30.0)
    return TuneSettings(campaign, Path("out"), "auto", 0, time.monotonic() - spent_s)


def test_measuring_gets_a_part_of_what_is_left() -> None:
    """Fitting and verifying need the rest."""
    assert 0 < _settings(0.0).measuring_s() < 30.0 - 8.0


def test_a_busy_machine_keeps_more_for_afterwards() -> None:
    """What comes after measuring takes longer there, and gets half of what is left at most."""
    idle = replace(_settings(0.0), campaign=laptop().changed(total_s=90.0))
    busy, very_busy = replace(idle, slowdown=3.0), replace(idle, slowdown=20.0)
    assert idle.measuring_s() > busy.measuring_s() > very_busy.measuring_s() > 0
    assert very_busy.measuring_s() == pytest.approx(very_busy.left_s() / 3, abs=1.0)


def test_all_programs_end_before_the_budget_does() -> None:
    """The last moment leaves the time to stop a program, to print, and to exit."""
    settings = _settings(0.0)
    assert settings.moment() < settings.started + 30.0 - process.GRACE_S
    assert settings.moment(0.25) < settings.moment()


def test_a_program_that_was_stopped_for_lack_of_time_is_told_as_such() -> None:
    """A program's failure stays one where there was time enough, else the budget is named."""
    for spent_s, kind in ((0.0, ProgramError), (29.0, BudgetError)):
        with pytest.raises(kind), _settings(spent_s).told_of_time():
            raise ProgramError("stopped")


def test_a_budget_that_preparing_used_up_says_so() -> None:
    """On a busy machine the error tells what happened to the budget, and the mend."""
    with refused("budget-spent", BudgetError):
        _settings(29.0).measuring_s()
