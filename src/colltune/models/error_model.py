"""How wrong a model is, measured on cells that it was not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from colltune.models.launch_noise import UNKNOWN, LaunchNoise

Numbers = NDArray[np.float64]

INTERVAL = (0.05, 0.95)
"""Quantiles of the error of log time that bound the 90 % interval of a prediction."""
RATIO_QUANTILE = 0.4
"""Quantile of the error of a predicted gain that the guard asks a gain to survive.

A compromise between gain and harm, with its figures in `colltune.selector.guard`.
"""
LEAST_NOISE = 0.01
"""Standard error of a log gain that is at least assumed."""
_MOST_NOISE = 0.05
NOISE_CELLS = 10
"""How many cells tell a gain, so that its standard error is that much smaller."""
_TAIL = 1.645
_ENOUGH = 10
_UNKNOWN_SPREAD = float(np.log(2.0))
_UNKNOWN_MARGIN = float(np.log(1.2))


class ErrorModel(NamedTuple):
    """Out-of-fold errors of C configurations, all natural logarithms of ratios, shape (C).

    ``lower`` and ``upper`` are the `INTERVAL` quantiles of log(measured / predicted) time.
    ``margin`` is what a predicted log gain over the default must exceed: minus the
    `RATIO_QUANTILE` of log(measured gain / predicted gain), at least 0. ``noise`` is the
    standard error of a log gain that noise between launches leaves where about ten cells tell it,
    kept between 0.01 and 0.05.
    """

    lower: Numbers
    upper: Numbers
    margin: Numbers
    noise: float = LEAST_NOISE

    @classmethod
    def of(
        cls,
        measured_s: Numbers,
        predicted_s: Numbers,
        default_column: int | None,
        launches: LaunchNoise = UNKNOWN,
    ) -> Self:
        """Estimate from measured and out-of-fold predicted seconds, both (n, C), NaN if unknown.

        Times of several launches are steadier than what one launch will see; by what `launches`
        tells the interval is widened, the errors being independent of a launch's luck.

        A configuration with fewer than 10 errors borrows those of all; without any error at all
        the interval is a factor of 2 either way and the margin 20 %.
        """
        errors = np.log(measured_s) - np.log(predicted_s)
        lower, upper = (_quantiles(errors, q, None) for q in INTERVAL)
        if default_column is None:
            margin = np.zeros(errors.shape[1])
        else:
            gains = errors[:, [default_column]] - errors
            margin = -_quantiles(gains, RATIO_QUANTILE, default_column)
        lower = np.where(np.isnan(lower), -_UNKNOWN_SPREAD, lower)
        upper = np.where(np.isnan(upper), _UNKNOWN_SPREAD, upper)
        half = (upper - lower) / 2.0
        more = np.hypot(half, _TAIL * launches.averaged_away) - half
        return cls(
            lower - more,
            upper + more,
            np.where(np.isnan(margin), _UNKNOWN_MARGIN, np.maximum(margin, 0.0)),
            float(np.clip(launches.of_gain / np.sqrt(NOISE_CELLS), LEAST_NOISE, _MOST_NOISE)),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields."""
        bounds = {"lower": self.lower, "upper": self.upper, "margin": self.margin}
        return bounds | {"noise": np.array([self.noise])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `arrays`; bundles of version 1 know no noise."""
        noise = float(arrays["noise"][0]) if "noise" in arrays else LEAST_NOISE
        return cls(arrays["lower"], arrays["upper"], arrays["margin"], noise)


def _quantiles(errors: Numbers, quantile: float, excluded: int | None) -> Numbers:
    """Return each column's quantile, that of all columns but `excluded` where it has too few."""
    others = np.delete(errors, excluded, axis=1) if excluded is not None else errors
    pooled = others[np.isfinite(others)]
    fallback = float(np.quantile(pooled, quantile)) if pooled.size else np.nan
    result = np.full(errors.shape[1], fallback)
    for column, values in enumerate(errors.T):
        known = values[np.isfinite(values)]
        if len(known) >= _ENOUGH:
            result[column] = np.quantile(known, quantile)
    return result
