"""Do no harm: the library's own decision is kept unless a gain is beyond the model's own error.

A configuration must be predicted faster than the default by more than

* 5 %, and
* what the model's held-out predictions of that very ratio were off by (`ErrorModel.margin`: the
  gain must survive the 40 % quantile of the ratio's error), and
* 20 % where the shape or message lies outside the measured range.

Far from everything measured the default is kept always: beyond twice the largest measured message,
and on four times the most, or a quarter of the fewest, nodes or processes measured.

Measured on the simulated 36-node fat tree (340 instances of unseen node counts) and on Leonardo
(151, one node count left out at a time), share of the oracle's log gain and share of decisions more
than 5 % slower than the default, without and with this rule: learner chosen by cross-validation
.899 (4.4 %) to .901 (1.5 %) and .68 (11 %) to .67 (4 %); XGBoost .938 (2.1 %) to .941 (0.3 %) and
.51 (14 %) to .58 (5 %); worst off is KNN, .902 (2.1 %) to .883 (1.8 %) and .56 (14 %) to .40 (1 %).
One-sided bounds at 70, 80 and 90 % were tried: they cost a tenth to three quarters of the gain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class Guard(NamedTuple):
    """Least predicted gain over the default, as a ratio, and how far instances may exceed the data.

    ``min_gain`` holds everywhere, ``min_gain_extrapolated`` outside the measured range. ``reach``
    is the largest message for which anything but the default is chosen, in multiples of the largest
    measured; ``shape_reach`` is the same for nodes and processes, upwards and downwards.
    """

    min_gain: float = 1.05
    min_gain_extrapolated: float = 1.2
    reach: float = 2.0
    shape_reach: float = 4.0

    def required_log_gain(self, margin: Numbers, extrapolated: NDArray[np.bool_]) -> Numbers:
        """Return the log gain that a configuration must exceed, shape (n, C).

        Parameters
        ----------
        margin
            The models' error of the predicted log gain, shape (C).
        extrapolated
            Which instances lie outside the measured range, shape (n).
        """
        least = np.where(extrapolated, self.min_gain_extrapolated, self.min_gain)
        return np.maximum(np.log(least)[:, None], margin)

    def beyond_reach(
        self, counts: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Tell which instances are too far from everything measured, shape (n).

        Parameters
        ----------
        counts
            Nodes, processes and message size in bytes of n instances, shape (3, n).
        low, high
            The measured ranges of the same, shape (3).
        """
        upwards = np.array([self.shape_reach, self.shape_reach, self.reach])
        downwards = np.array([self.shape_reach, self.shape_reach, np.inf])
        too_high = counts > (upwards * high)[:, None]
        too_low = counts < (low / downwards)[:, None]
        return np.asarray((too_high | too_low).any(axis=0))
