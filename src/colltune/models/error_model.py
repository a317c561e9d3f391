"""How wrong a model is, on cells that it was not fitted to, and how noisy what it was fitted to.

Measured times differ from launch to launch, the allocation being a random effect: the log time of a
configuration on an instance is its own level, plus what the launch (its nodes, its neighbours in
the network) does to all configurations alike, plus what it does to this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


Numbers = NDArray[np.float64]

INTERVAL = (0.05, 0.95)
"""Quantiles of the error of log time that bound the 90 % interval of a prediction."""
SHORTFALL_QUANTILE = 0.6
_TAIL = 1.645
_ENOUGH = 10
_UNKNOWN_SPREAD = float(np.log(2.0))
UNKNOWN_SHORTFALL = float(np.log(1.2))
"""By how much a log gain may be too high where nothing tells."""
_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
_P90 = 1.2816
Z95 = 1.96
"""Standard errors that a difference must exceed to be told from none."""
_LEAST_CONTRASTS, _ENOUGH_CONTRASTS = 3, 30
_LEAST_REPS, _MANY_REPS = 10, 50
_INSTANCE = ["collective", "nodes", "ppn", "msize_bytes"]
_CONFIGURATION = ["algorithm", "parameters"]


class LaunchNoise(NamedTuple):
    """Standard deviations of log times over launches.

    ``common`` is what a launch does to all configurations alike, ``own`` to a single one;
    ``launches`` how many launches a cell has in the mean. Where no cell was measured in two
    launches, ``common`` is 0 and ``own`` what the repetitions of a launch tell: a lower bound.
    """

    common: float = 0.0
    own: float = 0.0
    launches: float = 1.0

    @property
    def detectable(self) -> float:
        """The least log gain that a cell's measurements tell from none: 1.96 standard errors."""
        return float(Z95 * self.own * np.sqrt(2.0 / self.launches))

    @property
    def averaged_away(self) -> float:
        """Standard deviation of a launch's log time that the median over launches hides."""
        variance = (self.common**2 + self.own**2) * (1.0 - 1.0 / self.launches)
        return float(np.sqrt(variance))


UNKNOWN = LaunchNoise()


def launch_noise(measured: pd.DataFrame, elsewhere: LaunchNoise = UNKNOWN) -> LaunchNoise:
    """Return the noise of one collective's timed rows, or of several together.

    It is robust against a minority of odd launches. `elsewhere` is the noise of the other
    collectives, which counts where too little was measured twice.
    """
    # a job of one process does nothing in a collective, always in the same time
    measured = measured[measured["nodes"] * measured["ppn"] > 1]
    if not len(measured):
        return elsewhere
    cell = [*_INSTANCE, *_CONFIGURATION]
    launches = measured.groupby(cell)["launch"].transform("nunique").to_numpy()
    often = launches > 1
    several = measured.loc[often, [*cell, "launch", "n_reps"]].copy()
    several["log"] = np.log(measured.loc[often, "time_s"].to_numpy(np.float64))
    least = _LEAST_CONTRASTS if elsewhere == UNKNOWN else _ENOUGH_CONTRASTS
    # medians of few repetitions differ by those alone
    differences = _differences(several[several["n_reps"] >= _MANY_REPS])
    if len(differences) < least:
        differences = _differences(several)
    if len(differences) < least:
        known = max(elsewhere.own, _of_repetitions(measured))
        return LaunchNoise(elsewhere.common, known, float(launches.mean()))
    own = float(_NORMAL * np.median(np.abs(differences)) / 2.0)
    several["residual"] = several["log"] - several.groupby(cell)["log"].transform("mean")
    # a mean over k launches takes 1/k of the variance with it
    several["residual"] *= np.sqrt(launches[often] / (launches[often] - 1.0))
    together = several.groupby([*_INSTANCE, "launch"])["residual"]
    common = float(np.median(np.abs(together.transform("mean")))) * _NORMAL
    size = float(together.transform("size").mean())
    common_sd = float(np.sqrt(max(common**2 - own**2 / size, 0.0)))
    return LaunchNoise(common_sd, own, float(launches.mean()))


