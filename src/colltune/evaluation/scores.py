"""The figures of decisions on tested instances, alone and compared with those of another selector.

Intervals of 95 % count shapes (`colltune.evidence.components`). Instances of one shape (nodes x
ppn) were measured in the same jobs and are decided alike, so that they are no independent
witnesses.
Two selectors are compared instance by instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.evidence.components import clustered
from colltune.models.guard import HARM

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Ends = tuple[float, float] | None
ALL = "all"
_NOISE_SDS = 2.0


@dataclass(frozen=True, eq=False)
class EvaluatedInstances:
    """N tested instances, in the order of the folds; the same instance may be in several.

    ``collective`` and ``fold`` (n) are names; ``default_s`` and ``best_s`` measured seconds;
    ``best`` the ids of the configurations measured fastest.
    """

    collective: tuple[str, ...]
    fold: tuple[str, ...]
    nodes: Integers
    ppn: Integers
    msize_bytes: Integers
    default_s: Numbers
    best_s: Numbers
    best: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def collectives(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.collective)))

    def of(self, collective: str | None) -> Flags:
        """Tell which instances are of `collective`, all for None."""
        if collective is None:
            return np.ones(len(self), np.bool_)
        return np.array([c == collective for c in self.collective], np.bool_)

    def blocks(self) -> Integers:
        """Return the number of each instance's shape, shape (n): what is one witness together."""
        pairs = np.column_stack([self.nodes, self.ppn])
        return np.asarray(np.unique(pairs, axis=0, return_inverse=True)[1], np.int64).reshape(-1)


@dataclass(frozen=True, eq=False)
class Decided:
    """What one recipe chose for n tested instances.

    ``configuration`` (n) are ids, ``selected_s`` their measured seconds, ``kept`` whether that is
    the default. ``unmeasured`` (n) tells choices without a time on their instance, which count as
    the default's time: a library that is asked for what it cannot run decides itself. ``noise`` (n)
    is the standard deviation of log(selected_s / default_s) that the data let expect from chance,
    NaN where they do not tell. ``fit_s`` and ``predict_s`` are seconds spent by collective;
    ``learner`` tells that this is one of those asked for, not a baseline. ``confirm_s`` are the
    seconds of measuring by which decisions were confirmed, ``exhaustive_s`` those of measuring
    everything on the instances; both are empty where nothing was confirmed.
    """

    configuration: tuple[str, ...]
    selected_s: Numbers
    kept: Flags
    unmeasured: Flags
    noise: Numbers
    fit_s: Mapping[str, float]
    predict_s: Mapping[str, float]
    learner: bool
    confirm_s: Mapping[str, float] = field(default_factory=dict)
    exhaustive_s: Mapping[str, float] = field(default_factory=dict)


class LogGains(NamedTuple):
    """One selector's decisions on n instances: log speed-ups over the default, and harm.

    ``gained`` are those of the selector, ``possible`` of the oracle; ``slower`` are slow-downs,
    ``harmed`` those that noise does not explain. What has one of ``blocks`` (n) is one witness.
    """

    blocks: Integers
    gained: Numbers
    possible: Numbers
    slower: Flags
    harmed: Flags

    @classmethod
    def of(cls, tested: EvaluatedInstances, decided: Decided, rows: Flags) -> LogGains:
        slower, harmed = slowed(tested, decided)
        return cls(
            tested.blocks()[rows],
            np.log(tested.default_s / decided.selected_s)[rows],
            np.log(tested.default_s / tested.best_s)[rows],
            slower[rows],
            harmed[rows],
        )

    def ends(self, figure: Numbers | Flags, of: Numbers | None = None, level: float = 0.05) -> Ends:
        """Return the interval of the mean of `figure`, or of its share of `of`, both (n)."""
        whole = np.ones(len(self.gained)) if of is None else of
        return clustered(np.asarray(figure, np.float64), whole, self.blocks, level)

    def ends_of_share(self, share: Flags) -> Ends:
        """Return the interval of a share; None where it is 0, which says nothing of its scatter."""
        ends = self.ends(share) if share.any() else None
        return ends and (max(0.0, ends[0]), min(1.0, ends[1]))


def _speedup(ends: Ends) -> Ends:
    return ends and (float(np.exp(ends[0])), float(np.exp(ends[1])))


@dataclass(frozen=True)
class Score:
    """Figures of one selector on one collective, or on all together.

    Speed-ups are t_default / t_selected, regret is t_selected / t_best. Intervals are over the
    shapes tested, None for fewer than three; those of shares of instances are None where the share
    is 0, too: what was never seen has no scatter, which does not mean that it never happens.
    """

    instances: int
    """instances that were decided"""
    shapes: int
    """shapes that they are on"""
    arithmetic_mean_speedup: float
    """mean of default's over selected runtime"""
    geometric_mean_speedup: float
    """geometric mean of the same"""
    geometric_mean_speedup_interval: Ends
    """its 95 % interval"""
    oracle_arithmetic_mean_speedup: float
    """the mean that the fastest configurations would reach"""
    oracle_geometric_mean_speedup: float
    """the geometric mean that they would reach"""
    log_gain_share: float | None
    """share of the possible logarithmic gain; null: there is nothing to gain"""
    log_gain_share_interval: Ends
    """its 95 % interval"""
    mean_regret: float
    """mean of selected over best runtime"""
    p95_regret: float
    """95 % quantile of the same"""
    slower_share: float
    """share of instances more than 5 % slower than the default"""
    slower_share_interval: Ends
    """its 95 % interval"""
    mean_slowdown: float | None
    """mean of selected over default's runtime among those; null: there are none"""
    worst_slowdown: float | None
    """the largest one"""
    harm_share: float
    """share that is slower by more than twice the noise of the two times, too; unknown noise counts
    as none"""
    harm_share_interval: Ends
    """its 95 % interval"""
    unmeasured: int
    """choices without a measurement, counted as the default"""
    default_share: float
    """share of instances that are left to the default"""
    fit_s: float
    """time that fitting took"""
    predict_s: float
    """time that deciding took"""
    confirm_cost: float | None = None
    """time of measuring that confirmed the decisions over that of measuring everything (500
    repetitions or half a second each); null: nothing was confirmed"""


