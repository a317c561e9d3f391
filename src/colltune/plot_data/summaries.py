"""The rows of a report's tables: decisions by run of sizes, by configuration, by shape."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from colltune.decisions import Interval
from colltune.domain import Configuration, Shape
from colltune.plot_data.decisions import REASONS, DecisionMap, Why

if TYPE_CHECKING:
    # they bring pandas, which a service would load for nothing
    from colltune.plot_data.measured import MeasuredDecisions, MeasuredSummary


@dataclass(frozen=True)
class DecisionRun:
    """What is decided for one shape from the size ``first_bytes`` to ``last_bytes``.

    ``gain`` is the predicted gain over the default at the size nearest to its geometric middle, and
    ``gains`` are the least and the largest one, of what is used or, if that is the default, of the
    fastest candidate; ``bound`` is the least of the lower bounds; None where there are none.
    """

    shape: Shape
    measured: bool
    first_bytes: int
    last_bytes: int
    configuration: Configuration
    why: Why
    extrapolated: bool
    gain: float | None
    gains: tuple[float, float] | None
    bound: float | None


@dataclass(frozen=True)
class Usage:
    """How often a configuration is used on the measured shapes and sizes, and up to where."""

    configuration: Configuration
    fields: int
    share: float
    nodes: tuple[int, int]
    msize_bytes: tuple[int, int]


@dataclass(frozen=True)
class ShapeGain:
    """Predicted, and where known measured, gains on one shape over its measured sizes.

    ``gain`` and ``bound`` are geometric means of the predicted gain and of its lower bound (1 where
    the default is kept, None if a bound is missing), ``largest`` the largest gain, at
    ``largest_bytes``.
    """

    shape: Shape
    measured: bool
    replaced_share: float
    gain: float
    bound: float | None
    largest: float
    largest_bytes: int
    outcome: MeasuredSummary | None


def decision_runs(found: DecisionMap) -> Iterator[DecisionRun]:
    """Yield the runs of equal configuration, reason and side of the measured range."""
    codes = (found.chosen * len(REASONS) + found.why) * 2 + found.extrapolated
    shapes, sizes = found.grid.shapes, found.grid.msize_bytes.tolist()
    considered = found.considered
    for shape, first, last in found.runs(codes):
        run = slice(first, last + 1)
        gains, bounds = considered[shape, run], found.bound[shape, run]
        known = gains[np.isfinite(found.default_s[shape, run])]
        stated = bounds[np.isfinite(bounds)]
        middle = Interval(sizes[first], sizes[last], found.configuration(shape, first)).middle(0)
        nearest = int(
            np.abs(
                np.log(np.maximum(found.grid.msize_bytes[run], 1)) - math.log(max(middle, 1))
            ).argmin()
        )
        yield DecisionRun(
            shapes[shape],
            bool(found.grid.known[shape]),
            sizes[first],
            sizes[last],
            found.configuration(shape, first),
            REASONS[int(found.why[shape, first])],
            bool(found.extrapolated[shape, first]),
            float(gains[nearest]) if np.isfinite(found.default_s[shape, first + nearest]) else None,
            (float(known.min()), float(known.max())) if len(known) else None,
            float(stated.min()) if len(stated) else None,
        )


def usages(found: DecisionMap) -> tuple[Usage, ...]:
    """Return what is used on the measured shapes and sizes, the most used first."""
    inside = found.inside
    rows = []
    for column in np.unique(found.chosen[inside]).tolist():
        here = inside & (found.chosen == column)
        shape, size = np.nonzero(here)
        nodes, sizes = found.grid.nodes[shape], found.grid.msize_bytes[size]
        rows.append(
            Usage(
                found.portfolio[column],
                int(here.sum()),
                float(here.sum() / inside.sum()),
                (int(nodes.min()), int(nodes.max())),
                (int(sizes.min()), int(sizes.max())),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.fields, row.configuration)))


def predicted_gain(found: DecisionMap) -> tuple[float, float | None]:
    """Return the geometric means of the predicted gain and of its lower bound.

    Over the measured shapes and sizes; the bound is 1 where the default is kept, and None if one is
    not stated.
    """
    bounds = np.where(found.replaced, found.bound, 1.0)
    gain, bound = (float(np.exp(np.log(v[found.inside]).mean())) for v in (found.gain, bounds))
    return gain, bound if np.isfinite(bound) else None


def only_predicted(found: DecisionMap) -> tuple[int, float | None, float | None]:
    """Return on how many measured instances models alone replace the default, and with what gain.

    Gains, predicted and their lower bounds, are geometric means over these; what was confirmed by
    measuring is left out.
    """
    here = found.inside & (found.why == REASONS.index(Why.GAIN))
    if not here.any():
        return 0, None, None
    gain, bound = (float(np.exp(np.log(v[here]).mean())) for v in (found.gain, found.bound))
    return int(here.sum()), gain, bound if np.isfinite(bound) else None


def reason_counts(found: DecisionMap) -> dict[Why, tuple[int, int]]:
    """Return how often each reason holds: where measured, and beyond (interpolated or outside)."""
    inside = found.inside
    return {
        reason: (int((here & inside).sum()), int((here & ~inside).sum()))
        for code, reason in enumerate(REASONS)
        if (here := found.why == code).any()
    }


def shape_gains(found: DecisionMap, comparison: MeasuredDecisions | None) -> tuple[ShapeGain, ...]:
    sizes = np.flatnonzero(found.grid.known_size)
    gain, replaced = found.gain[:, sizes], found.replaced[:, sizes]
    bound = np.where(replaced, found.bound[:, sizes], 1.0)
    rows = []
    for at, shape in enumerate(found.grid.shapes):
        largest = int(gain[at].argmax())
        mean_bound = float(np.exp(np.log(bound[at]).mean()))
        rows.append(
            ShapeGain(
                shape,
                bool(found.grid.known[at]),
                float(replaced[at].mean()),
                float(np.exp(np.log(gain[at]).mean())),
                mean_bound if np.isfinite(mean_bound) else None,
                float(gain[at, largest]),
                int(found.grid.msize_bytes[sizes[largest]]),
                _outcome(comparison, shape),
            )
        )
    return tuple(rows)


def _outcome(comparison: MeasuredDecisions | None, shape: Shape) -> MeasuredSummary | None:
    if comparison is None:
        return None
    rows = (comparison.nodes == shape.nodes) & (comparison.ppn == shape.ppn)
    return comparison.rows(rows).summary() if rows.any() else None
