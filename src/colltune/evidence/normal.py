"""What follows from a variance that is known, and from draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Z95, Z90 = 1.96, 1.645
"""Standard deviations on either side of the mean that hold 95 % and 90 % of a normal variable."""
TYPICAL = 0.6745
"""Standard deviations on either side that hold one half."""


def noticeable(variance: ArrayLike) -> NDArray[np.float64]:
    """Return the least difference that is told from none, given the variance of differences."""
    return np.asarray(Z95 * np.sqrt(variance))


def allowed_variance(difference: float) -> float:
    """Return the variance of differences with which one as large is just told from none."""
    return (difference / Z95) ** 2


def sd_behind(lower: ArrayLike, upper: ArrayLike, limit: float = Z95) -> NDArray[np.float64]:
    """Return the standard deviation behind intervals of so many of them on either side."""
    return np.asarray(np.subtract(upper, lower) / (2.0 * limit))


def ends_of_variance(variance: float, freedom: float) -> tuple[float, float]:
    """Return the ends of the interval of 95 % of a variance of so many degrees of freedom."""
    from scipy.special import chdtri

    low, high = (freedom * variance / float(chdtri(freedom, p)) for p in (0.025, 0.975))
    return low, high


def held(draws: NDArray[Any], share: float) -> tuple[float, float]:
    """Return the ends of what holds this share of draws, as many left out on either side."""
    low, high = np.quantile(draws, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)
