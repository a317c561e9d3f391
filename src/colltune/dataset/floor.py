"""What is no measurement: below the smallest possible time on a network, or of two repetitions.

Processes that do not start a repetition together measure too little: a message that arrives while
its receiver is still held up seems to take no time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from colltune.domain import Measurement, RunStatus

_SHARE = 0.9
"""Of half a round trip; so much clocks may differ, and round trips vary."""


FEWEST_REPS = 3
"""Of two repetitions nobody knows which one was disturbed."""


def floor_s(round_trip_s: float) -> float:
    """Return what any collective over several nodes takes at least: one way between two nodes."""
    return _SHARE * round_trip_s / 2


def possible(
    measurements: Iterable[Measurement], round_trip_s: float | None
) -> tuple[Measurement, ...]:
    """Return `measurements`; those over nodes that are below the smallest time lose their times.

    `round_trip_s` is the shortest one between two nodes; None: unknown.
    """
    least_s = floor_s(round_trip_s) if round_trip_s else 0.0
    return tuple(
        replace(m, status=RunStatus.TOO_FAST, times_s=(), summary=None)
        if m.status.is_timed and m.instance.shape.nodes > 1 and _time_s(m) < least_s
        else m
        for m in measurements
    )


def enough(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return `measurements`; those of fewer than `FEWEST_REPS` known repetitions are marked so."""
    return tuple(
        replace(m, status=RunStatus.TOO_FEW)
        if m.status is RunStatus.OK and 0 < len(m.times_s) < FEWEST_REPS
        else m
        for m in measurements
    )


def _time_s(measurement: Measurement) -> float:
    if measurement.times_s:
        return median(measurement.times_s)
    return measurement.summary.time_s if measurement.summary else float("inf")
