"""Variance components from differences between medians of the same cell, and of alike groups.

Groups of measurements that are alike within themselves are shapes, and blocks of days.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtri, stdtr, stdtrit

from colltune.evidence.launches import MOST_ALIKE, Z95, ends_of_variance, likeness
from colltune.evidence.repetitions import median_factor

# the median of a squared standard normal value
_MEDIAN_CHI_SQUARE = 0.454936
# standard errors of such a median of n values, times the root of n
_ERRORS_OF_MEDIAN = Z95 * 2.33
_LEAST_PAIRS = 8
_MOST_UNITS_PER_CELL = 8


@dataclass(frozen=True)
class Component:
    """How much launches (or allocations) differ, as a standard deviation of log-times."""

    sd: float | None
    """standard deviation; null: nothing is left beyond the levels below"""
    low: float
    """lower end of its 95 % interval"""
    high: float
    """upper end; an upper bound alone where sd is null"""
    variance: float
    """best guess all the same, 0 or more"""
    pairs: int
    """pairs of units on cells"""
    units: int
    """launches, or allocations"""
    typical_ratio: float
    """observed ratio of two medians of the same cell, the levels below included"""
    p95_ratio: float
    """95 % quantile of these ratios"""


def paired(table: pd.DataFrame, within: list[str], unit: str) -> pd.DataFrame:
    """Return the differences of all pairs of `unit` that measured a cell within the same `within`.

    `table` has the columns ``cell``, ``instance``, ``log_time``, ``variance`` (the sampling
    variance of ``log_time``), `unit` and `within`. The result has ``cell``, ``instance``,
    ``unit_a``, ``unit_b``, ``difference`` and ``variance``. Of a cell that was measured more often
    only the first eight units, in the order of `table`, are paired.
    """
    keys = ["cell", *within]
    some = table[table.groupby(keys).cumcount() < _MOST_UNITS_PER_CELL]
    some = some[[*keys, "instance", "log_time", "variance", unit]].rename(columns={unit: "unit"})
    both = some.merge(some.drop(columns="instance"), on=keys, suffixes=("_a", "_b"))
    both = both[both["unit_a"] < both["unit_b"]].assign(
        difference=lambda pairs: pairs["log_time_a"] - pairs["log_time_b"],
        variance=lambda pairs: pairs["variance_a"] + pairs["variance_b"],
    )
    names = ["cell", "instance", "unit_a", "unit_b", "difference", "variance"]
    return both[names].reset_index(drop=True)


def contrasts(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return, for two cells of an instance, how their ratio differs between two units.

    What a unit does to all configurations alike cancels; it does not disturb their comparison.
    """
    keys = ["instance", "unit_a", "unit_b"]
    following = pairs.groupby(keys)[["difference", "variance"]].shift(-1)
    both = pairs.assign(
        difference=pairs["difference"] - following["difference"],
        variance=pairs["variance"] + following["variance"],
    )
    return both[following["difference"].notna()].reset_index(drop=True)


def component(pairs: pd.DataFrame, per_pair: int) -> Component | None:
    """Estimate the standard deviation of a unit's own contribution; None if pairs are too few.

    `per_pair` is how many such contributions are in a difference: 2 in those of `paired`, 4 in
    those of `contrasts`. The interval is that of a variance of so many differences of units as are
    free: all cells of a unit are one witness.
    """
    if len(pairs) < _LEAST_PAIRS:
        return None
    estimate = float(np.median(_scores(pairs, per_pair)))
    ends = pairs[["unit_a", "unit_b"]].to_numpy()
    units, codes = np.unique(ends.ravel(), return_inverse=True)
    at = codes.reshape(ends.shape).T
    links = coo_array((np.ones(len(pairs)), (at[0], at[1])), (len(units), len(units)))
    freedom = len(units) - connected_components(links, directed=False)[0]
    # the medians' own scatter is another one in each cell
    sampling = max(0.0, float(np.median(pairs["variance"])) / per_pair)
    witnesses = max(1, pairs["cell"].nunique() * freedom)
    finest = _ERRORS_OF_MEDIAN * (max(estimate, 0.0) + sampling) / math.sqrt(witnesses)
    is_resolved = estimate > finest
    low, high = ends_of_variance(estimate, freedom)
    ratios = np.exp(np.abs(pairs["difference"].to_numpy()))
    return Component(
        sd=math.sqrt(estimate) if is_resolved else None,
        low=math.sqrt(low) if is_resolved else 0.0,
        high=math.sqrt(high if is_resolved else max(estimate, 0.0) + finest),
        variance=max(0.0, estimate),
        pairs=len(pairs),
        units=len(units),
        typical_ratio=float(np.median(ratios)),
        p95_ratio=float(np.quantile(ratios, 0.95)),
    )


def _scores(pairs: pd.DataFrame, per_pair: int) -> np.ndarray:
    squares = pairs["difference"].to_numpy() ** 2 / _MEDIAN_CHI_SQUARE
    return np.asarray((squares - pairs["variance"].to_numpy()) / per_pair)


def allocation_medians(table: pd.DataFrame, launch_variance: float) -> pd.DataFrame:
    """Return one row per cell and allocation: the median of its launches and that one's variance.

    `launch_variance` is that of a launch's own contribution.

    `table` has one row per cell and launch.
    """
    keys = ["cell", "instance", "allocation"]
    merged = table.groupby(keys).agg(
        log_time=("log_time", "median"), variance=("variance", "mean"), n=("log_time", "size")
    )
    factor = merged["n"].map(median_factor)
    merged["variance"] = (merged["variance"] + launch_variance) * factor
    return merged.reset_index()


