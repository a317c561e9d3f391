"""The table from which noise is computed: what was measured well, with its noise beside it.

No measurement is what takes less than the smallest possible time on a network. Processes that do
not start a repetition together measure too little: a message that arrives while its receiver is
still held up seems to take no time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

import numpy as np
import pandas as pd

from colltune.dataset.frame import CELL_COLUMNS, PerformanceDataset
from colltune.domain import Measurement, RunStatus
from colltune.errors import say
from colltune.evidence.repetitions import (
    independent_reps,
    median_factor,
    rank_autocorrelation,
    robust_sd,
    sd_of_p90,
)


class AllocationSource(StrEnum):
    """How a launch's allocation is known."""

    PROVENANCE = "provenance"
    PATTERN = "pattern"
    ASSUMED = "assumed"


@dataclass(frozen=True)
class Allocations:
    """The allocation of each launch, and for each source the number of launches it told.

    ``by_launch`` has their names; ``sources`` is by what told the allocation.
    """

    by_launch: Mapping[str, str]
    sources: Mapping[AllocationSource, int]


def allocations_of(
    launches: Iterable[str],
    provenance: Mapping[str, Mapping[str, str]],
    pattern: str | None = None,
) -> Allocations:
    """Tell the allocation of each of `launches`.

    `pattern`, a regular expression, comes first: its first group (or all that it matches) in the
    launch's name is the allocation. Else the launch's own `provenance` tells; that of an import
    does not count, since it is about the machine that imported. Else each launch is assumed to be
    an allocation of its own, as in tidy CSV files, whose column ``launch`` says which job measured.

    Raises
    ------
    DataError
        If `pattern` is malformed or does not match a launch.
    """
    by_launch: dict[str, str] = {}
    sources: dict[AllocationSource, int] = {}
    for launch in sorted(set(launches)):
        facts = provenance.get(launch, {})
        source, name = AllocationSource.ASSUMED, f"launch {launch}"
        if pattern is not None:
            source, name = AllocationSource.PATTERN, _matched(pattern, launch)
        elif "allocation" in facts and "imported_from" not in facts:
            source, name = AllocationSource.PROVENANCE, facts["allocation"]
        by_launch[launch] = name
        sources[source] = sources.get(source, 0) + 1
    return Allocations(by_launch, sources)


def _matched(pattern: str, launch: str) -> str:
    try:
        match = re.search(pattern, launch)
    except re.error as error:
        raise say("not-a-pattern", pattern=pattern, error=error) from error
    if match is None:
        raise say("allocation-does-not-match", pattern=pattern, launch=launch)
    return str(match[1] if match.re.groups and match[1] is not None else match[0])


FIRST_REPS = 10
DRIFTING_RATIO = 1.05
BIMODAL_RATIO = 1.3
_LEAST_REPS = 5
# a coarse clock may tell 0 s, of which there is no logarithm
_LEAST_TIME_S = 1e-9
_LEAST_REPS_FOR_ORDER = 30
_LEAST_MODE_SHARE = 0.15
_LEAST_ASHMAN_D = 4.0
_DRIFT_BINS = 20
_INSTANCE_COLUMNS = ["collective", "nodes", "ppn", "msize_bytes"]
COLUMNS = ["spread", "p90_over_median", "autocorrelation", "warm_up", "drift", "modes_ratio"]


def _described(times_s: np.ndarray, median_s: float, p90_s: float, n_reps: int) -> dict[str, float]:
    """Return what can be told of ``COLUMNS``: order needs raw repetitions.

    ``spread`` is the standard deviation of log-times, ``autocorrelation`` that of ranks at lag 1;
    ``warm_up`` and ``drift`` are ratios; ``modes_ratio`` is that of two modes, where there are two.
    """
    found = {"p90_over_median": p90_s / median_s} if n_reps >= 2 else {}
    if len(times_s) < _LEAST_REPS:
        if n_reps >= FIRST_REPS and found["p90_over_median"] >= 1:
            found["spread"] = sd_of_p90(found["p90_over_median"])
        return found
    logs = np.log(np.maximum(times_s, _LEAST_TIME_S))
    found["spread"] = robust_sd(logs)
    if len(logs) >= _LEAST_REPS_FOR_ORDER:
        correlation = rank_autocorrelation(logs)
        found["autocorrelation"] = correlation
        found["warm_up"] = math.exp(_median(logs[:FIRST_REPS]) - _median(logs[FIRST_REPS:]))
        found["drift"] = _drift(logs, found["spread"], correlation)
        found["modes_ratio"] = modes_ratio(logs)
    return found


def _drift(logs: np.ndarray, spread: float, correlation: float) -> float:
    """Return the last quarter's median over the first's, 1.0 where chance would do the same."""
    quarter = len(logs) // 4
    change = _median(logs[-quarter:]) - _median(logs[:quarter])
    error = math.sqrt(2 * (spread**2 * median_factor(independent_reps(quarter, correlation))))
    return math.exp(change) if abs(change) > 3 * error else 1.0


