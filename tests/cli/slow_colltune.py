"""`colltune` whose replayed launches and whose fits take their time, as real ones do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from colltune.bench import backends
from colltune.bench.backends.protocol import LaunchPlan, LaunchResult
from colltune.bench.backends.replay import ReplayBackend
from colltune.cli import main
from colltune.models import fitting

_STEP_S = 0.1
_fitted = fitting._fitted


class SlowReplay(ReplayBackend):
    """Waits a little at each visit, and tells of it."""

    begun: tuple[int, ...] = ()

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        """Replay the plan, slowly."""
        for number, step in enumerate(plan.steps):
            self.begun = tuple(dict.fromkeys((*self.begun, step.cell)))
            progress(number * _STEP_S)
            time.sleep(_STEP_S)
        self.begun = ()
        return super().run(plan, launch, folder, progress)


def _slowly_fitted(task: Any) -> Any:
    time.sleep(6 * _STEP_S)
    return _fitted(task)


if __name__ == "__main__":
    backends.BACKENDS["replay"] = SlowReplay
    fitting._fitted = _slowly_fitted
    main()