def scores(tested: EvaluatedInstances, decided: Decided) -> dict[str, Score]:
    """Return the figures of one selector by collective, and of `ALL`."""
    found = {c: _score(tested, decided, c) for c in tested.collectives}
    return found | {ALL: _score(tested, decided, None)}


def slowed(tested: EvaluatedInstances, decided: Decided) -> tuple[Flags, Flags]:
    """Tell which decisions are slower than the default, and which are harm; both (n)."""
    ratio = decided.selected_s / tested.default_s
    slower = ratio > HARM
    return slower, slower & (np.log(ratio) > _NOISE_SDS * np.nan_to_num(decided.noise))


def _score(tested: EvaluatedInstances, decided: Decided, collective: str | None) -> Score:
    rows = tested.of(collective)
    selected, default, best = (
        times[rows] for times in (decided.selected_s, tested.default_s, tested.best_s)
    )
    found = LogGains.of(tested, decided, rows)
    slower, harmed = found.slower, found.harmed
    slowdowns = (selected / default)[slower]
    possible_sum = float(found.possible.sum())
    names = tested.collectives if collective is None else (collective,)
    exhaustive_s = sum(decided.exhaustive_s.get(name, 0.0) for name in names)
    return Score(
        instances=len(selected),
        shapes=len(np.unique(found.blocks)),
        arithmetic_mean_speedup=float(np.mean(default / selected)),
        geometric_mean_speedup=float(np.exp(float(np.mean(found.gained)))),
        geometric_mean_speedup_interval=_speedup(found.ends(found.gained)),
        oracle_arithmetic_mean_speedup=float(np.mean(default / best)),
        oracle_geometric_mean_speedup=float(np.exp(float(np.mean(found.possible)))),
        log_gain_share=_over(float(found.gained.sum()), possible_sum),
        log_gain_share_interval=found.ends(found.gained, found.possible),
        mean_regret=float(np.mean(selected / best)),
        p95_regret=float(np.quantile(selected / best, 0.95)),
        slower_share=float(np.mean(slower)),
        slower_share_interval=found.ends_of_share(slower),
        mean_slowdown=float(slowdowns.mean()) if len(slowdowns) else None,
        worst_slowdown=float(slowdowns.max()) if len(slowdowns) else None,
        harm_share=float(np.mean(harmed)),
        harm_share_interval=found.ends_of_share(harmed),
        unmeasured=int(decided.unmeasured[rows].sum()),
        default_share=float(np.mean(decided.kept[rows])),
        fit_s=sum(decided.fit_s.get(name, 0.0) for name in names),
        predict_s=sum(decided.predict_s.get(name, 0.0) for name in names),
        confirm_cost=_over(sum(decided.confirm_s.get(name, 0.0) for name in names), exhaustive_s),
    )


def _over(part: float, total: float) -> float | None:
    return part / total if total > 0 else None


@dataclass(frozen=True)
class Difference:
    """How much better the second of two selectors is on one collective, or on all.

    Intervals are of the paired difference, None for fewer than three shapes; that of harm also
    without any harm.
    """

    collective: str
    """collective, or all"""
    instances: int
    """instances that both decided"""
    shapes: int
    """shapes that they are on"""
    speedup: float
    """geometric mean of the other's runtime over its own"""
    speedup_interval: Ends
    """its 95 % interval"""
    share: float | None
    """difference of the shares of the logarithmic gain"""
    share_interval: Ends
    """its 95 % interval"""
    harm: float
    """difference of the shares of harm"""
    harm_interval: Ends
    """its 95 % interval"""
    better: float
    """share of instances on which it is more than 5 % faster"""
    worse: float
    """share of instances on which it is more than 5 % slower"""


def differences(
    tested: EvaluatedInstances, first: Decided, second: Decided, level: float = 0.05
) -> tuple[Difference, ...]:
    """Compare two selectors that decided the same instances; `level` is that of all together."""
    found = [_difference(tested, first, second, name, 0.05) for name in tested.collectives]
    return (*found, _difference(tested, first, second, None, level))


def _difference(
    tested: EvaluatedInstances,
    first: Decided,
    second: Decided,
    collective: str | None,
    level: float,
) -> Difference:
    rows = tested.of(collective)
    one, other = (LogGains.of(tested, decided, rows) for decided in (first, second))
    total = float(one.possible.sum())
    faster = other.gained - one.gained
    harm = other.harmed.astype(float) - one.harmed
    is_harm = one.harmed.any() or other.harmed.any()
    ratio = second.selected_s[rows] / first.selected_s[rows]
    return Difference(
        collective=ALL if collective is None else collective,
        instances=len(ratio),
        shapes=len(np.unique(one.blocks)),
        speedup=float(np.exp(faster.mean())),
        speedup_interval=_speedup(one.ends(faster, level=level)),
        share=_over(float(faster.sum()), total),
        share_interval=one.ends(faster, one.possible, level),
        harm=float(harm.mean()),
        harm_interval=one.ends(harm, level=level) if is_harm else None,
        better=float((ratio * HARM < 1).mean()),
        worse=float((ratio > HARM).mean()),
    )
