"""What the noise means for choosing between configurations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from colltune.dataset.noise.measured import median_factor
from colltune.domain import DEFAULT_ALGORITHM

TARGET = 1.05
_Z95 = 1.96
_MOST_LAUNCHES = 10_000


class Level(StrEnum):
    """Where the uncertainty of a decision comes from."""

    REPETITIONS = "repetitions"
    LAUNCHES = "launches"
    ALLOCATIONS = "allocations"


@dataclass(frozen=True)
class Variances:
    """Variances of log-times that matter when configurations are compared; None: not known."""

    launch: float | None
    allocation: float | None

    def or_else(self, others: Variances) -> Variances:
        """Return these, with those of `others` where one is unknown."""
        return Variances(
            others.launch if self.launch is None else self.launch,
            others.allocation if self.allocation is None else self.allocation,
        )


@dataclass(frozen=True)
class Decisions:
    """How well the two fastest configurations of an instance can be told apart.

    Differences are ratios minus one, medians over instances. ``is_lower_bound``: a component is
    unknown, so that the true one is larger; where all are, it is None. ``launches_here`` and
    ``allocations`` are how many a cell needs in all for 5 %: in as many allocations as now, or each
    in one of its own; None where that cannot be told or is out of reach. ``default_beaten_share``
    is the share of instances on which the fastest configuration beats the library's default by
    more than the noise.

    ``instances`` is how many were looked at, ``launches_per_cell`` and ``allocations_per_cell`` are
    means over cells; ``smallest_detectable`` is a difference, None where it cannot be told.
    """

    instances: int
    smallest_detectable: float | None
    is_lower_bound: bool
    launches_per_cell: float
    allocations_per_cell: float
    main_source: Level
    launches_here: int | None
    allocations: int | None
    default_beaten_share: float | None


def decisions(cells: pd.DataFrame, variances: Variances) -> Decisions | None:
    """Tell how well configurations can be told apart; None without two of them anywhere.

    `cells` has one row per cell: ``instance``, ``algorithm``, ``log_time`` (median over launches),
    ``variance`` (mean sampling variance of a launch's median, NaN where unknown), ``launches`` and
    ``allocations`` (how many measured it).
    """
    cells = cells.assign(error=_error_variance(cells, variances))
    ranked = cells.sort_values(["instance", "log_time"])
    ranked["rank"] = ranked.groupby("instance").cumcount()
    first = ranked[ranked["rank"] == 0].set_index("instance")
    second = ranked[ranked["rank"] == 1].set_index("instance")
    if second.empty:
        return None
    top = pd.concat([first.loc[second.index], second])
    errors = first["error"].loc[second.index] + second["error"]
    is_known = bool((errors > 0).any())
    typical = _Typical.of(top)
    return Decisions(
        instances=len(second),
        smallest_detectable=float(np.median(_detectable(errors))) if is_known else None,
        is_lower_bound=None in (variances.launch, variances.allocation)
        or bool(top["variance"].isna().any()),
        launches_per_cell=typical.launches,
        allocations_per_cell=typical.allocations,
        main_source=_main_source(typical, variances),
        default_beaten_share=_default_beaten_share(first, ranked) if is_known else None,
        launches_here=_launches_here(typical, variances),
        allocations=_allocations(typical, variances),
    )


@dataclass(frozen=True)
class _Typical:
    """The median cell among the two fastest of each instance."""

    sampling: float
    launches: float
    allocations: float

    @classmethod
    def of(cls, cells: pd.DataFrame) -> _Typical:
        """Take the medians; an unknown sampling variance counts as none."""
        sampling = cells["variance"].fillna(0.0)
        return cls(
            *(float(x.median()) for x in (sampling, cells["launches"], cells["allocations"]))
        )


def _error_variance(cells: pd.DataFrame, variances: Variances) -> pd.Series[float]:
    per_launch = cells["variance"].fillna(0.0) + (variances.launch or 0.0)
    from_launches = per_launch * cells["launches"].map(median_factor)
    from_allocations = (variances.allocation or 0.0) * cells["allocations"].map(median_factor)
    return from_launches + from_allocations


def _detectable(variance: pd.Series[float]) -> np.ndarray:
    return np.asarray(np.expm1(_Z95 * np.sqrt(variance.to_numpy(float))))


def _target_variance() -> float:
    """Return the variance of one of two medians that lets a ratio of `TARGET` be seen."""
    return (math.log(TARGET) / _Z95) ** 2 / 2


def _launches_here(typical: _Typical, variances: Variances) -> int | None:
    if variances.launch is None:
        return None
    allocation = (variances.allocation or 0.0) * median_factor(typical.allocations)
    return _needed(variances.launch + typical.sampling, _target_variance() - allocation)


def _allocations(typical: _Typical, variances: Variances) -> int | None:
    if variances.allocation is None:
        return None
    each = variances.allocation + (variances.launch or 0.0) + typical.sampling
    return _needed(each, _target_variance())


def _needed(variance: float, allowed: float) -> int | None:
    """Return of how many values a median has at most the variance `allowed`."""
    if allowed <= 0:
        return None
    if variance <= allowed:
        return 1
    n = math.ceil((math.pi * variance / allowed - math.pi + 2) / 2)
    return n if n <= _MOST_LAUNCHES else None


def _main_source(typical: _Typical, variances: Variances) -> Level:
    by_launches = median_factor(typical.launches)
    parts = {
        Level.REPETITIONS: typical.sampling * by_launches,
        Level.LAUNCHES: (variances.launch or 0.0) * by_launches,
        Level.ALLOCATIONS: (variances.allocation or 0.0) * median_factor(typical.allocations),
    }
    return max(parts, key=lambda level: parts[level])


def _default_beaten_share(first: pd.DataFrame, ranked: pd.DataFrame) -> float | None:
    default = ranked[ranked["algorithm"] == DEFAULT_ALGORITHM].set_index("instance")
    if default.empty:
        return None
    best = first.loc[default.index]
    gain = default["log_time"] - best["log_time"]
    noise = _Z95 * np.sqrt(default["error"] + best["error"])
    return float((gain > noise).mean())
