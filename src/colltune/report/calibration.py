"""Whether predicted intervals and gains hold what they promise."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from colltune.models.cells import CellMatrix
from colltune.models.guard import HARM
from colltune.models.runtime_model import CollectiveModel
from colltune.report.measured import Comparison

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
GAIN_BINS = (0.0, 1.1, 1.2, 1.5, 2.0, 4.0, np.inf)
PROMISED = 0.9
"""Share of measured times that an interval is to hold."""


@dataclass(frozen=True, eq=False)
class Errors:
    """N measured times beside their predicted intervals, each field (N).

    ``log_error`` is log(measured / predicted), ``below`` and ``above`` where the measured time is
    outside the 90 % interval.
    """

    nodes: Integers
    log_error: Numbers
    below: NDArray[np.bool_]
    above: NDArray[np.bool_]

    @classmethod
    def of(cls, model: CollectiveModel, cells: CellMatrix) -> Errors:
        """Predict all measured cells whose configuration `model` knows."""
        forecast = model.forecast(cells.nodes, cells.ppn, cells.msize_bytes)
        pairs = [
            (i, model.configurations.index(c))
            for i, c in enumerate(cells.configurations)
            if c in model.configurations
        ]
        at, columns = (
            np.array(v, np.int64) for v in (zip(*pairs, strict=True) if pairs else ((), ()))
        )
        measured_s = cells.time_s[:, at]
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.log(measured_s / forecast.time_s[:, columns])
        known = np.isfinite(errors)
        nodes = np.broadcast_to(cells.nodes[:, None], measured_s.shape)
        return cls(
            nodes[known],
            errors[known],
            (measured_s < forecast.lower_s[:, columns])[known],
            (measured_s > forecast.upper_s[:, columns])[known],
        )

    def merged(self, other: Errors) -> Errors:
        """Return both together."""
        return Errors(
            np.concatenate([self.nodes, other.nodes]),
            np.concatenate([self.log_error, other.log_error]),
            np.concatenate([self.below, other.below]),
            np.concatenate([self.above, other.above]),
        )

    def by_nodes(self) -> tuple[Calibration, ...]:
        """Return the figures of each node count, ascending."""
        return tuple(self._of(int(count), self.nodes == count) for count in np.unique(self.nodes))

    def all(self) -> Calibration:
        """Return the figures of all node counts together."""
        return self._of(None, np.ones(len(self.nodes), np.bool_))

    def _of(self, nodes: int | None, rows: NDArray[np.bool_]) -> Calibration:
        n = int(rows.sum())
        if not n:
            return Calibration(nodes, 0, None, None, None, None)
        below, above = float(self.below[rows].mean()), float(self.above[rows].mean())
        typical = float(np.exp(np.median(np.abs(self.log_error[rows]))))
        return Calibration(nodes, n, max(0.0, 1.0 - below - above), below, above, typical)


@dataclass(frozen=True)
class Calibration:
    """Of ``times`` measured on ``nodes`` (None: all), the shares inside, below and above.

    ``typical_factor`` is the median factor between measured and predicted time. Shares and factor
    are None without times.
    """

    nodes: int | None
    times: int
    inside: float | None
    below: float | None
    above: float | None
    typical_factor: float | None


@dataclass(frozen=True)
class GainBin:
    """Replaced decisions whose predicted gain lies from ``first`` to below ``last``.

    ``median_predicted`` and ``median_measured`` are gains, ``slower_share`` the share more than 5 %
    slower than the default, ``above_bound_share`` the share of those with a stated lower bound
    whose measured gain reaches it, None if no bound is stated.
    """

    first: float
    last: float
    decisions: int
    median_predicted: float
    median_measured: float
    slower_share: float
    above_bound_share: float | None


def gain_bins(comparison: Comparison) -> tuple[GainBin, ...]:
    """Return predicted beside measured gains of replaced decisions, by predicted gain."""
    measured = comparison.measured_gain
    known = comparison.replaced & np.isfinite(measured)
    found = []
    for first, last in pairwise(GAIN_BINS):
        rows = known & (comparison.gain >= first) & (comparison.gain < last)
        if not rows.any():
            continue
        bounded = rows & np.isfinite(comparison.bound)
        reached = measured[bounded] >= comparison.bound[bounded]
        found.append(
            GainBin(
                first,
                last,
                int(rows.sum()),
                float(np.median(comparison.gain[rows])),
                float(np.median(measured[rows])),
                float((measured[rows] < 1 / HARM).mean()),
                float(reached.mean()) if bounded.any() else None,
            )
        )
    return tuple(found)
