"""The figures of an evaluation, per selector and collective and over all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune.evaluation import bootstrap
from colltune.evaluation.outcomes import Decided, Instances
from colltune.models.guard import HARM

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
ALL = "all"
_NOISE_SDS = 2.0
Ends = tuple[float, float] | None


@dataclass(frozen=True)
class Score:
    """Figures of one selector on one collective, or on all together.

    Speed-ups are t_default / t_selected, regret is t_selected / t_best; ``log_gain_share`` is the
    log of the geometric-mean speed-up over that of the oracle, None if there is nothing to gain.

    ``slower_share`` is the share of instances more than 5 % slower than the default;
    ``mean_slowdown`` and ``worst_slowdown`` are t_selected / t_default among those, None if there
    are none. ``harm_share`` counts of these only what is slower by more than twice the noise of the
    two times, too; noise that the data do not tell counts as none. ``default_share`` is that of
    instances left to the default, ``unmeasured`` the number of choices that were not measured on
    their instance and count as the default's time.

    ``*_interval`` are the ends of 95 % bootstrap intervals over the ``shapes`` tested, None for
    fewer than three of them; see `bootstrap`. Those of ``slower_share`` and ``harm_share`` are None
    where the share is 0, too: what was never seen cannot be drawn, which does not mean that it
    never happens.

    ``arithmetic_mean_speedup`` and ``geometric_mean_speedup`` are means over the ``instances``, and
    ``oracle_arithmetic_mean_speedup`` and ``oracle_geometric_mean_speedup`` what the fastest
    configurations would reach; ``mean_regret`` and ``p95_regret`` (95 % quantile) are of regrets.
    ``fit_s`` and ``predict_s`` are the seconds that fitting and deciding took.

    Where instances have weights, all means, shares and quantiles are by weight. ``time_saved`` is
    the share of the application's time on them that the decisions save, None without weights;
    ``oracle_time_saved`` what the fastest configurations would. ``confirm_cost`` are the seconds of
    measuring that confirmed the decisions, as a share of those that measure everything (500
    repetitions or half a second each), None where nothing was confirmed.
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
    harm_share: float
    harm_share_interval: Ends
    unmeasured: int
    default_share: float
    fit_s: float
    predict_s: float
    time_saved: float | None = None
    oracle_time_saved: float | None = None
    confirm_cost: float | None = None

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


def slowed(tested: Instances, decided: Decided) -> tuple[Flags, Flags]:
    """Tell which decisions are slower than the default, and which are harm; both (n)."""
    ratio = decided.selected_s / tested.default_s
    slower = ratio > HARM
    return slower, slower & (np.log(ratio) > _NOISE_SDS * np.nan_to_num(decided.noise))


def _score(tested: Instances, decided: Decided, collective: str | None, seed: int) -> Score:
    rows = tested.of(collective)
    selected, default, best = (
        times[rows] for times in (decided.selected_s, tested.default_s, tested.best_s)
    )
    gains, possible = np.log(default / selected), np.log(default / best)
    slower, harmed = (flags[rows] for flags in slowed(tested, decided))
    regret = selected / best
    blocks, weights = tested.blocks()[rows], tested.weights[rows]
    ends = _intervals(bootstrap.sums(blocks, gains, possible, slower, harmed, weights), seed)
    slowdowns = (selected / default)[slower]
    possible_sum = float((weights * possible).sum())
    names = tested.collectives if collective is None else (collective,)
    return Score(
        instances=len(selected),
        shapes=len(np.unique(blocks)),
        arithmetic_mean_speedup=_mean(default / selected, weights),
        geometric_mean_speedup=float(np.exp(_mean(gains, weights))),
        geometric_mean_speedup_interval=ends[0],
        oracle_arithmetic_mean_speedup=_mean(default / best, weights),
        oracle_geometric_mean_speedup=float(np.exp(_mean(possible, weights))),
        log_gain_share=float((weights * gains).sum()) / possible_sum if possible_sum > 0 else None,
        log_gain_share_interval=ends[1],
        mean_regret=_mean(regret, weights),
        p95_regret=_quantile(regret, tested.weight if tested.weight is None else weights, 0.95),
        slower_share=_mean(slower, weights),
        slower_share_interval=ends[2],
        mean_slowdown=_mean(slowdowns, weights[slower]) if len(slowdowns) else None,
        worst_slowdown=float(slowdowns.max()) if len(slowdowns) else None,
        harm_share=_mean(harmed, weights),
        harm_share_interval=ends[3],
        unmeasured=int(decided.unmeasured[rows].sum()),
        default_share=_mean(decided.kept[rows], weights),
        fit_s=sum(decided.fit_s.get(name, 0.0) for name in names),
        predict_s=sum(decided.predict_s.get(name, 0.0) for name in names),
        time_saved=_saved(selected / default, tested, weights),
        oracle_time_saved=_saved(best / default, tested, weights),
        confirm_cost=_confirm_cost(decided, names),
    )


def _mean(values: Numbers | Flags, weights: Numbers) -> float:
    return float(np.average(values, weights=weights))


def _confirm_cost(decided: Decided, names: Sequence[str]) -> float | None:
    exhaustive_s = sum(decided.exhaustive_s.get(name, 0.0) for name in names)
    return sum(decided.confirm_s[name] for name in names) / exhaustive_s if exhaustive_s else None


def _saved(kept: Numbers, tested: Instances, weights: Numbers) -> float | None:
    """Return the share of the time saved where the share `kept` of each instance's is left."""
    return None if tested.weight is None else 1.0 - _mean(kept, weights)


def _quantile(values: Numbers, weights: Numbers | None, share: float) -> float:
    if weights is None:
        return float(np.quantile(values, share))
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, share * below[-1])])


def _intervals(sums: bootstrap.Sums, seed: int) -> tuple[Ends, Ends, Ends, Ends]:
    counts = bootstrap.draws(len(sums.instances), seed)
    if counts is None:
        return None, None, None, None
    drawn = bootstrap.drawn(counts, sums)
    return (
        bootstrap.interval(drawn.geometric_mean_speedup),
        bootstrap.interval(drawn.log_gain_share),
        bootstrap.interval(drawn.slower_share) if sums.slower.any() else None,
        bootstrap.interval(drawn.harm_share) if sums.harmed.any() else None,
    )
