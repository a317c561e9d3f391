"""Do no harm: the library's own decision is kept unless a predicted gain is beyond doubt.

A configuration is chosen if its predicted gain over the default exceeds `Guard.required_log_gain`:

* inside the measured range a small constant, since prediction is about as good as it gets there;
* outside it as much more as the model's predictions may fall short there: for ``regret_trees`` how
  far the configuration fell behind the default where the trees look, for the other learners how far
  their held-out gains fell short;
* and everywhere what noise alone can make of a gain. At a measured shape a prediction is that
  measurement, so that the gain must be one that the launches can tell apart; elsewhere it is an
  average over about ten cells.

What is asked and the doubt are divided by the *trust* in the collective's predictions: how much of
the log gains that were predicted for held-out decisions came true, or what share of the possible
gain these reached, if that is more. Where nothing did, the collective is left to the library.
Nothing is chosen far from everything measured (`Coverage.is_far`).
docs/explanation/selection.md tells how the numbers were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
HARM = 1.05
"""A decision is harm if it is slower than the default by more than this ratio and beyond noise."""


class Guard(NamedTuple):
    """How sure a decision must be.

    ``least_gain`` is the least predicted ratio for which the default is left: half of what counts
    as harm. ``caution`` multiplies that and the doubt: 0 follows every gain beyond noise, 2 asks
    for twice as much.
    """

    least_gain: float = 1.025
    caution: float = 1.0

    def __str__(self) -> str:
        return f"gains from {self.least_gain:g}x on, caution {self.caution:g}"

    def required_log_gain(self, doubt: Numbers, noise: Numbers, trust: float = 1.0) -> Numbers:
        """Return the log gain that a configuration must exceed, shape (n, C).

        Parameters
        ----------
        doubt
            By how much predicted log gains may be too high, shape (n, C).
        noise
            What noise can make of a log gain, shape (n).
        trust
            How far predicted log gains are trusted, from 0 to 1.
        """
        asked = self.caution * (np.log(self.least_gain) + doubt)
        asked = asked / trust if trust > 0 else np.full_like(asked, np.inf)
        return np.asarray(np.maximum(asked, noise[:, None]))


def allowed(gain: Numbers, required: Numbers, far: Flags) -> Flags:
    """Tell what may be chosen instead of the default, (n, C).

    `gain` (n, C) are predicted log gains, `required` (n, C) those that are asked for; nothing is
    chosen where an instance is `far` (n) from what was measured.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray((gain > required) & ~far[:, None])


def trust_in(held_out: Mapping[str, Any]) -> float:
    """Return how far predicted log gains are trusted, from 0 to 1.

    `held_out` is as `colltune.models.fitting.HeldOut.figures` has it. Where it does not tell,
    predictions are followed, unless held-out decisions were slower than the default as a whole.
    """
    trust, share = held_out.get("trust"), held_out.get("share")
    if trust is None:
        return 1.0 if share is None or share > 0 else 0.0
    return float(np.clip(trust, 0.0, 1.0))
