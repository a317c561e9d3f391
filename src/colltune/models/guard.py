"""Do no harm: the library's own decision is kept unless a predicted gain is beyond doubt.

A configuration is chosen if its predicted gain over the default exceeds `Guard.required_log_gain`:

* inside the measured range a small constant, since prediction is about as good as it gets there;
* outside it as much more as the model's predictions may fall short there: for ``regret_trees`` how
  far the configuration fell behind the default where the trees look, for the other learners how far
  their held-out gains fell short;
* and everywhere what noise alone can make of a gain. At a measured shape a prediction is that
  measurement, so that the gain must be one that the launches can tell apart; elsewhere it is an
  average over about ten cells.

Nothing is chosen far from everything measured (`Coverage.is_far`), and nothing for a collective
whose held-out decisions did more harm than `Guard.most_harm` and reached little of the gain.
docs/explanation/selection.md tells how the numbers were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
HARM = 1.05
"""A decision is harm if it is slower than the default by more than this ratio and beyond noise."""
_LEAST_INSTANCES, _ENOUGH_SHARE = 20, 0.5


class Guard(NamedTuple):
    """How sure a decision must be.

    ``least_gain`` is the least predicted ratio for which the default is left: half of what counts
    as harm. ``caution`` multiplies that and the doubt: 0 follows every gain beyond noise, 2 asks
    for twice as much. ``most_harm`` is the share of held-out decisions that may be harm before a
    collective is left to the library as a whole.
    """

    least_gain: float = 1.025
    caution: float = 1.0
    most_harm: float = 0.15

    def __str__(self) -> str:
        return (
            f"gains from {self.least_gain:g}x on, caution {self.caution:g},"
            f" held-out harm up to {self.most_harm:.0%}"
        )

    def required_log_gain(self, doubt: Numbers, noise: Numbers) -> Numbers:
        """Return the log gain that a configuration must exceed, shape (n, C).

        Parameters
        ----------
        doubt
            By how much predicted log gains may be too high, shape (n, C).
        noise
            What noise can make of a log gain, shape (n).
        """
        asked = self.caution * (np.log(self.least_gain) + doubt)
        return np.asarray(np.maximum(asked, noise[:, None]))

    def withholds(self, held_out: Mapping[str, Any]) -> bool:
        """Tell whether a collective is left to the library for its held-out decisions.

        `held_out` is as `colltune.models.fitting.HeldOut.figures` has it. Decisions that
        reached half of what was to be gained are followed for all their harm; fewer than 20 tell
        nothing.
        """
        harm, share = held_out.get("harm"), held_out.get("share")
        if harm is None or held_out.get("instances", 0) < _LEAST_INSTANCES:
            return False
        return bool(harm > self.most_harm and (share is None or share < _ENOUGH_SHARE))
