"""What a tuning was asked for, and what is left of its budget.

The budget is a hard limit, so that every stage has a moment at which it is cut short. What a stage
needs is known for an idle core; it takes as much longer as this process has less than one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from colltune import process
from colltune.bench.campaign import Campaign
from colltune.errors import BudgetError, ProgramError

_LEAST_BUDGET_S = 15.0
_AFTERWARDS_S = 8.0
_PICTURE_S = 2.0
_END_S = 0.8
_VERIFY_SHARE = 1 / 3
_LEAST_MEASURING_S = 10.0


@dataclass(frozen=True)
class Settings:
    """What the user asked for; ``started`` is the monotonic time from which the budget counts."""

    campaign: Campaign
    out: Path
    learner: str
    seed: int | None
    started: float
    slowdown: float = 1.0

    def spent_s(self) -> float:
        return time.monotonic() - self.started

    def left_s(self) -> float:
        """Return the seconds that are left of the budget, without those to print and to exit."""
        return self.campaign.total_s - self.spent_s() - _END_S * self.slowdown

    def moment(self, share: float = 1.0) -> float:
        """Return the monotonic time at which a `share` of what is left will be spent."""
        return time.monotonic() + share * self.left_s() - process.GRACE_S

    def insist_on_enough(self) -> None:
        """Refuse a budget that cannot suffice, even on an idle machine."""
        if self.campaign.total_s < _LEAST_BUDGET_S:
            raise BudgetError(
                f"a budget of {self.campaign.total_s:g} s is too small: measuring, fitting "
                f"and verifying need at least {_LEAST_BUDGET_S:g} s. Nothing was measured."
            )

    @contextmanager
    def told_of_time(self) -> Iterator[None]:
        """Say of a program that failed in the block that there was no time, if so it was."""
        try:
            yield
        except ProgramError:
            self.measuring_s()
            raise

    def measuring_s(self) -> float:
        """Return the seconds that measuring may take now; none left is an error."""
        left_s = self.left_s()
        afterwards_s = min(_AFTERWARDS_S * self.slowdown, max(_AFTERWARDS_S, left_s / 2))
        measuring_s = (1 - _VERIFY_SHARE) * (left_s - afterwards_s)
        if measuring_s > 0:
            return measuring_s
        enough_s = self.spent_s() + self.total_for_s(_LEAST_MEASURING_S)
        raise BudgetError(
            f"{self.spent_s():.0f} s of the budget of {self.campaign.total_s:g} s passed "
            f"before anything could be measured. Give more time (--budget {enough_s:.0f} would "
            "do), or try when the machine is less busy."
        )

    def total_for_s(self, measuring_s: float) -> float:
        """Return the seconds of all stages after the first, so that measuring has `measuring_s`."""
        return measuring_s / (1 - _VERIFY_SHARE) + (_AFTERWARDS_S + _END_S) * self.slowdown

    @property
    def picture_s(self) -> float:
        return _PICTURE_S * self.slowdown


def slowdown(began_s: float, began_cpu_s: float) -> float:
    """Return how many seconds went by for one that this process computed, since then; at least 1.

    The arguments are what `time.monotonic` and `time.process_time` said.
    """
    computed_s = time.process_time() - began_cpu_s
    return max(1.0, (time.monotonic() - began_s) / computed_s) if computed_s > 0 else 1.0
