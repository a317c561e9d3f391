"""What groups of measurements tell that are alike within themselves: shapes, and blocks of days."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, stdtr, stdtrit

from colltune.evidence.launches import MOST_ALIKE, likeness

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
