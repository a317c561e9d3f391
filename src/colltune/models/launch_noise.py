"""How measured times differ from launch to launch: the allocation as a random effect.

The log time of a configuration on an instance is its own level, plus what the launch (its nodes,
its neighbours in the network) does to all configurations alike, plus what it does to this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]
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
    """Return the noise of one collective's measurements, or of several together.

    Parameters
    ----------
    measured
        Timed rows with `time_s`, `time_p90_s`, `n_reps`, ``launch`` and the columns that name a
        cell; robust against a minority of odd launches.
    elsewhere
        The noise of the other collectives, which counts where too little was measured twice.
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