def modes_ratio(logs: np.ndarray) -> float:
    """Return the ratio of the two modes' medians, or NaN for a single mode.

    The split is the one that leaves the least variance (Otsu 1979). Two modes need 15 % of the
    repetitions each, medians more than 1.3 apart, and Ashman's D above 4 (Ashman, Bird and Zepf
    1994): a single broad mode that is cut in two has D below 3.5.
    """
    ordered = np.sort(logs)
    n = len(ordered)
    counts = np.arange(1, n)
    sums, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    below = squares[:-1] - sums[:-1] ** 2 / counts
    above = (squares[-1] - squares[:-1]) - (sums[-1] - sums[:-1]) ** 2 / (n - counts)
    least = max(1, math.ceil(_LEAST_MODE_SHARE * n))
    inner = slice(least - 1, n - least)
    at = least + int(np.argmin((below + above)[inner]))
    distance = _middle(ordered[at:]) - _middle(ordered[:at])
    variances = max(0.0, below[at - 1]) / at, max(0.0, above[at - 1]) / (n - at)
    width = math.sqrt(sum(variances) / 2)
    is_bimodal = distance > math.log(BIMODAL_RATIO) and distance > _LEAST_ASHMAN_D * width
    return math.exp(distance) if is_bimodal else math.nan


def _median(values: np.ndarray) -> float:
    return _middle(np.sort(values))


def _middle(ordered: np.ndarray) -> float:
    n = len(ordered)
    return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def drift_curve(repetitions: Iterable[tuple[float, ...]]) -> np.ndarray:
    """Return how launches proceed: quantiles 0.1, 0.5, 0.9 (rows) of time over its median.

    The columns are 20 equal parts of a launch's repetitions of a cell. Cells with fewer than 40
    repetitions are left out; without any the result has no columns.

    `repetitions` are the raw times of one launch of a cell each, in seconds, in their order.
    """
    curves = []
    for times_s in repetitions:
        if len(times_s) >= 2 * _DRIFT_BINS:
            parts = np.array_split(np.asarray(times_s, float), _DRIFT_BINS)
            medians = np.array([np.median(part) for part in parts])
            curves.append(medians / np.median(times_s))
    if not curves:
        return np.empty((3, 0))
    return np.quantile(np.array(curves), [0.1, 0.5, 0.9], axis=0)


def measured(dataset: PerformanceDataset, allocations: Allocations, seed: int = 0) -> pd.DataFrame:
    """Return the ok rows in random order with what the components are computed from.

    Columns beside the dataset's and ``COLUMNS``: ``cell`` and ``instance`` (numbers),
    ``allocation``, ``log_time`` and ``variance``, its sampling variance (NaN: unknown).

    `seed` makes the draws repeatable.

    Raises
    ------
    DataError
        If no row is ok.
    """
    frame = dataset.frame
    frame = frame[(frame["status"] == RunStatus.OK) & (frame["time_s"] > 0)]
    if frame.empty:
        raise say("no-noise", context=dataset.context)
    names = ("times_s", "time_s", "time_p90_s", "n_reps")
    rows = zip(*(frame[name].tolist() for name in names), strict=True)
    described = [_described(np.asarray(times, float), *others) for times, *others in rows]
    noise = pd.DataFrame(described, columns=COLUMNS, index=frame.index, dtype=float)
    table = frame.join(noise).sample(frac=1, random_state=seed)
    table["allocation"] = table["launch"].map(allocations.by_launch)
    table["cell"] = table.groupby(CELL_COLUMNS, sort=False).ngroup()
    table["instance"] = table.groupby(_INSTANCE_COLUMNS, sort=False).ngroup()
    table["log_time"] = np.log(table["time_s"])
    table["variance"] = _sampling_variance(table)
    return table


def _sampling_variance(table: pd.DataFrame) -> pd.Series[float]:
    """Return the variance of each launch's median; few repetitions borrow their neighbours' noise.

    A spread that cannot be told is taken from the same instance, else collective, else all.
    """
    spread, autocorrelation = table["spread"], table["autocorrelation"]
    for keys in (_INSTANCE_COLUMNS, ["collective"]):
        groups = table.groupby(keys)
        spread = spread.fillna(groups["spread"].transform("median"))
        autocorrelation = autocorrelation.fillna(groups["autocorrelation"].transform("median"))
    spread = spread.fillna(table["spread"].median())
    autocorrelation = autocorrelation.fillna(table["autocorrelation"].median()).fillna(0.0)
    variances = [
        sd**2 * median_factor(independent_reps(n, correlation))
        for sd, n, correlation in zip(spread, table["n_reps"], autocorrelation, strict=True)
    ]
    return pd.Series(variances, index=table.index, dtype=float)


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
