"""The candidate against the bundle in force, on shapes that neither has learned from.

The bundle in force has most likely seen the shapes that are held out from the candidate, and would
be flattered by that; and the candidate must be judged without them. So both are judged by what they
would decide without: the learners of the bundle in force are fitted to the measurements that it was
made of, less the held-out shapes; the candidate's to all measurements, less the same shapes. What
harms the site's programs, and so is given to no job, is left out. Both then decide the same
instances, judged by all measurements of these. What is compared is thus what the new measurements,
and the new settings, are worth.

What is held out are parts of the data, few of them, since each is a refit. Neighbouring node counts
fall into different parts, so that every part is decided from counts on either side, as a job's own
node count is.

A bundle that cannot be made again without some shapes (it rests on other machines' measurements, or
on a learner that this colltune lacks) is judged as it is, which flatters it.

A candidate comes into force only if it is shown to be not worse. Over all collectives the burden of
proof is on the candidate, as in a trial of non-inferiority (Piaggio et al., JAMA 308(24), 2012):
the worse end of the 95 % interval of each paired difference must not be beyond its threshold; a
shape is one witness (`colltune.evidence.components`), and fewer than three of them show nothing. Of
a single collective, which has fewer instances, the candidate must not be shown to be worse: there
the better end counts.

Candidates of night after night would pass by luck in the end. So attempts against the same bundle
share the level, each a fifth of the one before. What is learned from nearly the same measurements
is no new attempt: the next one begins when these have doubled. Where jobs try candidates anyway,
each has the level of a first one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from colltune.dataset.objective import Objective, parse_objective
from colltune.domain import Collective, Configuration, Context
from colltune.evaluation.folds import CellNoise, Fold, FoldSource, legal_cells
from colltune.evaluation.recipes import FoldDecisions, Learned, Recipe, decided_by
from colltune.evaluation.run import decided
from colltune.evaluation.scores import (
    ALL,
    Decided,
    Difference,
    EvaluatedInstances,
    Score,
    differences,
    scores,
)
from colltune.evaluation.splits import Mask, MaskSplit
from colltune.evidence.components import LEAST_CLUSTERS, level_of
from colltune.models.bundle import Bundle
from colltune.models.cells import HELD_OUT, CellMatrix, cell_matrices, dealt
from colltune.models.fitting import LEAST_TO_HOLD_OUT, Progress
from colltune.models.guard import Guard
from colltune.models.learners import LEARNERS
from colltune.mpi.programs import Programs
from colltune.retraining.arrivals import Arrived
from colltune.retraining.site_file import Thresholds
from colltune.selector.bundle_diff import diff, mean_ratio, thinned
from colltune.text import UNPRINTED, computed, counted

Flags = NDArray[np.bool_]
IN_FORCE = "in force"


@dataclass(frozen=True, eq=False)
class Contest:
    """What the candidate and, if there is one, the bundle in force decide on held-out instances.

    The ``challenger`` is the candidate's decisions, the ``defender`` those of the one in force.
    """

    tested: EvaluatedInstances = field(metadata=UNPRINTED)
    challenger: Decided = field(metadata=UNPRINTED)
    defender: Decided | None = field(metadata=UNPRINTED)
    how: str
    """how the bundle in force was judged"""
    attempt: int = 1
    """the how manieth it is against it"""

    @computed
    def candidate(self) -> dict[str, Score]:
        """The candidate's figures by collective, and of all."""
        return scores(self.tested, self.challenger)

    @computed
    def in_force(self) -> dict[str, Score]:
        """The figures of the bundle in force, none if there is none."""
        return {} if self.defender is None else scores(self.tested, self.defender)

    @computed
    def differences(self) -> tuple[Difference, ...]:
        """How much better the candidate is, by collective, all last; none without a bundle."""
        if self.defender is None:
            return ()
        return differences(self.tested, self.defender, self.challenger, level_of(self.attempt))


