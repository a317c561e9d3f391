"""Whether a candidate comes into force: only if it is shown to be not worse.

Over all collectives the burden of proof is on the candidate, as in a trial of
non-inferiority (Piaggio et al., JAMA 308(24), 2012): the worse end of the 95 % bootstrap interval
of each paired difference must not be beyond its threshold. Of a single collective, which has fewer
instances, it must not be shown to be worse: there the better end counts. With fewer than three
shapes there are no intervals, and the differences themselves count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from colltune.domain import Shape
from colltune.evaluation.comparison import Difference
from colltune.evaluation.evaluation import ALL
from colltune.models.bundle import Bundle
from colltune.retraining.contest import Contest
from colltune.retraining.site_file import Thresholds
from colltune.selector.bundle_diff import Change, diff


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
    reasons = [_too_harmful(contest, thresholds)]
    if in_force is None:
        reasons.append(_worse_than_default(contest))
    else:
        lost = sorted(set(in_force.collectives) - set(candidate.collectives))
        if lost:
            reasons.append(f"it knows nothing of {', '.join(lost)}, which the one in force does")
        for difference in contest.differences:
            reasons += _worse(difference, thresholds)
    against = tuple(reason for reason in reasons if reason)
    if against:
        return PromotionVerdict(False, against)
    return PromotionVerdict(True, (_in_favour(contest),))


def _too_harmful(contest: Contest, thresholds: Thresholds) -> str:
    harm = contest.candidate_scores[ALL].slower_share
    if harm <= thresholds.harm_at_most:
        return ""
    return (
        f"{harm:.1%} of its held-out decisions are more than 5 % slower than the default; at most"
        f" {thresholds.harm_at_most:.1%} may be"
    )


def _worse_than_default(contest: Contest) -> str:
    speedup = contest.candidate_scores[ALL].geometric_mean_speedup
    if speedup >= 1.0:
        return ""
    return f"its held-out decisions are {1 / speedup:.3f} times as slow as the default"


def _worse(difference: Difference, thresholds: Thresholds) -> list[str]:
    """Return in what a candidate is worse, or not shown to be as good."""
    whole = difference.collective == ALL
    regret = _pessimistic(
        difference.speedup, difference.speedup_interval, whole, less_is_worse=True
    )
    harm = _pessimistic(difference.harm, difference.harm_interval, whole, less_is_worse=False)
    found = [
        ("regret", -math.log(regret), thresholds.regret_worse_by),
        ("harm", harm, thresholds.harm_worse_by),
    ]
    if difference.share is not None:
        share = _pessimistic(difference.share, difference.share_interval, whole, less_is_worse=True)
        found.append(("share of the possible gain", -share, thresholds.share_worse_by))
    where = "" if whole else f"{difference.collective}: "
    may_be = "may be" if whole and difference.speedup_interval else "is"
    return [
        f"{where}its {what} {may_be} worse by {by:.3f}; {limit:g} is allowed"
        for what, by, limit in found
        if by > limit
    ]


def _pessimistic(
    value: float, ends: tuple[float, float] | None, whole: bool, *, less_is_worse: bool
) -> float:
    """Return the end of an interval that counts: the worse for all, the better for a part."""
    if ends is None:
        return value
    return ends[0] if less_is_worse == whole else ends[1]


def _in_favour(contest: Contest) -> str:
    score = contest.candidate_scores[ALL]
    text = (
        f"{score.instances} held-out decisions on {score.shapes} shapes:"
        f" {score.geometric_mean_speedup:.3f}x the default, {score.slower_share:.1%} slower than it"
    )
    if contest.differences:
        text += f"; {contest.differences[-1].speedup:.3f}x the bundle in force"
    return text


_MOST_SHAPES = 16
_SHOWN = 20


def decision_changes(old: Bundle, new: Bundle) -> dict[str, Any]:
    """Return how much changes on some of the shapes measured, and the changes with most effect.

    Ratios are predicted times of the old over the new choice, by the new bundle's models.
    """
    found = diff(old, new, _spread(sorted({*old.training_shapes, *new.training_shapes})))
    judged = [change for change in found.changes if change.by_new.ratio is not None]
    ratios = [change.by_new.ratio for change in judged if change.by_new.ratio is not None]
    ranked = sorted(judged, key=_effect, reverse=True)
    return {
        "shapes": [str(shape) for shape in found.shapes],
        "changed": {c.value: extent.share for c, extent in found.extents.items()},
        "changes": len(found.changes),
        "predicted_ratio": float(np.exp(np.mean(np.log(ratios)))) if ratios else None,
        "largest": [_described(change) for change in ranked[:_SHOWN]],
    }


def _spread(shapes: list[Shape]) -> list[Shape]:
    """Return so many of `shapes` as a nightly run has time for, evenly chosen."""
    if len(shapes) <= _MOST_SHAPES:
        return shapes
    at = np.linspace(0, len(shapes) - 1, _MOST_SHAPES).round().astype(int)
    return [shapes[k] for k in at]


def _effect(change: Change) -> float:
    return abs(float(np.log(change.by_new.ratio or 1.0)))


def _described(change: Change) -> dict[str, Any]:
    return {
        "collective": change.collective.value,
        "shape": str(change.shape),
        "first_bytes": change.first_bytes,
        "last_bytes": change.last_bytes,
        "old": change.old.id,
        "new": change.new.id,
        "predicted_ratio": change.by_new.ratio,
    }
