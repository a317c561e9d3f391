"""One evaluation: a split of a dataset, what was decided on it; and two of them compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from colltune.dataset.objective import Objective
from colltune.domain import Context
from colltune.errors import DataError
from colltune.evaluation.scores import (
    Decided,
    Difference,
    EvaluatedInstances,
    Score,
    differences,
    plain,
    scores,
)


@dataclass(frozen=True)
class EvaluationSetup:
    """What an evaluation is of; two with the same setup can be compared instance by instance.

    ``split`` and ``options`` say how the dataset with the ``digest`` was parted; ``noise`` was put
    on training times, drawn with ``seed``; ``max_nprocs`` left instances out;
    ``judged_by`` is the statistic of the repetitions that the tested times are; ``profile`` the
    digest of the profile by which instances have weights, None without one; ``confirm`` tells that
    a half of the record was left to the confirmation of decisions; what harms ``programs`` was
    left out, None: nothing was.
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
    programs: str | None = None

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
            "programs": self.programs,
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

    setup: EvaluationSetup
    guard: bool
    objective: str
    train_nodes: tuple[int, ...]
    test_nodes: tuple[int, ...]
    tested: EvaluatedInstances
    decided: Mapping[str, Decided]
    colltune_version: str
    notes: tuple[str, ...] = ()
    covered: float | None = None

    @cached_property
    def scores(self) -> dict[str, dict[str, Score]]:
        """The figures by selector and by collective or ``all``."""
        return {name: scores(self.tested, one) for name, one in self.decided.items()}

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


@dataclass(frozen=True)
class Comparison:
    """The differences of two selectors of one split, by collective and of all together."""

    split: str
    first: str
    second: str
    differences: tuple[Difference, ...]

    def as_dict(self) -> dict[str, Any]:
        return plain(self) | {"differences": [d.as_dict() for d in self.differences]}


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
            f"{names[0]} and {names[1]} have no split in common: {names[0]} has {splits[0]}, "
            f"{names[1]} has {splits[1]}. Evaluate both with the same --split."
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
                    differences(mine.tested, mine.decided[a], other.decided[b]),
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
            f"there are no learners to compare: {names[0]} has {_listed(mine.learners)}, "
            f"{names[1]} has {_listed(other.learners)}. Evaluate both with the same --learner."
        )
    return pairs


def _refuse_others(mine: Evaluation, other: Evaluation, names: tuple[str, str]) -> None:
    a, b = mine.setup.as_dict(), other.setup.as_dict()
    for key, what in _MUST_AGREE.items():
        if a[key] != b[key]:
            raise DataError(
                f"{names[0]} and {names[1]} cannot be compared: in split {mine.setup.split} "
                f"{what} is {_shown(a[key])} in the first and {_shown(b[key])} in the second. "
                "Evaluate both in the same way."
            )
    mine_tested, other_tested = mine.tested, other.tested
    if not _same(mine_tested, other_tested):
        raise DataError(
            f"{names[0]} and {names[1]} cannot be compared: in split {mine.setup.split} they "
            f"tested different instances or times ({len(mine_tested)} and {len(other_tested)} "
            "instances). Evaluate both with this colltune."
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
    "programs": "--programs",
}


def _same(one: EvaluatedInstances, other: EvaluatedInstances) -> bool:
    return len(one) == len(other) and all(
        bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
        for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


def _shown(value: object) -> str:
    if value is None:
        return "not given"
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else str(value)


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"
