"""How often drift is told where nothing changed, and where a machine became 1.4x slower.

Allocations come one a night, after 30 of a reference. Their logarithms scatter, each resembling the
one before or not; the newest ten, and all since the reference, are compared as nightly runs do.
"""

from __future__ import annotations

import math
import os
import sys

import numpy as np
from numpy.typing import NDArray

from colltune.evidence.components import changed
from colltune.retraining.site_file import DriftLimits
from figures.figure import Figure

SERIES = int(os.environ.get("COLLTUNE_SERIES", "60"))
_SEED, _REFERENCE, _LATEST, _NIGHTS, _SLOWER, _AFTER = 1, 30, 10, 80, 1.4, 30
_KINDS = 3
_LIMITS = DriftLimits()


def run() -> Figure:
    """Return the largest share of series with a false alarm in 80 nights, allocations apart.

    COLLTUNE_SERIES is how many there are of each kind, 60 by default.
    """
    rng = np.random.default_rng(_SEED)
    facts: dict[str, list[float]] = {}
    for alike in (0.0, 0.7):
        for sd in (0.1, 0.2, 0.3):
            false = [_alarms(_series(rng, alike, sd, 1.0), _NIGHTS) for _ in range(SERIES)]
            true = [_alarms(_series(rng, alike, sd, _SLOWER), _AFTER) for _ in range(SERIES)]
            told = [sum(false) / SERIES, sum(true) / SERIES]
            facts[f"alike {alike}, sd {sd}: false, found"] = told
            print(f"alike {alike}, sd {sd}: {told}", file=sys.stderr, flush=True)
    worst = max(false for name, (false, _) in facts.items() if name.startswith("alike 0.0"))
    return Figure("drift_alarms", worst, "share of series", worst, 0.05, facts)


def _series(
    rng: np.random.Generator, alike: float, sd: float, slower: float
) -> NDArray[np.float64]:
    logs = rng.normal(0.0, 1.0, _REFERENCE + _NIGHTS)
    for at in range(1, len(logs)):
        logs[at] = alike * logs[at - 1] + math.sqrt(1.0 - alike**2) * logs[at]
    logs *= sd
    logs[_REFERENCE:] += math.log(slower)
    return logs


def _alarms(logs: NDArray[np.float64], nights: int) -> bool:
    return any(
        _is_alarm(logs[:first], logs[first:night])
        for night in range(_REFERENCE + _LATEST, _REFERENCE + nights + 1)
        for first in {_REFERENCE, night - _LATEST}
    )


def _is_alarm(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    found = changed(before, after, _LIMITS.launch_noise)
    if found is None or abs(found.log) <= math.log(_LIMITS.ratio):
        return False
    return found.chance < _LIMITS.false_alarms / _KINDS
