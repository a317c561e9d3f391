"""Which statistic of a cell's repetitions is to be small.

Users pay the mean, but a measured mean hangs on a few outliers, and a median hides a slow mode that
every third call runs into. The trimmed mean drops the fastest and the slowest tenth of a launch's
repetitions and averages the rest (Wilcox, *Introduction to Robust Estimation and Hypothesis
Testing*, 2012, sec. 3.3).

Of imported data often only a summary is known. The mean stands in for the trimmed mean where it
lies between the minimum and the 90th percentile, as every mean trimmed by a tenth does; a mean
above the 90th percentile is made by outliers that trimming would drop, and is replaced by the
median, as is one that cannot be judged because the percentile is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colltune.errors import DataError, say, unknown
from colltune.text import counted

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]
_CUT = 0.1
_LEAST_CUT_OF = 3


class Objective(StrEnum):
    """A statistic of one launch's repetitions of one cell."""

    TRIMMED_MEAN = "trimmed-mean"
    MEAN = "mean"
    MEDIAN = "median"
    P75 = "p75"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"

    def __str__(self) -> str:
        """Return how it is written on the command line."""
        return self.value


DEFAULT_OBJECTIVE = Objective.TRIMMED_MEAN


def parse_objective(text: str) -> Objective:
    try:
        return Objective(text.strip().lower())
    except ValueError:
        raise unknown("objective", text, Objective, DataError) from None


def of_repetitions(times_s: Numbers, objective: Objective) -> Numbers:
    """Return the statistic of each row of `times_s` (n, repetitions), shape (n).

    At least one of three or more is cut, so that one outlier among few does no harm. Quantiles are
    measured values; the median of an even number lies between two.
    """
    if objective is Objective.MEAN:
        return np.asarray(times_s.mean(axis=1))
    if objective is Objective.MEDIAN:
        return np.asarray(np.median(times_s, axis=1))
    ordered = np.sort(times_s, axis=1)
    n = ordered.shape[1]
    if objective is Objective.TRIMMED_MEAN:
        cut = max(1, int(n * _CUT)) if n >= _LEAST_CUT_OF else 0
        return np.asarray(ordered[:, cut : n - cut].mean(axis=1))
    quantile = int(objective.value.removeprefix("p")) / 100
    return np.asarray(ordered[:, min(n - 1, max(0, int(np.ceil(quantile * n)) - 1))])


def launch_times(frame: pd.DataFrame, objective: Objective) -> Numbers:
    """Return the statistic of every row of a `frame`, of its summary where it has no more."""
    result = _of_summaries(frame, objective)
    repetitions = frame["times_s"].to_list()
    lengths = np.array([len(times) for times in repetitions], np.int64)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        raw = np.array([repetitions[row] for row in rows.tolist()], np.float64)
        usable = (np.isfinite(raw) & (raw > 0)).all(axis=1)
        result[rows] = np.where(usable, of_repetitions(raw, objective), np.nan)
    _refuse_unusable(frame, result, objective)
    return result


def _of_summaries(frame: pd.DataFrame, objective: Objective) -> Numbers:
    """Return the statistic of each row's summary (n), NaN where that does not tell."""
    median, mean, least, p90 = (
        frame[name].to_numpy(np.float64, copy=True)
        for name in ("time_s", "time_mean_s", "time_min_s", "time_p90_s")
    )
    if objective is Objective.MEDIAN:
        return median
    if objective is Objective.TRIMMED_MEAN:
        least = np.where(np.isnan(least), 0.0, least)
        with np.errstate(invalid="ignore"):
            return np.where((least <= mean) & (mean <= p90), mean, median)
    known = {Objective.MEAN: mean, Objective.P90: p90}.get(objective, np.full(len(median), np.nan))
    single = frame["n_reps"].to_numpy() <= 1
    return np.where(np.isnan(known) & single, median, known)


def _refuse_unusable(frame: pd.DataFrame, result: Numbers, objective: Objective) -> None:
    """Raise `DataError` for the first row without a positive time."""
    bad = np.flatnonzero(~(np.isfinite(result) & (result > 0)))
    if not len(bad):
        return
    row = frame.iloc[bad[0]]
    cell, those = cell_text(row), f"{len(bad)} of {counted(len(frame), 'measurement')}"
    if np.isnan(result[bad[0]]) and np.isfinite(row["time_s"]) and not len(row["times_s"]):
        raise say("objective-unknown", objective=objective, those=those, cell=cell)
    raise say("no-positive-time", those=those, cell=cell)


def cell_text(row: pd.Series[Any]) -> str:
    """Return which cell of which launch a row of a dataset is, for people."""
    return (
        f"{row['collective']} {' '.join(filter(None, (row['algorithm'], row['parameters'])))} on"
        f" {row['nodes']}x{row['ppn']}, {counted(row['msize_bytes'], 'byte')}, launch"
        f" {row['launch'] or 'without a name'}"
    )


def common(objectives: Iterable[Objective]) -> Objective:
    """Return the one objective of several parts of a dataset."""
    distinct = sorted(set(objectives))
    if len(distinct) > 1:
        raise say("objectives-differ", distinct=", ".join(distinct))
    return distinct[0] if distinct else DEFAULT_OBJECTIVE
