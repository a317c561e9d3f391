"""How wrong a model is, on cells that it was not fitted to, and how noisy what it was fitted to.

Measured times differ from launch to launch: by what the launch (its nodes, its neighbours in the
network) does to all configurations alike, and by what it does to one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from colltune.domain import DEFAULT_ALGORITHM
from colltune.evidence.launches import MACHINE, Z90, Noise, averaged, of_one_launch, usual

if TYPE_CHECKING:
    import pandas as pd


Numbers = NDArray[np.float64]

INTERVAL = (0.05, 0.95)
"""Quantiles of the error of log time that bound the 90 % interval of a prediction."""
SHORTFALL_QUANTILE = 0.6
_ENOUGH = 10
_UNKNOWN_SPREAD = float(np.log(2.0))
UNKNOWN_SHORTFALL = float(np.log(1.2))
"""By how much a log gain may be too high where nothing tells."""
_INSTANCE = ["collective", "nodes", "ppn", "msize_bytes"]
_CELL = [*_INSTANCE, "algorithm", "parameters"]


class LaunchNoise(NamedTuple):
    """How log times differ over launches.

    ``level`` is the standard deviation of a usual cell's log time, ``ratio`` the noise of its log
    ratio to the default; ``launches`` is how many a cell has in the median.
    """

    level: float = 0.0
    ratio: Noise = MACHINE
    launches: float = 1.0

    @property
    def detectable(self) -> float:
        """The least log gain that a cell's measurements tell from none."""
        return self.ratio.detectable(self.launches)

    @property
    def averaged_away(self) -> float:
        """Standard deviation of a launch's log time that the median over launches hides."""
        return self.level * math.sqrt(1.0 - 1.0 / self.launches)


UNKNOWN = LaunchNoise()


def launch_noise(measured: pd.DataFrame, elsewhere: LaunchNoise = UNKNOWN) -> LaunchNoise:
    """Return the noise of one collective's timed rows, or of several together.

    All cells of a shape count as measured in the same launches. `elsewhere` is the noise of the
    other collectives, which counts beside that.
    """
    # a job of one process does nothing in a collective, always in the same time
    measured = measured[measured["nodes"] * measured["ppn"] > 1]
    if not len(measured):
        return elsewhere
    times = measured.assign(log=np.log(measured["time_s"].where(measured["time_s"] > 0)))
    levels = [found for found in _by_shape(times) if found is not None]
    level = averaged(levels[1:], levels[0]).sd if levels else elsewhere.level
    launches = times.groupby(_CELL)["launch"].nunique().median()
    together = default_gains(measured)
    ratio = averaged(_by_shape(together), elsewhere.ratio)
    if launches <= 1 and "time_rank_min_s" in times and times["time_rank_min_s"].notna().any():
        ratio = _of_one_launch(times, together=len(together) > 0)
    return LaunchNoise(level, ratio, float(launches))


def _of_one_launch(times: pd.DataFrame, *, together: bool) -> Noise:
    """Return the noise of log gains as ranks and neighbouring sizes bound it."""
    is_default = times["algorithm"] == DEFAULT_ALGORITHM
    default = times[is_default].groupby(_INSTANCE)["log"].median()
    gains = times[~is_default].set_index(_INSTANCE)
    gains = gains.assign(gain=default - gains["log"]).reset_index().sort_values("msize_bytes")
    curve = gains.groupby([name for name in _CELL if name != "msize_bytes"])["gain"]
    ranges = times["log"] - np.log(times["time_rank_min_s"])
    bends = gains["gain"] - (curve.shift(1) + curve.shift(-1)) / 2
    return of_one_launch(bends, ranges, together=together)


def default_gains(timed: pd.DataFrame) -> pd.DataFrame:
    """Return the ``log`` gain over the default of each row whose launch has the default, too."""
    times = timed.assign(log=np.log(timed["time_s"].where(timed["time_s"] > 0)))
    is_default = times["algorithm"] == DEFAULT_ALGORITHM
    keys = [*_INSTANCE, "launch"]
    both = times.loc[~is_default, [*_CELL, "launch", "log"]].merge(
        times.loc[is_default, [*keys, "log"]], on=keys, suffixes=("", "_default")
    )
    return both.assign(log=both["log_default"] - both["log"]).dropna(subset="log")


def _by_shape(table: pd.DataFrame) -> list[Noise | None]:
    """Return what the launches of each shape tell of how ``log`` differs between them."""
    cells = table.groupby(_CELL, sort=False)["log"].agg(["count", "var"])
    counts, variances = cells.to_numpy().T
    shapes = np.column_stack([cells.index.get_level_values(name) for name in ("nodes", "ppn")])
    each, shape_of = np.unique(shapes, axis=0, return_inverse=True)
    rows = [shape_of == k for k in range(len(each))]
    return [usual(counts[row], variances[row] * (counts[row] - 1)) for row in rows]


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
        more = np.hypot(half, Z90 * launches.averaged_away) - half
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


class Agreement(NamedTuple):
    """How measured differences of log times follow predicted ones.

    ``products`` sums predicted times measured, ``squares`` predicted times predicted.
    """

    products: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, predicted: Numbers, measured: Numbers) -> Agreement:
        """Compare clipped log regrets (n, C), NaN where unknown, less their mean over C."""
        both = np.isfinite(predicted) & np.isfinite(measured)
        counts = np.maximum(both.sum(axis=1, keepdims=True), 1)
        sides = [np.where(both, side, 0.0) for side in (predicted, measured)]
        left, right = (np.where(both, s - s.sum(axis=1, keepdims=True) / counts, 0) for s in sides)
        return cls(float((left * right).sum()), float((left**2).sum()))

    @classmethod
    def of_gains(cls, predicted: Numbers, measured: Numbers) -> Agreement:
        """Compare log gains over the default (n), each counted up to a factor of e."""
        left, right = (np.clip(side, -1.0, 1.0) for side in (predicted, measured))
        return cls(float(left @ right), float(left @ left))

    @classmethod
    def together(cls, agreements: Sequence[Agreement]) -> Agreement:
        """Return the agreement over all rows of several."""
        return cls(sum(a.products for a in agreements), sum(a.squares for a in agreements))

    def trust(self, towards: float, weight: float = 2.0) -> float:
        """Return the slope from 0 to 1, drawn to `towards`, which counts as `weight` squares."""
        slope = (self.products + weight * towards) / (self.squares + weight)
        return float(np.clip(slope, 0.0, 1.0))


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