@dataclass(frozen=True, eq=False)
class JudgedBundle:
    """How a bundle is judged: its learners on ``cells``, or, where these are None, as it is.

    What harms ``programs`` is never chosen.
    """

    bundle: Bundle
    cells: Mapping[Collective, CellMatrix] | None
    guard: Guard
    programs: Programs | None = None

    @property
    def name(self) -> str:
        """How its figures are called."""
        return IN_FORCE

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> FoldDecisions:
        """Return the decisions; what it knows nothing of is left to the default."""
        model = next((m for m in self.bundle.models if m.collective is fold.collective), None)
        if model is None:
            return _left_alone(context, fold)
        if self.cells is None:
            return decided_by(self.bundle, self.guard, fold, self.programs)
        cells = self.cells.get(fold.collective)
        training = None if cells is None else cells.rows(_among(cells, fold.training))
        if training is None or not len(training):
            return _left_alone(context, fold)
        recipe = Learned(model.learner, self.guard, model.feature_set)
        return recipe.decide(context, replace(fold, training=training), jobs)


@dataclass(frozen=True, eq=False)
class Measurements(FoldSource):
    """Measurements without an estimate of each cell's noise, which no threshold asks for."""

    @cached_property
    def noise(self) -> CellNoise:
        """Nothing is known of any cell."""
        return CellNoise({}, {})


@dataclass(frozen=True)
class Contestants:
    """Who is judged, and on what: ``source`` has all measurements, ``parts`` what is left out."""

    source: FoldSource
    parts: Parts
    learner: str
    guard: Guard
    jobs: int | None = None


def contest(
    of: Contestants, in_force: JudgedBundle | None, how: str, progress: Progress | None = None
) -> Contest:
    """Let the candidate's learner and the bundle in force decide what is held out."""
    folds = of.parts.folds(of.source)
    recipes: list[Recipe] = [Learned(of.learner, of.guard)]
    if in_force is not None:
        recipes.append(in_force)
    tested, found, _ = decided(of.source.dataset.context, folds, recipes, of.jobs, progress)
    return Contest(tested, found[of.learner], found.get(IN_FORCE), how)


def judged(
    bundle: Bundle,
    arrived: Arrived,
    known: frozenset[str],
    guard: Guard,
    programs: Programs | None = None,
) -> JudgedBundle:
    """Return how `bundle` is judged, which was fitted to the launches `known`.

    What harms `programs` is never chosen; None: everything may be.
    """
    if not _can_be_made_again(bundle) or not known:
        return JudgedBundle(bundle, None, guard, programs)
    cells = cell_matrices(arrived.of(known), objective_of(bundle))
    if programs is not None:
        cells = legal_cells(cells, bundle.context, programs)
    return JudgedBundle(bundle, cells, guard, programs)


def objective_of(bundle: Bundle) -> Objective:
    """Return the statistic that `bundle` was fitted to."""
    return parse_objective(bundle.objective)


def _can_be_made_again(bundle: Bundle) -> bool:
    own = all(model.coverage.own is None for model in bundle.models)
    return own and all(model.learner in LEARNERS for model in bundle.models)


def _among(cells: CellMatrix, others: CellMatrix) -> Flags:
    """Tell which instances of `cells` are among those of `others`, shape (n)."""
    known = set(others.instances())
    return np.array([instance in known for instance in cells.instances()], np.bool_)


def _left_alone(context: Context, fold: Fold) -> FoldDecisions:
    default = Configuration.default(context.library, fold.collective)
    return FoldDecisions((default,) * len(fold.testing), 0.0, 0.0)


_INSTEAD = ("shapes", "msizes")


