"""What `colltune tune` was asked for, and what is left of its budget."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colltune.bench.campaign import Campaign
from colltune.errors import BudgetError

if TYPE_CHECKING:
    from colltune.cli.console import Progress

_AFTERWARDS_S = 8.0
_VERIFY_SHARE = 0.25


@dataclass(frozen=True)
class Settings:
    """What the user asked for; ``started`` is the monotonic time from which the budget counts."""

    campaign: Campaign
    out: Path
    learner: str
    builtin_operations_only: bool
    seed: int | None
    started: float

    def spent_s(self) -> float:
        """Return the seconds that have gone by."""
        return time.monotonic() - self.started

    def left_s(self) -> float:
        """Return the seconds that are left of the budget."""
        return self.campaign.total_s - self.spent_s()

    def measuring_s(self) -> float:
        """Return the seconds that measuring may take now.

        Raises
        ------
        BudgetError
            If there are none.
        """
        measuring_s = (1 - _VERIFY_SHARE) * (self.left_s() - _AFTERWARDS_S)
        if measuring_s > 0:
            return measuring_s
        raise BudgetError(
            f"of the budget of {self.campaign.total_s:g} s, {self.spent_s():.0f} s went by before"
            " anything could be measured; give more, or try when the machine is less busy"
        )

    def tell(
        self, progress: Progress, what: str, now: str = "", facts: tuple[str, ...] = ()
    ) -> None:
        """Tell `progress` what goes on, and what is spent of the budget of it all."""
        if progress.view.title != what:
            progress.phase(what)
        progress.spend(self.spent_s(), self.campaign.total_s, facts=facts, now=now)