def _differences(several: pd.DataFrame) -> Numbers:
    """Return how log ratios of neighbouring configurations differ from launch to launch.

    Such a difference has four times the variance of what a launch does to one configuration.
    """
    ordered = several.sort_values([*_INSTANCE, "launch", *_CONFIGURATION], kind="stable")
    following = ordered.groupby([*_INSTANCE, "launch"])["log"].shift(-1)
    ratio = ordered.assign(ratio=ordered["log"] - following)
    by_launch = ratio.groupby([*_INSTANCE, *_CONFIGURATION], sort=False)["ratio"]
    differences = by_launch.diff().to_numpy(np.float64)
    return np.asarray(differences[np.isfinite(differences)])


def _of_repetitions(measured: pd.DataFrame) -> float:
    """Return the standard error of a cell's median that its repetitions tell, 0 if they do not."""
    told = measured[(measured["n_reps"] >= _LEAST_REPS) & (measured["time_s"] > 0)]
    if not len(told):
        return 0.0
    ratio = told["time_p90_s"].to_numpy(np.float64) / told["time_s"].to_numpy(np.float64)
    spread = np.log(np.maximum(ratio, 1.0)) / _P90
    errors = spread * np.sqrt(np.pi / 2.0 / told["n_reps"].to_numpy(np.float64))
    return float(np.nanmedian(errors)) if np.isfinite(errors).any() else 0.0


class ErrorModel(NamedTuple):
    """Out-of-fold errors of C configurations, all natural logarithms of ratios, shape (C).

    ``lower`` and ``upper`` are the `INTERVAL` quantiles of log(measured / predicted) time.
    ``shortfall`` is by how much measured log gains over the default fell short of predicted ones:
    their `SHORTFALL_QUANTILE`, at least 0. ``detectable`` is the least log gain that the
    measurements of one cell tell from none.
    """

    lower: Numbers
    upper: Numbers
    shortfall: Numbers
    detectable: float = 0.0

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
        the interval is a factor of 2 either way and the shortfall 20 %.
        """
        errors = np.log(measured_s) - np.log(predicted_s)
        lower, upper = (_quantiles(errors, q) for q in INTERVAL)
        lower = np.where(np.isnan(lower), -_UNKNOWN_SPREAD, lower)
        upper = np.where(np.isnan(upper), _UNKNOWN_SPREAD, upper)
        half = (upper - lower) / 2.0
        more = np.hypot(half, _TAIL * launches.averaged_away) - half
        return cls(
            lower - more,
            upper + more,
            _shortfall(errors, default_column),
            launches.detectable,
        )

    @classmethod
    def unknown(cls, n_configurations: int, launches: LaunchNoise) -> Self:
        """Return one of predictions whose errors are not known yet."""
        zeros = np.zeros(n_configurations)
        return cls(zeros, zeros, zeros, launches.detectable)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields."""
        bounds = {"lower": self.lower, "upper": self.upper, "shortfall": self.shortfall}
        return bounds | {"detectable": np.array([self.detectable])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `arrays`; bundles before version 3 have other names."""
        shortfall = arrays["shortfall" if "shortfall" in arrays else "margin"]
        noise = arrays.get("detectable", arrays.get("noise"))
        detectable = 0.0 if noise is None else float(noise[0])
        return cls(arrays["lower"], arrays["upper"], shortfall, detectable)


def _shortfall(errors: Numbers, default_column: int | None) -> Numbers:
    """Return `ErrorModel.shortfall` from errors of log times (n, C)."""
    if default_column is None:
        return np.zeros(errors.shape[1])
    short = errors - errors[:, [default_column]]
    others = _quantiles(np.delete(short, default_column, axis=1), SHORTFALL_QUANTILE)
    known = np.where(np.isnan(others), UNKNOWN_SHORTFALL, np.maximum(others, 0.0))
    return np.insert(known, default_column, 0.0)


def _quantiles(errors: Numbers, quantile: float) -> Numbers:
    """Return each column's quantile, that of all columns where it has too few; NaN without any."""
    pooled = errors[np.isfinite(errors)]
    fallback = float(np.quantile(pooled, quantile)) if pooled.size else np.nan
    result = np.full(errors.shape[1], fallback)
    for column, values in enumerate(errors.T):
        known = values[np.isfinite(values)]
        if len(known) >= _ENOUGH:
            result[column] = np.quantile(known, quantile)
    return result
