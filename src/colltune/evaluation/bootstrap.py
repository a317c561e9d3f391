"""Bootstrap intervals of an evaluation's figures: whole shapes are drawn anew.

Instances of one shape (nodes x ppn) were measured in the same jobs and are decided alike, so that
they are no independent witnesses; a shape is drawn with all its collectives and message sizes
(Davison and Hinkley, *Bootstrap Methods and their Application*, 1997, sec. 3.8). Intervals hold the
middle 95 % of the draws. Two selectors are compared on the same draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
DRAWS = 1000
INTERVAL = (0.025, 0.975)
_LEAST_BLOCKS = 3


class Sums(NamedTuple):
    """What intervals are computed from, added up per block, each (B).

    ``instances`` counts, ``gained`` and ``possible`` add log speed-ups over the default of the
    selector and of the oracle, ``slower`` counts slow-downs, ``harmed`` those that noise does not
    explain; all by weight.
    """

    instances: Numbers
    gained: Numbers
    possible: Numbers
    slower: Numbers
    harmed: Numbers


class Drawn(NamedTuple):
    """Figures of every draw, each (draws); the share is NaN where there is nothing to gain."""

    geometric_mean_speedup: Numbers
    log_gain_share: Numbers
    slower_share: Numbers
    harm_share: Numbers


def sums(
    blocks: Integers,
    gained: Numbers,
    possible: Numbers,
    slower: NDArray[np.bool_],
    harmed: NDArray[np.bool_],
    weights: Numbers | None = None,
) -> Sums:
    """Add n instances up by their `blocks` (n), each by its weight (1 if none)."""
    if weights is None:
        weights = np.ones(len(blocks))
    numbers = np.unique(blocks, return_inverse=True)[1].reshape(-1)
    columns = (weights, weights * gained, weights * possible, weights * slower, weights * harmed)
    totals = [np.asarray(np.bincount(numbers, column), np.float64) for column in columns]
    return Sums(*totals)


def draws(n_blocks: int, seed: int) -> Numbers | None:
    """Return how often each block is in each draw, (draws, B), or None for fewer than 3 blocks."""
    if n_blocks < _LEAST_BLOCKS:
        return None
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n_blocks, np.full(n_blocks, 1.0 / n_blocks), size=DRAWS)
    return counts.astype(np.float64)


def drawn(counts: Numbers, of: Sums) -> Drawn:
    instances, gained, possible, slower, harmed = (counts @ column for column in of)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(possible > 0, gained / possible, np.nan)
    return Drawn(np.exp(gained / instances), share, slower / instances, harmed / instances)


def interval(values: Numbers) -> tuple[float, float] | None:
    """Return the ends of the interval of drawn `values`, None if there are hardly any."""
    known = values[np.isfinite(values)]
    if len(known) < DRAWS // 2:
        return None
    low, high = np.quantile(known, INTERVAL)
    return float(low), float(high)
