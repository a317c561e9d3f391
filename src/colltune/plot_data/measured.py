"""Decisions and predictions beside measured times."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colltune.dataset.objective import parse_objective
from colltune.domain import Collective, Configuration
from colltune.errors import say
from colltune.json_text import DescribedRecord
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.collective_model import CollectiveModel
from colltune.models.guard import HARM
from colltune.plot_data.decisions import REASONS, bounds, reasons
from colltune.selector.argmin import Decisions, ModelSelector

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
GAIN_BINS = (0.0, 1.1, 1.2, 1.5, 2.0, 4.0, np.inf)


@dataclass(frozen=True, eq=False)
class MeasuredDecisions:
    """Decisions of one collective on n measured instances; all fields but the first two (n).

    ``chosen`` are columns of ``portfolio``. ``default_s``, ``selected_s``, ``best_s`` are measured
    seconds, NaN where not measured; ``gain`` is predicted, 1 where the default is kept, ``bound``
    its lower bound, NaN where none is stated. ``trained`` tells which shapes the models were fitted
    to.
    """

    collective: Collective
    portfolio: tuple[Configuration, ...]
    nodes: Integers
    ppn: Integers
    msize_bytes: Integers
    chosen: Integers
    why: Integers
    default_s: Numbers
    selected_s: Numbers
    best_s: Numbers
    gain: Numbers
    bound: Numbers
    extrapolated: Flags
    trained: Flags

    @property
    def replaced(self) -> Flags:
        return np.array([reason.is_replaced for reason in REASONS])[self.why]

    @property
    def measured_gain(self) -> Numbers:
        """Measured t_default / t_selected, NaN where one is unknown."""
        return self.default_s / self.selected_s

    def rows(self, mask: NDArray[Any]) -> MeasuredDecisions:
        kept = {f.name: getattr(self, f.name)[mask] for f in fields(self)[2:]}
        return MeasuredDecisions(self.collective, self.portfolio, **kept)

    def merged(self, other: MeasuredDecisions) -> MeasuredDecisions:
        union = tuple(sorted({*self.portfolio, *other.portfolio}))
        both = {}
        for name in (f.name for f in fields(self)[2:]):
            parts = [getattr(self, name), getattr(other, name)]
            if name == "chosen":
                parts = [c._columns_in(union) for c in (self, other)]
            both[name] = np.concatenate(parts)
        return MeasuredDecisions(self.collective, union, **both)

    def _columns_in(self, portfolio: tuple[Configuration, ...]) -> Integers:
        at = np.array([portfolio.index(c) for c in self.portfolio], np.int64)
        return at[self.chosen]

    def summary(self) -> MeasuredSummary:
        """Return the figures over all instances whose default and choice were measured."""
        known = np.isfinite(self.default_s) & np.isfinite(self.selected_s)
        default, selected, best = (t[known] for t in (self.default_s, self.selected_s, self.best_s))
        if not known.any():
            return MeasuredSummary(len(known), 0, *[None] * 7)
        gained = float(np.log(default / selected).mean())
        possible = float(np.log(default / best).mean())
        return MeasuredSummary(
            len(known),
            int(known.sum()),
            float(np.exp(gained)),
            float(np.exp(possible)),
            gained / possible if possible > 0 else None,
            _geometric_mean(self.gain[known]),
            _geometric_mean(np.where(self.replaced, self.bound, 1.0)[known]),
            float((selected > HARM * default).mean()),
            float((selected / best).mean()),
        )


@dataclass(frozen=True)
class MeasuredSummary(DescribedRecord):
    """Figures of measured decisions, None where nothing could be told."""

    instances: int
    """measured instances"""
    compared: int
    """of these, where the default and the choice were measured"""
    speedup: float | None
    """geometric mean over the default"""
    oracle_speedup: float | None
    """the same of the fastest that was measured"""
    log_gain_share: float | None
    """ratio of the logarithms of these two"""
    predicted: float | None
    """geometric mean of the predicted gain"""
    predicted_bound: float | None
    """the same of its lower bound; null if one is not stated"""
    slower_share: float | None
    """decisions more than 5 % slower than the default"""
    mean_regret: float | None
    """mean of t_selected / t_best"""


def comparable_cells(bundle: Bundle, dataset: PerformanceDataset) -> dict[Collective, CellMatrix]:
    """Return the cells of `dataset` as `bundle` learned such ones, by collective."""
    if dataset.context != bundle.context:
        here, there = dataset.context, bundle.context
        raise say("data-of-another-context", data="the data", context=here, wanted=there)
    matrices = cell_matrices(dataset, parse_objective(bundle.objective))
    if not set(matrices) & set(bundle.collectives):
        known = f"of {', '.join(matrices) or 'no collective'} something was"
        raise say("nothing-there", what=", ".join(bundle.collectives), known=known)
    return matrices


def _gains(decisions: Decisions, default_column: int | None) -> Numbers:
    """Return the predicted gain of n choices, 1 where the default is kept or unknown."""
    if default_column is None:
        return np.ones(len(decisions.chosen))
    time_s = decisions.forecast.time_s
    rows = np.arange(len(time_s))
    return np.asarray(time_s[:, default_column] / time_s[rows, decisions.chosen])


def _geometric_mean(values: Numbers) -> float | None:
    return geometric_mean(values.tolist()) if np.isfinite(values).all() else None


def compare(selector: ModelSelector, cells: CellMatrix) -> MeasuredDecisions:
    """Return what `selector` decides on the instances of `cells`, with what was measured there."""
    collective, model = cells.collective, selector.bundle.model(cells.collective)
    portfolio = selector.portfolio(collective)
    decisions = selector.decide(collective, cells.nodes, cells.ppn, cells.msize_bytes)
    columns = {c: i for i, c in enumerate(cells.configurations)}
    times = np.hstack([cells.time_s, np.full((len(cells), 1), np.nan)])
    chosen = [columns.get(portfolio[c], -1) for c in decisions.chosen.tolist()]
    default = cells.default_column
    shapes = {(int(n), int(p)) for n, p in model.coverage.shapes}
    pairs = zip(cells.nodes.tolist(), cells.ppn.tolist(), strict=True)
    return MeasuredDecisions(
        collective,
        portfolio,
        cells.nodes,
        cells.ppn,
        cells.msize_bytes,
        decisions.chosen,
        reasons(decisions, model.default_column),
        times[:, -1 if default is None else default],
        times[np.arange(len(cells)), chosen],
        np.nanmin(cells.time_s, axis=1),
        _gains(decisions, model.default_column),
        bounds(decisions, model.default_column, selector.bundle.confirmations),
        decisions.forecast.extrapolated,
        np.array([pair in shapes for pair in pairs], np.bool_),
    )


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
        return Errors(
            np.concatenate([self.nodes, other.nodes]),
            np.concatenate([self.log_error, other.log_error]),
            np.concatenate([self.below, other.below]),
            np.concatenate([self.above, other.above]),
        )

    def by_nodes(self) -> tuple[Calibration, ...]:
        return tuple(self._of(int(count), self.nodes == count) for count in np.unique(self.nodes))

    def all(self) -> Calibration:
        return self._of(None, np.ones(len(self.nodes), np.bool_))

    def _of(self, nodes: int | None, rows: NDArray[np.bool_]) -> Calibration:
        n = int(rows.sum())
        if not n:
            return Calibration(nodes, 0, None, None, None, None)
        below, above = float(self.below[rows].mean()), float(self.above[rows].mean())
        typical = float(np.exp(np.median(np.abs(self.log_error[rows]))))
        return Calibration(nodes, n, max(0.0, 1.0 - below - above), below, above, typical)


@dataclass(frozen=True)
class Calibration(DescribedRecord):
    """Measured times beside predicted 90 % intervals; shares and factor are None without times."""

    nodes: int | None
    """null: all node counts"""
    times: int
    """how many"""
    inside: float | None
    """share inside the interval"""
    below: float | None
    """share below it"""
    above: float | None
    """share above it"""
    typical_factor: float | None
    """median factor between measured and predicted time"""


@dataclass(frozen=True)
class GainBin(DescribedRecord):
    """Replaced decisions whose predicted gain lies in a range."""

    first: float
    """predicted gain from which on"""
    last: float | None
    """up to which; null: no end"""
    decisions: int
    """how many"""
    median_predicted: float
    """gain"""
    median_measured: float
    """gain"""
    slower_share: float
    """more than 5 % slower than the default"""
    above_bound_share: float | None
    """of those with a stated lower bound, whose measured gain reaches it; null if none is stated"""


def gain_bins(comparison: MeasuredDecisions) -> tuple[GainBin, ...]:
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
                last if np.isfinite(last) else None,
                int(rows.sum()),
                float(np.median(comparison.gain[rows])),
                float(np.median(measured[rows])),
                float((measured[rows] < 1 / HARM).mean()),
                float(reached.mean()) if bounded.any() else None,
            )
        )
    return tuple(found)
