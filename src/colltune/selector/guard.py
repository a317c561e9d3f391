"""Do no harm: the library's own decision is kept unless a gain is beyond the model's own doubt.

Where the learner tells for each instance how far a configuration may fall behind the default
(`colltune.models.predictors.CautiousPredictor`), a configuration must be predicted faster by more
than

* half of that shortfall times the risk parameter ``caution``; outside the measured range twice
  as much, and half as much again with every doubling of the distance, and
* the noise that launches leave in a gain (`ErrorModel.noise`, 1 to 5 %).

What is left of the predicted gain after the shortfall is its lower bound. Other learners' gains
must exceed

* 5 %, and
* what the model's held-out predictions of that very ratio were off by (`ErrorModel.margin`: the
  gain must survive the 40 % quantile of the ratio's error), times ``caution``, and
* 20 % where the shape or message lies outside the measured range.

Those 5 and 20 % are asked of every learner that rests on other machines' measurements, too, since
what such a learner does not tell is how machines differ (`colltune.models.transfer`).

Far from everything measured the default is kept always: beyond twice the largest measured message,
and beyond four times the most, or a quarter of the fewest, nodes or processes measured; sixteen
times and a sixteenth for learners that tell their shortfall, unless only one count was measured.

How far `caution` trades gain for harm, learner ``regret_trees``, stands in
docs/explanation/selection.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
_SHORTFALLS = 0.5


class Guard(NamedTuple):
    """How much doubt a predicted gain over the default must survive.

    ``caution`` is the risk parameter: 0 follows every predicted gain beyond the noise, 1 is the
    default, 2 doubles the allowance for the model's errors. ``min_gain`` and
    ``min_gain_extrapolated`` are ratios, asked of learners that do not tell their shortfall or that
    rest on other machines' measurements.
    ``reach`` is the largest message for which anything but the default is chosen, in multiples of
    the largest measured; ``shape_reach`` the same for nodes and processes, upwards and downwards,
    and ``cautious_reach`` for learners that tell their shortfall.
    """

    min_gain: float = 1.05
    min_gain_extrapolated: float = 1.2
    reach: float = 2.0
    shape_reach: float = 4.0
    cautious_reach: float = 16.0
    caution: float = 1.0

    def doubt(
        self,
        shortfall: Numbers | None,
        margin: Numbers,
        distance: Numbers,
    ) -> Numbers:
        """Return by how much a predicted log gain may be too high, shape (n, C).

        Parameters
        ----------
        shortfall
            The models' own, shape (n, C), or None.
        margin
            The models' error of the predicted log gain, shape (C), which counts if there is none.
        distance
            How many times beyond the measured range instances lie, shape (n); 1 inside.
        """
        if shortfall is None:
            return np.broadcast_to(self.caution * margin, (len(distance), len(margin)))
        outside = np.where(distance > 1.0, 2.0 + 0.5 * np.log2(distance), 1.0)
        return np.asarray(self.caution * _SHORTFALLS * outside[:, None] * shortfall)

    def required_log_gain(
        self,
        doubt: Numbers,
        distance: Numbers,
        noise: float,
        *,
        cautious: bool,
        borrowed: bool = False,
    ) -> Numbers:
        """Return the log gain that a configuration must exceed, shape (n, C).

        Parameters
        ----------
        doubt, distance
            As for `doubt`, and what it returned.
        noise
            Of a measured log gain.
        cautious
            Whether the learner told its shortfall.
        borrowed
            Whether it rests on other machines' measurements, too.
        """
        survived = doubt + noise if cautious else doubt
        if cautious and not borrowed:
            return np.asarray(survived)
        least = np.where(distance > 1.0, self.min_gain_extrapolated, self.min_gain)
        return np.maximum(np.log(least)[:, None], survived)

    def beyond_reach(
        self, counts: Integers, low: Integers, high: Integers, *, cautious: bool = False
    ) -> NDArray[np.bool_]:
        """Tell which instances are too far from everything measured, shape (n).

        Parameters
        ----------
        counts
            Nodes, processes and message size in bytes of n instances, shape (3, n).
        low, high
            The measured ranges of the same, shape (3).
        cautious
            Whether the learner told its shortfall.
        """
        shapes = np.full(2, self.shape_reach)
        if cautious:
            # what was measured at one count alone tells nothing of others, whatever trees say
            shapes = np.where(low[:2] < high[:2], self.cautious_reach, 1.0)
        upwards, downwards = np.append(shapes, self.reach), np.append(shapes, np.inf)
        too_high = counts > (upwards * high)[:, None]
        too_low = counts < (low / downwards)[:, None]
        return np.asarray((too_high | too_low).any(axis=0))