@dataclass(frozen=True)
class Parts(MaskSplit):
    """Leave every part of the node counts (or what ``by`` names) out once.

    Where a collective has fewer than three of them, whole shapes are left out; with fewer than
    three shapes, message sizes.
    """

    name: ClassVar[str] = "parts"
    needs: ClassVar[str] = "a collective measured at 3 node counts, shapes or message sizes"
    by: str = "nodes"
    parts: int = 4

    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return a fold per part."""
        for by in (self.by, *_INSTEAD):
            part_of = dealt(HELD_OUT[by](cells), self.parts)
            if len(np.unique(HELD_OUT[by](cells))) >= LEAST_TO_HOLD_OUT:
                n_parts = int(part_of.max()) + 1
                return [
                    Mask(f"{by}, part {part + 1} of {n_parts}", part_of != part, part_of == part)
                    for part in range(n_parts)
                ]
        return []


@dataclass(frozen=True)
class PromotionVerdict:
    """Whether the candidate may come into force; ``reasons`` say why not, or what it rests on."""

    promote: bool
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """The reasons as one text."""
        return "; ".join(self.reasons)


def judge(
    contest: Contest, thresholds: Thresholds, candidate: Bundle, in_force: Bundle | None
) -> PromotionVerdict:
    """Judge a candidate by its held-out decisions."""
    score = contest.candidate[ALL]
    against = []
    if score.slower_share > thresholds.harm_at_most:
        against.append(
            f"{score.slower_share:.1%} of its held-out decisions are more than 5 % slower "
            f"than the default; the limit is {thresholds.harm_at_most:.1%}"
        )
    speedup = score.geometric_mean_speedup
    if in_force is None and speedup < 1.0:
        against.append(f"its held-out decisions are {1 / speedup:.3f} times as slow as the default")
    lost = sorted(set(in_force.collectives) - set(candidate.collectives)) if in_force else []
    if lost:
        against.append(f"it has no models of {', '.join(lost)}, but the bundle in force has")
    for difference in contest.differences if in_force else ():
        against += _worse(difference, thresholds)
    if against:
        return PromotionVerdict(False, tuple(against))
    reason = (
        f"{counted(score.instances, 'held-out decision')} on "
        f"{counted(score.shapes, 'shape')}: {speedup:.3f}x the default, "
        f"{score.slower_share:.1%} of them slower than the default"
    )
    if contest.differences:
        reason += f"; {contest.differences[-1].speedup:.3f}x the bundle in force"
    return PromotionVerdict(True, (reason,))


def _worse(difference: Difference, thresholds: Thresholds) -> list[str]:
    """Return in what a candidate is worse, or not shown to be as good."""
    of_all, limits = difference.collective == ALL, thresholds
    if difference.speedup_interval is None:
        needed = f"the comparison needs {LEAST_CLUSTERS} shapes that are held out from both"
        return [f"{needed}; there are {difference.shapes}"] if of_all else []
    # the worse end for all, the better one for a part
    low, high = (0, 1) if of_all else (1, 0)
    found = [("regret", -math.log(difference.speedup_interval[low]), limits.regret_worse_by)]
    if difference.harm_interval is not None:
        found.append(("harm", difference.harm_interval[high], limits.harm_worse_by))
    if difference.share_interval is not None:
        share = difference.share_interval[low]
        found.append(("share of the possible gain", -share, limits.share_worse_by))
    where = "" if of_all else f"{difference.collective}: "
    may_be = "may be" if of_all else "is"
    return [
        f"{where}its {what} {may_be} worse by {by:.3f}; the limit is {limit:g}"
        for what, by, limit in found
        if by > limit
    ]


_SHOWN = 20


def decision_changes(old: Bundle, new: Bundle) -> dict[str, Any]:
    """Return how much changes on some of the shapes measured, and the changes with most effect.

    Ratios are predicted times of the old over the new choice, by the new bundle's models.
    """
    found = diff(old, new, thinned(old, new))
    return {
        "shapes": [str(shape) for shape in found.shapes],
        "changed": {c.value: extent.share for c, extent in found.extents.items()},
        "changes": len(found.changes),
        "predicted_ratio": mean_ratio(found.changes),
        "largest": [
            {
                "collective": change.collective.value,
                "shape": str(change.shape),
                "first_bytes": change.first_bytes,
                "last_bytes": change.last_bytes,
                "old": change.old.id,
                "new": change.new.id,
                "predicted_ratio": change.by_new.ratio,
            }
            for change in found.ranked()[:_SHOWN]
        ],
    }
