"""One evaluation: a split of a dataset, what was decided on it, and the figures of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from colltune.dataset.objective import Objective
from colltune.domain import Context
from colltune.evaluation.figures import Score, scores
from colltune.evaluation.outcomes import Decided, Instances


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
