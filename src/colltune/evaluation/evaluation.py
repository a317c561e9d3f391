"""One evaluation: a split of a dataset, what was decided on it, and the figures of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colltune.dataset.objective import Objective
from colltune.domain import Context
from colltune.evaluation import bootstrap
from colltune.models.guard import HARM

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Instances:
    """N tested instances, in the order of the folds; the same instance may be in several.

    ``collective`` and ``fold`` (n) are names; ``default_s`` and ``best_s`` measured seconds;
    ``best`` the ids of the configurations measured fastest. ``weight`` (n) is how much each counts,
    the mean 1; None: all as much.
    """

    collective: tuple[str, ...]
    fold: tuple[str, ...]
    nodes: Integers
    ppn: Integers
    msize_bytes: Integers
    default_s: Numbers
    best_s: Numbers
    best: tuple[str, ...]
    weight: Numbers | None = None

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

    @property
    def weights(self) -> Numbers:
        """How much each instance counts, shape (n)."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def blocks(self) -> Integers:
        """Return the number of each instance's shape, shape (n): what is resampled together."""
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


ALL = "all"
_NOISE_SDS = 2.0
Ends = tuple[float, float] | None


def plain(found: object) -> dict[str, Any]:
    """Return the fields of a dataclass, tuples as lists."""
    fields = vars(found).items()
    return {name: list(v) if isinstance(v, tuple) else v for name, v in fields}


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
        """Return the fields, JSON-able."""
        return plain(self)


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


@dataclass(frozen=True)
class Setup:
    """What an evaluation is of; two with the same setup can be compared instance by instance.

    ``split`` and ``options`` say how the dataset with the ``digest`` was parted; ``noise`` was put
    on training times, ``seed`` is that of noise and intervals; ``max_nprocs`` left instances out;
    ``judged_by`` is the statistic of the repetitions that the tested times are; ``profile`` the
    digest of the profile by which instances have weights, None without one; ``confirm`` tells that
    a half of the record was left to the confirmation of decisions.
    """

    data: Context
    digest: str
    split: str
    options: Mapping[str, Any]
    noise: float = 0.0
    seed: int = 0
    max_nprocs: int | None = None
    judged_by: str = Objective.MEDIAN.value
    profile: str | None = None
    confirm: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {
            "context": asdict(self.data),
            "dataset_digest": self.digest,
            "split": self.split,
            "split_options": dict(self.options),
            "noise": self.noise,
            "seed": self.seed,
            "max_nprocs": self.max_nprocs,
            "judged_by": self.judged_by,
            "profile": self.profile,
            "confirm": self.confirm,
        }


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What selectors decided on the test instances of one split.

    ``train_nodes`` and ``test_nodes`` are those of any fold; ``decided`` is by selector, baselines
    first; ``objective`` is the statistic that was learned; ``notes`` say what is missing;
    ``covered`` is the share of the application's time in collectives that the instances stand for,
    None if they do not count by a profile.

    ``guard`` is whether learners' decisions were guarded, ``colltune_version`` that which
    evaluated.
    """

    setup: Setup
    guard: bool
    objective: str
    train_nodes: tuple[int, ...]
    test_nodes: tuple[int, ...]
    tested: Instances
    decided: Mapping[str, Decided]
    colltune_version: str
    notes: tuple[str, ...] = ()
    covered: float | None = None

    @cached_property
    def scores(self) -> dict[str, dict[str, Score]]:
        """The figures by selector and by collective or ``all``."""
        return {
            name: scores(self.tested, one, self.setup.seed) for name, one in self.decided.items()
        }

    @property
    def learners(self) -> tuple[str, ...]:
        """The selectors asked for, without the baselines."""
        return tuple(name for name, one in self.decided.items() if one.learner)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a JSON-able dictionary with stable keys."""
        setup = self.setup
        return {
            "data": str(setup.data),
            "split": setup.split,
            "split_options": dict(setup.options),
            "train_nodes": list(self.train_nodes),
            "test_nodes": list(self.test_nodes),
            "guard": self.guard,
            "noise": setup.noise,
            "seed": setup.seed,
            "objective": self.objective,
            "judged_by": setup.judged_by,
            "profile": setup.profile,
            "profile_covered": self.covered,
            "confirm": setup.confirm,
            "selectors": {
                selector: {name: score.as_dict() for name, score in rows.items()}
                for selector, rows in self.scores.items()
            },
            "notes": list(self.notes),
        }
