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
_INSTANCE = ["nodes", "ppn", "msize_bytes"]
_CONFIGURATION = ["algorithm", "parameters"]


class LaunchNoise(NamedTuple):
    """Standard deviations of log times over launches.

    ``common`` is what a launch does to all configurations alike, ``own`` to a single one;
    ``launches`` how many launches a cell has in the mean. Both are 0 where no cell was measured in
    two launches.
    """

    common: float = 0.0
    own: float = 0.0
    launches: float = 1.0

    @property
    def of_gain(self) -> float:
        """Standard deviation of a log ratio of two configurations in one launch."""
        return float(np.sqrt(2.0) * self.own)

    @property
    def averaged_away(self) -> float:
        """Standard deviation of a launch's log time that the median over launches hides."""
        variance = (self.common**2 + self.own**2) * (1.0 - 1.0 / self.launches)
        return float(np.sqrt(variance))


UNKNOWN = LaunchNoise()


def launch_noise(measured: pd.DataFrame) -> LaunchNoise:
    """Return the noise of one collective's measurements.

    Parameters
    ----------
    measured
        Timed rows with `time_s`, ``launch`` and the columns that name a cell; robust against a
        minority of odd launches.
    """
    cell = [*_INSTANCE, *_CONFIGURATION]
    launches = measured.groupby(cell)["launch"].transform("nunique").to_numpy()
    if not len(measured) or not (launches > 1).any():
        return UNKNOWN
    several = measured.loc[launches > 1, [*cell, "launch"]].copy()
    several["log"] = np.log(measured.loc[launches > 1, "time_s"].to_numpy(np.float64))
    residual = several["log"] - several.groupby(cell)["log"].transform("mean")
    # a mean over k launches takes 1/k of the variance with it
    count = launches[launches > 1]
    several["residual"] = residual * np.sqrt(count / (count - 1.0))
    together = several.groupby([*_INSTANCE, "launch"])["residual"]
    common = together.transform("mean").to_numpy(np.float64)
    size = together.transform("size").to_numpy()
    own = (several["residual"].to_numpy(np.float64) - common)[size > 1]
    own_sd = _spread(own * np.sqrt(size[size > 1] / (size[size > 1] - 1.0)))
    common_sd = float(np.sqrt(max(_spread(common) ** 2 - own_sd**2 / size.mean(), 0.0)))
    return LaunchNoise(common_sd, own_sd, float(launches.mean()))


def _spread(values: Numbers) -> float:
    return float(_NORMAL * np.median(np.abs(values))) if len(values) else 0.0
