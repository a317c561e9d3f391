"""Two evaluations of the same instances, compared pairwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colltune.errors import DataError
from colltune.evaluation import bootstrap
from colltune.evaluation.evaluation import ALL, Decided, Evaluation, Instances, plain, slowed
from colltune.models.guard import HARM

Ends = tuple[float, float] | None


@dataclass(frozen=True)
class Difference:
    """How much better the second of two selectors is on one collective, or on all.

    ``speedup`` is the geometric mean of t_first / t_second, ``share`` and ``harm`` the second's
    share of log gain, and share of harm, less the first's (share: None if there is nothing to
    gain). ``better`` and ``worse`` are the shares of instances on which the second is faster, or
    slower, than the first by more than 5 %. ``*_interval`` are 95 % bootstrap intervals of the
    paired difference, None for fewer than three shapes, that of harm also without any harm.
    """

    collective: str
    instances: int
    shapes: int
    speedup: float
    speedup_interval: Ends
    share: float | None
    share_interval: Ends
    harm: float
    harm_interval: Ends
    better: float
    worse: float

    def as_dict(self) -> dict[str, Any]:
        return plain(self)


@dataclass(frozen=True)
class Comparison:
    """The differences of two selectors of one split, by collective and of all together."""

    split: str
    first: str
    second: str
    differences: tuple[Difference, ...]

    def as_dict(self) -> dict[str, Any]:
        return plain(self) | {"differences": [d.as_dict() for d in self.differences]}


def differences(
    tested: Instances, first: Decided, second: Decided, seed: int = 0
) -> tuple[Difference, ...]:
    """Compare two selectors that decided the same instances, on the same bootstrap draws."""
    names = [*tested.collectives, None]
    return tuple(_difference(tested, first, second, name, seed) for name in names)


def _difference(
    tested: Instances, first: Decided, second: Decided, collective: str | None, seed: int
) -> Difference:
    rows = tested.of(collective)
    default = tested.default_s[rows]
    possible = np.log(default / tested.best_s[rows])
    chosen = [one.selected_s[rows] for one in (first, second)]
    gains = [np.log(default / selected) for selected in chosen]
    slower, harmed = (
        [flags[rows] for flags in kind]
        for kind in zip(*(slowed(tested, one) for one in (first, second)), strict=True)
    )
    blocks, weights = tested.blocks()[rows], tested.weights[rows]
    both = [
        bootstrap.sums(blocks, gain, possible, slow, harm, weights)
        for gain, slow, harm in zip(gains, slower, harmed, strict=True)
    ]
    ends = _intervals(both, seed)
    total, mass = float((weights * possible).sum()), float(weights.sum())
    gained = float((weights * (gains[1] - gains[0])).sum())
    ratio = chosen[1] / chosen[0]
    return Difference(
        collective=ALL if collective is None else collective,
        instances=len(default),
        shapes=len(both[0].instances),
        speedup=float(np.exp(gained / mass)),
        speedup_interval=ends[0],
        share=gained / total if total > 0 else None,
        share_interval=ends[1],
        harm=float((weights * (harmed[1].astype(float) - harmed[0])).sum() / mass),
        harm_interval=ends[2],
        better=float(weights[ratio * HARM < 1].sum() / mass),
        worse=float(weights[ratio > HARM].sum() / mass),
    )


def _intervals(both: Sequence[bootstrap.Sums], seed: int) -> tuple[Ends, Ends, Ends]:
    counts = bootstrap.draws(len(both[0].instances), seed)
    if counts is None:
        return None, None, None
    one, other = (bootstrap.drawn(counts, sums) for sums in both)
    any_harm = any(sums.harmed.any() for sums in both)
    return (
        bootstrap.interval(other.geometric_mean_speedup / one.geometric_mean_speedup),
        bootstrap.interval(other.log_gain_share - one.log_gain_share),
        bootstrap.interval(other.harm_share - one.harm_share) if any_harm else None,
    )


def compare(
    first: Sequence[Evaluation], second: Sequence[Evaluation], names: tuple[str, str]
) -> list[Comparison]:
    """Compare the learners of two results, split by split; `names` say which they are in errors.

    A learner is compared with the one of the same name. Those without a namesake are compared in
    the order in which they were asked for.
    """
    common = [(run, other) for run in first if (other := _counterpart(run, second)) is not None]
    if not common:
        splits = [_listed(dict.fromkeys(r.setup.split for r in runs)) for runs in (first, second)]
        raise DataError(
            f"{names[0]} and {names[1]} have no split in common: the former has {splits[0]}, the"
            f" latter {splits[1]}; evaluate with the same --split"
        )
    found = []
    for mine, other in common:
        _refuse_others(mine, other, names)
        for a, b in _pairs(mine, other, names):
            found.append(
                Comparison(
                    mine.setup.split,
                    a,
                    b,
                    differences(mine.tested, mine.decided[a], other.decided[b], mine.setup.seed),
                )
            )
    return found


def _counterpart(run: Evaluation, others: Sequence[Evaluation]) -> Evaluation | None:
    """Return the run of the same split, of the same data if there is one."""
    same = [other for other in others if other.setup.split == run.setup.split]
    exact = [other for other in same if other.setup.digest == run.setup.digest]
    return next(iter((*exact, *same)), None)


def _pairs(mine: Evaluation, other: Evaluation, names: tuple[str, str]) -> list[tuple[str, str]]:
    same = [(name, name) for name in mine.learners if name in other.learners]
    alone = [name for name in mine.learners if name not in other.learners]
    others = [name for name in other.learners if name not in mine.learners]
    pairs = [*same, *zip(alone, others, strict=False)]
    if not pairs:
        raise DataError(
            f"nothing to compare: {names[0]} has the learners {_listed(mine.learners)},"
            f" {names[1]} {_listed(other.learners)}; evaluate with --learner"
        )
    return pairs


def _refuse_others(mine: Evaluation, other: Evaluation, names: tuple[str, str]) -> None:
    a, b = mine.setup.as_dict(), other.setup.as_dict()
    for key, what in _MUST_AGREE.items():
        if a[key] != b[key]:
            raise DataError(
                f"{names[0]} and {names[1]} are not comparable: split {mine.setup.split} has"
                f" {what} {_shown(a[key])} in the former and {_shown(b[key])} in the latter;"
                " evaluate both in the same way"
            )
    mine_tested, other_tested = mine.tested, other.tested
    if not _same(mine_tested, other_tested):
        raise DataError(
            f"{names[0]} and {names[1]} are not comparable: split {mine.setup.split} tested"
            f" {len(mine_tested)} and {len(other_tested)} instances that are not the same or have"
            " other times; evaluate both with this colltune"
        )


_MUST_AGREE = {
    "context": "the context",
    "dataset_digest": "the data",
    "split_options": "the options",
    "noise": "noise",
    "seed": "seed",
    "max_nprocs": "--max-nprocs",
    "judged_by": "--judge",
    "profile": "--profile",
    "confirm": "--confirm",
}


def _same(one: Instances, other: Instances) -> bool:
    return len(one) == len(other) and all(
        bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
        for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


def _shown(value: object) -> str:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else str(value)


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"