class Variances(NamedTuple):
    """Variances of log-times that matter when configurations are compared; None: not known."""

    launch: float | None = None
    allocation: float | None = None

    @classmethod
    def comparing(cls, table: pd.DataFrame) -> Variances:
        """Estimate those of a table whose sampling variances are known."""
        launch = _comparing(paired(table, ["allocation"], "launch"))
        merged = allocation_medians(table, launch or 0.0)
        return cls(launch, _comparing(paired(merged, [], "allocation")))

    def or_else(self, others: Variances) -> Variances:
        """Return these, with those of `others` where one is unknown."""
        return Variances(*(b if a is None else a for a, b in zip(self, others, strict=True)))

    def of_cells(self, cells: pd.DataFrame) -> pd.Series[float]:
        """Return those of cells' medians by ``variance``, ``launches`` and ``allocations``."""
        per_launch = cells["variance"].fillna(0.0) + (self.launch or 0.0)
        from_launches = per_launch * cells["launches"].map(median_factor)
        return from_launches + (self.allocation or 0.0) * cells["allocations"].map(median_factor)


def _comparing(pairs: pd.DataFrame) -> float | None:
    for view, per_pair in ((contrasts(pairs), 4), (pairs, 2)):
        if len(view) >= _LEAST_PAIRS:
            return max(0.0, float(np.median(_scores(view, per_pair))))
    return None


LEAST_CLUSTERS = 3
BLOCK = 10
_BLOCKS_BEFORE = 3
_WORTH, _WORTH_ALONE = 3.0, 9.0
_CHANCE = 0.1
_NEXT = 0.2
_MEDIAN_VARIANCE = 1.57


def clustered(
    parts: ArrayLike, wholes: ArrayLike, clusters: ArrayLike, level: float = 0.05
) -> tuple[float, float] | None:
    """Return the ends of the interval of sum(parts) / sum(wholes); None for fewer than 3 clusters.

    Each of the arguments has shape (n); what is in one cluster counts as one witness. The variance
    is that of the ratio estimator (Cochran, Sampling Techniques, 1977, section 6), and quantiles
    are those of t with as many degrees of freedom as clusters, less one.
    """
    names, at = np.unique(np.asarray(clusters), return_inverse=True)
    k, at = len(names), at.reshape(-1)
    sums = np.bincount(at, np.asarray(parts, np.float64), k)
    sizes = np.bincount(at, np.asarray(wholes, np.float64), k)
    if k < LEAST_CLUSTERS or not np.isfinite(sums).all() or not sizes.sum() > 0:
        return None
    ratio = float(sums.sum() / sizes.sum())
    squares = float(((sums - ratio * sizes) ** 2).sum())
    error = math.sqrt(k / (k - 1) * squares) / float(sizes.sum())
    half = float(stdtrit(k - 1, 1.0 - level / 2.0)) * error
    return ratio - half, ratio + half


def level_of(attempt: int, alpha: float = 0.05) -> float:
    """Return the level of an attempt, counted from 1, so that all together have `alpha`."""
    return alpha * (1.0 - _NEXT) * _NEXT ** (attempt - 1)


class LevelChange(NamedTuple):
    """By how much a level changed, and the probability of as much if nothing has."""

    log: float
    chance: float


def changed(
    before: ArrayLike, after: ArrayLike, sd: float, error_before: float = math.nan
) -> LevelChange | None:
    """Return how the level of `after` differs from that of `before`, both in order of time.

    What follows each other is alike, so medians of blocks of up to 10 are compared. Few blocks tell
    little of how they scatter: their variance is averaged with that of values, which is the least
    and counts as three blocks, or as nine where values were seen not to be alike (moderated t:
    Smyth, Statistical Applications in Genetics and Molecular Biology 3(1), 2004). Values differ by
    `sd`, or by more where those before show it. Where there is nothing before, the level is 0 with
    the standard error `error_before`; None without anything to compare.
    """
    earlier, later = (np.asarray(values, np.float64) for values in (before, after))
    earlier, later = earlier[np.isfinite(earlier)], later[np.isfinite(later)]
    few = max(1, len(earlier) // _BLOCKS_BEFORE) if len(earlier) else BLOCK
    size = max(1, min(BLOCK, len(later), few))
    sd = _learnt(sd, earlier)
    in_order = {str(number): value for number, value in enumerate(earlier.tolist())}
    worth = _WORTH_ALONE if likeness([[in_order]]) < MOST_ALIKE else _WORTH
    old, new = _blocks(earlier, size), _blocks(later, size)
    if not len(new) or not (len(old) or error_before >= 0.0):
        return None
    least = sd**2 / size * (_MEDIAN_VARIANCE if size > 2 else 1.0)
    own = max(len(old) - 1, 0)
    spread = own * float(np.var(old, ddof=1)) if own else 0.0
    variance = max(least, (worth * least + spread) / (worth + own))
    scatter = variance * (1.0 / len(new) + (1.0 / len(old) if len(old) else 0.0))
    squared = scatter + (0.0 if len(old) else error_before**2)
    # Satterthwaite's: the error told is not estimated from the blocks
    freedom = (worth + own) * (squared / scatter) ** 2
    shift = float(np.mean(new)) - (float(np.mean(old)) if len(old) else 0.0)
    return LevelChange(shift, float(2.0 * stdtr(freedom, -abs(shift) / math.sqrt(squared))))


def _learnt(sd: float, values: NDArray[np.float64]) -> float:
    """Return by how much values scatter: by `sd`, or by what they show beyond chance (10 %)."""
    freedom = len(values) - 1
    if freedom < 1:
        return sd
    squares = freedom * float(np.var(values, ddof=1))
    return max(sd, math.sqrt(squares / float(chdtri(freedom, _CHANCE))))


def _blocks(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return medians of blocks, the latest full ones."""
    return np.asarray(np.median(values[len(values) % size :].reshape(-1, size), axis=1))
