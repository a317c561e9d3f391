"""What a launch's repetitions tell of their own scatter, and of how well their median is known."""

from __future__ import annotations

import math

import numpy as np

MAD_TO_SD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
_P90_TO_SD = 1.2816
_MOST_AUTOCORRELATION = 0.95


def robust_sd(logs: np.ndarray) -> float:
    """Return the standard deviation that a normal distribution of the same core would have."""
    n = len(logs)
    mad = float(np.median(np.abs(logs - np.median(logs))))
    if mad == 0:
        # a coarse clock may give the same time to more than half of the repetitions
        low, high = np.quantile(logs, [0.159, 0.841])
        return float(high - low) / 2
    return MAD_TO_SD * mad * n / (n - 0.8)


def rank_autocorrelation(logs: np.ndarray) -> float:
    """Return how much neighbours resemble each other: 0 (also where not significant) to 1."""
    ordered = np.sort(logs)
    # equal times have equal ranks, else a coarse clock would look like order
    ranks = np.searchsorted(ordered, logs, "left") + np.searchsorted(ordered, logs, "right")
    if ordered[0] == ordered[-1]:
        return 0.0
    centred = ranks - ranks.mean()
    correlation = float(centred[:-1] @ centred[1:] / (centred @ centred))
    if correlation <= 2 / math.sqrt(len(logs)):
        return 0.0
    return min(correlation, _MOST_AUTOCORRELATION)


def median_factor(n: float) -> float:
    """Return the variance of the median of `n` normal values over that of one: pi / 2n at last.

    It is exact for one value and for many.
    """
    return math.pi / (2 * n + math.pi - 2)


def independent_reps(n_reps: float, autocorrelation: float) -> float:
    """Return how many independent repetitions tell as much as `n_reps` that resemble each other."""
    return max(1.0, n_reps * (1 - autocorrelation) / (1 + autocorrelation))


def sd_of_p90(ratio: float) -> float:
    """Return the standard deviation of log times, by their 90 % quantile over the median."""
    return math.log(ratio) / _P90_TO_SD
