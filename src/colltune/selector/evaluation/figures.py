"""The figures of an evaluation, per selector and collective and over all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune.selector.evaluation import bootstrap
from colltune.selector.evaluation.outcomes import Decided, Instances

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
ALL = "all"
HARM = 1.05
"""A decision is counted as harm if it is slower than the default by more than this ratio."""
_Z95 = 1.96
Ends = tuple[float, float] | None


@dataclass(frozen=True)
class Score:
    """Figures of one selector on one collective, or on all together.

    Speed-ups are t_default / t_selected, regret is t_selected / t_best; ``log_gain_share`` is the
    log of the geometric-mean speed-up over that of the oracle, None if there is nothing to gain.

    ``slower_share`` is the share of instances more than 5 % slower than the default;
    ``mean_slowdown`` and ``worst_slowdown`` are t_selected / t_default among those, None if there
    are none. ``slower_beyond_noise_share`` counts of these only what chance explains in fewer than
    one of 20 cases (beyond 1.96 standard deviations of the two times' noise), among the
    ``noise_known`` instances whose noise the data tell; None if there are none.
    ``default_share`` is that of instances left to the default.

    ``*_interval`` are the ends of 95 % bootstrap intervals over the ``shapes`` tested, None for
    fewer than three of them; see `bootstrap`. That of ``slower_share`` is None without any
    slow-down, too: what was never seen cannot be drawn, which does not mean that it never happens.

    ``arithmetic_mean_speedup`` and ``geometric_mean_speedup`` are means over the ``instances``, and
    ``oracle_arithmetic_mean_speedup`` and ``oracle_geometric_mean_speedup`` what the fastest
    configurations would reach; ``mean_regret`` and ``p95_regret`` (95 % quantile) are of regrets.
    ``fit_s`` and ``predict_s`` are the seconds that fitting and deciding took.
    """

    instances: int
    shapes: int
    arithmetic_mean_speedup: float
    geometric_mean_speedup: float
    geometric_mean_speedup_interval: Ends
    oracle_arithmetic_mean_speedup: float
    oracle_geometric_mean_speedup: float
    log_gain_share: float | None
    log_gain_share_interval: Ends
    mean_regret: float
    p95_regret: float
    slower_share: float
    slower_share_interval: Ends
    mean_slowdown: float | None
    worst_slowdown: float | None
    slower_beyond_noise_share: float | None
    noise_known: int
    default_share: float
    fit_s: float
    predict_s: float

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, JSON-able."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.__dict__.items()
        }


def scores(tested: Instances, decided: Decided, seed: int) -> dict[str, Score]:
    """Return the figures of one selector by collective, and of `ALL`; `seed` draws intervals."""
    found = {c: _score(tested, decided, c, seed) for c in tested.collectives}
    return found | {ALL: _score(tested, decided, None, seed)}


def _score(tested: Instances, decided: Decided, collective: str | None, seed: int) -> Score:
    rows = tested.of(collective)
    selected, default, best = (
        times[rows] for times in (decided.selected_s, tested.default_s, tested.best_s)
    )
    gains, possible = np.log(default / selected), np.log(default / best)
    slower = selected > HARM * default
    regret = selected / best
    blocks = tested.blocks()[rows]
    ends = _intervals(bootstrap.sums(blocks, gains, possible, slower), seed)
    beyond, known = _beyond_noise(gains, slower, decided.noise[rows])
    slowdowns = (selected / default)[slower]
    names = tested.collectives if collective is None else (collective,)
    return Score(
        instances=len(selected),
        shapes=len(np.unique(blocks)),
        arithmetic_mean_speedup=float((default / selected).mean()),
        geometric_mean_speedup=float(np.exp(gains.mean())),
        geometric_mean_speedup_interval=ends[0],
        oracle_arithmetic_mean_speedup=float((default / best).mean()),
        oracle_geometric_mean_speedup=float(np.exp(possible.mean())),
        log_gain_share=float(gains.sum() / possible.sum()) if possible.sum() > 0 else None,
        log_gain_share_interval=ends[1],
        mean_regret=float(regret.mean()),
        p95_regret=float(np.quantile(regret, 0.95)),
        slower_share=float(slower.mean()),
        slower_share_interval=ends[2],
        mean_slowdown=float(slowdowns.mean()) if len(slowdowns) else None,
        worst_slowdown=float(slowdowns.max()) if len(slowdowns) else None,
        slower_beyond_noise_share=beyond,
        noise_known=known,
        default_share=float(decided.kept[rows].mean()),
        fit_s=sum(decided.fit_s.get(name, 0.0) for name in names),
        predict_s=sum(decided.predict_s.get(name, 0.0) for name in names),
    )


def _intervals(sums: bootstrap.Sums, seed: int) -> tuple[Ends, Ends, Ends]:
    counts = bootstrap.draws(len(sums.instances), seed)
    if counts is None:
        return None, None, None
    drawn = bootstrap.drawn(counts, sums)
    return (
        bootstrap.interval(drawn.geometric_mean_speedup),
        bootstrap.interval(drawn.log_gain_share),
        bootstrap.interval(drawn.slower_share) if sums.slower.any() else None,
    )


def _beyond_noise(gains: Numbers, slower: Flags, noise: Numbers) -> tuple[float | None, int]:
    """Return the share that is slower beyond noise, and of how many instances noise is known."""
    known = np.isfinite(noise)
    if not known.any():
        return None, 0
    beyond = slower[known] & (-gains[known] > _Z95 * noise[known])
    return float(beyond.mean()), int(known.sum())
