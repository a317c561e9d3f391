"""Fitted models of one collective, predicting all configurations at once; numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colltune.domain import Collective, Configuration
from colltune.features import feature_set
from colltune.models.coverage import Coverage
from colltune.models.error_model import UNKNOWN_SHORTFALL, ErrorModel
from colltune.models.learners import Predictor
from colltune.models.learners.regret_trees import Forest

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
_CELLS = 10


class Forecast(NamedTuple):
    """Predictions for n instances and C configurations.

    ``time_s``, ``lower_s``, ``upper_s`` (n, C) are seconds; ``candidate`` (n, C) tells which
    configurations may be chosen there; ``extrapolated`` (n) which instances lie outside the
    measured range, ``far`` (n) which too far outside; ``doubt`` (n, C) by how much log gains over
    the default may be too high, ``noise`` (n) what noise alone can make of one.
    """

    time_s: Numbers
    lower_s: Numbers
    upper_s: Numbers
    candidate: Flags
    extrapolated: Flags
    far: Flags
    doubt: Numbers
    noise: Numbers


@dataclass(frozen=True, eq=False)
class CollectiveModel:
    """The runtime models of one collective's configurations, which share learner and features."""

    collective: Collective
    configurations: tuple[Configuration, ...]
    learner: str
    feature_set: str
    predictor: Predictor
    coverage: Coverage
    error: ErrorModel

    @property
    def default_column(self) -> int | None:
        """Column of the library's own decision, or None if it was not measured."""
        column = self.coverage.default_column
        return None if column < 0 else column

    def forecast(self, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike) -> Forecast:
        """Predict all configurations for n instances (vectors of equal length, or scalars)."""
        vectors = (np.atleast_1d(np.asarray(v, np.int64)) for v in (nodes, ppn, msize_bytes))
        instances = np.broadcast_arrays(*vectors)
        features = feature_set(self.feature_set).matrix(*instances)
        extrapolated = self.coverage.extrapolated(*instances)
        # inside the range there is none for forests, which tell it by instance
        inside = 0.0 if isinstance(self.predictor, Forest) else 1.0
        doubt = np.tile(inside * self.error.shortfall, (len(features), 1))
        if extrapolated.any():
            # before the times, which a forest then has at hand
            doubt = np.where(extrapolated[:, None], self._doubt_outside(features), doubt)
        time_s = _rounded(self.predictor.predict(features))
        # what is not of a measured shape is an average over about ten cells
        cells = np.where(self.coverage.has_shape(*instances[:2]), 1, _CELLS)
        return Forecast(
            time_s,
            time_s * np.exp(self.error.lower),
            time_s * np.exp(self.error.upper),
            self.coverage.candidates(*instances),
            extrapolated,
            self.coverage.is_far(*instances),
            doubt,
            self.error.detectable / np.sqrt(cells),
        )

    def doubt(self, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike) -> Numbers:
        """Return how far gains may fall short outside the measured range, (n, C), as log ratios."""
        return self._doubt_outside(feature_set(self.feature_set).matrix(nodes, ppn, msize_bytes))

    def _doubt_outside(self, features: Numbers) -> Numbers:
        if self.default_column is None or not isinstance(self.predictor, Forest):
            return np.maximum(self.error.shortfall, UNKNOWN_SHORTFALL)[None, :]
        behind = self.predictor.shortfall(features, self.default_column)
        # trees do not tell how machines differ
        return behind if self.coverage.own is None else np.maximum(behind, UNKNOWN_SHORTFALL)


def _rounded(time_s: Numbers) -> Numbers:
    """Return numbers rounded to 40 binary digits, so that what ties does so on any processor."""
    last = 1 << 13
    return ((time_s.view(np.int64) + last // 2) & -last).view(np.float64)
